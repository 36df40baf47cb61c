// Every column of every table, and every key of every JSON document, that a command writes: its unit and its meaning.
// `orrery help COLUMN` and the manual pages print this; a test runs the commands and finds each of their columns here.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <string_view>

namespace orrery::tools {

/// Names of commands, in an array of their own: a table of such lists is a constant, which takes no code.
struct CommandNames {
  static constexpr std::size_t kMost = 16;
  constexpr CommandNames(std::initializer_list<std::string_view> given) : count(given.size()) {
    std::copy(given.begin(), given.end(), names.begin());
  }
  constexpr const std::string_view* begin() const { return names.data(); }
  constexpr const std::string_view* end() const { return names.data() + count; }

  std::array<std::string_view, kMost> names;
  std::size_t count;
};

struct ColumnDoc {
  std::string_view name;     // as it stands in the table; a dotted path in a nested document
  std::string_view unit;     // empty when it has none
  std::string_view meaning;  // one sentence
  CommandNames commands;     // that write it
};

std::span<const ColumnDoc> columns();

}  // namespace orrery::tools
