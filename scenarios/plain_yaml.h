// Internal to the room: a reader for the plain part of YAML that shipped documents are written in, some ten times
// faster than a parser of the whole language.
#pragma once

#include <string>
#include <string_view>

namespace YAML {
struct Mark;
}

namespace orrery::scenarios {

/// What a document consists of, in its order: those events of YAML::EventHandler that plain documents have.
class PlainEvents {
 public:
  virtual ~PlainEvents() = default;
  /// Text, which `quoted` says to be no null; unquoted and empty: a null.
  virtual void on_scalar(const YAML::Mark& mark, std::string_view text, bool quoted) = 0;
  virtual void on_begin(const YAML::Mark& mark, bool sequence) = 0;
  virtual void on_end() = 0;
};

/// Sends the events of a document to `out`, as YAML::Parser would; false where the text holds anything beyond what
/// plain_yaml.cc lists, right or wrong, after events that count for nothing.
bool read_plain_yaml(const std::string& text, PlainEvents& out);

}  // namespace orrery::scenarios
