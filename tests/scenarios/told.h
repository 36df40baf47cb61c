// What a document says of itself, for tests that compare two readings of one file.
#pragma once

#include <fmt/format.h>

#include <string>

#include "sim/settings.h"

namespace orrery::tests {

/// Kinds, places, paths and texts of all its values, a line each.
inline std::string told(const sim::Settings& value) {
  std::string out =
      fmt::format("{} {}:{}:{} {} '{}'\n", static_cast<int>(value.kind()), value.place().file.text(),
                  value.place().line, value.place().column, value.path(), value.is_scalar() ? value.text() : "");
  if (value.is_mapping()) {
    for (const auto& [name, member] : value.members()) out += name + "=" + told(member);
  }
  if (value.is_sequence()) {
    for (const sim::Settings& item : value.items()) out += told(item);
  }
  return out;
}

}  // namespace orrery::tests
