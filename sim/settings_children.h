// Internal to the room: what a list or a mapping of settings holds.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/settings.h"

namespace orrery::sim {

struct Settings::Children {
  std::shared_ptr<const std::string> path;  // of a list that has items
  std::vector<Settings> items;
  std::vector<std::pair<std::string, Settings>> members;
  std::string_view checked_as = {};  // see Settings::checked_as(); of a text that stays
};

}  // namespace orrery::sim
