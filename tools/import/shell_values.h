// What a shell's words are worth: text whose characters know where they stand in which file, and whether anybody knows
// them. See shell_run.h.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace orrery::tools {

/// A character. What only a run can say stands as the script writes it ("$(hostname)", "$1").
struct ShellChar {
  /// `unset`: of a variable that nobody assigned, or of an argument that was not given; empty in a bare environment.
  enum class Known : std::uint8_t { known, unset, opaque };
  char c = 0;
  bool quoted = false;
  Known known = Known::known;
  std::uint16_t file = 0;  // among those that were read
  std::int32_t line = 0, column = 0;
  friend bool operator==(const ShellChar& a, const ShellChar& b) { return a.c == b.c && a.known == b.known; }
};
using ShellText = std::vector<ShellChar>;

std::string plain(const ShellText& text);
/// Whether every character is known.
bool is_known(const ShellText& text);
/// Whether it is nothing but what is unset, and something of it.
bool is_unset(const ShellText& text);
/// Without what is unset: what a bare environment makes of it.
ShellText without_unset(const ShellText& text);
ShellText text_at(std::string_view text, const ShellChar& place);

/// A variable: one text, a list of them, or texts by key.
struct ShellValue {
  bool array = false, keyed = false;
  std::vector<ShellText> items;
  std::map<std::string, ShellText> keys;
  friend bool operator==(const ShellValue&, const ShellValue&) = default;
};

/// Whether a text is of a pattern of the shell (* ? [...] and quotes that make them plain).
bool shell_matches(const ShellText& text, const ShellText& pattern);

/// The value of an expression of whole numbers, as $((...)) and (( )) have them, and -eq of a test. `value`: of a name;
/// `assign`: what the expression sets. Nothing where a name has no number, or the result has none.
std::optional<std::int64_t> shell_sum(
    const std::string& expression, const std::function<std::optional<std::int64_t>(const std::string&)>& value,
    const std::function<void(const std::string&, std::optional<std::int64_t>)>& assign);

}  // namespace orrery::tools
