// Enumerations as documents write them: one of some names, which stand in the order of the enumeration.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "sim/settings.h"

namespace orrery::calibration {

/// The member `key` of a section that may be absent, `fallback` where it is. Throws sim::UserError for another name.
template <class Choice>
Choice choice_at(const sim::Settings* section, std::string_view key, Choice fallback,
                 const std::vector<std::string>& names) {
  if (section == nullptr) return fallback;
  const std::string name = section->get_choice(key, names[static_cast<std::size_t>(fallback)], names);
  return static_cast<Choice>(std::find(names.begin(), names.end(), name) - names.begin());
}

}  // namespace orrery::calibration
