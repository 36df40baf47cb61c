// See written_out.h.
#include "sim/written_out.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace orrery::sim {

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Digits, with one point among them at most.
bool is_plain(std::string_view number) {
  if (number.empty() || !is_digit(number.front()) || !is_digit(number.back())) return false;
  return std::all_of(number.begin(), number.end(), [](char c) { return is_digit(c) || c == '.'; }) &&
         std::count(number.begin(), number.end(), '.') <= 1;
}

}  // namespace

std::string written_out(const std::string& text) {
  constexpr std::array<std::pair<std::string_view, int>, 4> kPowers{{{"kK", 3}, {"mM", 6}, {"bBgG", 9}, {"tT", 12}}};
  if (text.empty()) return {};
  const std::string number = text.substr(0, text.size() - 1);
  for (const auto& [letters, power] : kPowers) {
    if (letters.find(text.back()) != std::string_view::npos && is_plain(number))
      return fmt::format("; write {}e{} for {}", number, power, text);
  }
  std::string digits = text;
  digits.erase(std::remove_if(digits.begin(), digits.end(), [](char c) { return c == '_' || c == ',' || c == '\''; }),
               digits.end());
  return digits != text && is_plain(digits) && is_digit(text.front()) && is_digit(text.back())
             ? fmt::format("; write {} for {}", digits, text)
             : "";
}

}  // namespace orrery::sim
