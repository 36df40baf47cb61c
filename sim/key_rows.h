// A row of a table of keys as a call: path, type, unit, default, choices, meaning and bounds, as in struct Key, which
// stands in a line or two where a list in braces takes one for each.
#pragma once

#include <utility>

#include "sim/keys.h"

namespace orrery::sim {

inline Key key_row(std::string path, std::string type, std::string unit, std::string fallback,
                   std::vector<std::string> choices, std::string meaning, Bounds bounds = {}) {
  return {std::move(path),    std::move(type),    std::move(unit), std::move(fallback),
          std::move(choices), std::move(meaning), bounds};
}

}  // namespace orrery::sim
