// Internal to the room: what a list or a mapping of settings holds.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/settings.h"

namespace orrery::sim {

struct Settings::Children {
  Children() = default;
  /// Of one whose items are made.
  Children(const Children& other)
      : path(other.path), items(other.items), members(other.members), checked_as(other.checked_as) {}
  Children& operator=(const Children&) = delete;

  std::shared_ptr<const std::string> path;  // of a list that has items
  std::vector<Settings> items;
  std::vector<std::pair<std::string, Settings>> members;
  std::string_view checked_as = {};  // see Settings::checked_as(); of a text that stays
  /// Of a packed list of numbers, whose items nobody has asked for yet: where its items are packed. Else null.
  std::atomic<const char*> unmade = nullptr;
};

/// Makes the items of such a list, of which `list` is a copy.
void make_items(const Settings& list);
/// How many items one has, and its numbers, of eight bytes each.
std::pair<std::size_t, const char*> packed_numbers(const char* unmade);

}  // namespace orrery::sim
