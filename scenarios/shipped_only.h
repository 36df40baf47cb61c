// Who may have the library open files: a scenario that comes from elsewhere names what ships.
#pragma once

namespace orrery::scenarios {

/// While one lives, references that this thread resolves stand for shipped documents alone, whatever key holds them: a
/// path is refused as the user's error, and no file outside of data_directory() is read.
class ShippedOnly {
 public:
  ShippedOnly();
  ~ShippedOnly();
  ShippedOnly(const ShippedOnly&) = delete;
  ShippedOnly& operator=(const ShippedOnly&) = delete;
};

/// Whether one lives on this thread.
bool only_shipped();

}  // namespace orrery::scenarios
