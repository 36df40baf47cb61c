// The table of a software generation's keys, which software_rows.cc holds and software.cc reads by.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "calibration/framework/software.h"

namespace orrery::calibration {

struct SoftwareRow {
  /// What stands in a document: a word on how other keys are set, a key, or one that a collective library may set.
  enum class Kind : std::uint8_t { form, key, library };
  sim::Key doc;
  std::function<void(Software&, const sim::Settings&)> read;
  Kind kind = Kind::key;
  bool is_block() const { return doc.type == "mapping" && kind == Kind::key; }
};

const std::vector<SoftwareRow>& software_rows();

}  // namespace orrery::calibration
