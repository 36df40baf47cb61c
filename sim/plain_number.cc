// One pass over the characters; see plain_number.h.
#include "sim/plain_number.h"

#include <array>
#include <cstddef>
#include <cstdint>

namespace orrery::sim {

std::optional<double> plain_number(std::string_view text) {
  constexpr std::size_t kDigits = 15;
  constexpr std::array<double, kDigits + 1> kTens{1e0, 1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                                  1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
  const bool minus = text.starts_with('-');
  if (minus) text.remove_prefix(1);
  std::int64_t whole = 0;
  std::size_t point = text.size();
  if (text.size() > kDigits + 1) return std::nullopt;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c >= '0' && c <= '9') {
      whole = 10 * whole + (c - '0');
    } else if (c == '.' && point == text.size()) {
      point = i;
    } else {
      return std::nullopt;
    }
  }
  const std::size_t behind = point < text.size() ? text.size() - point - 1 : 0;
  if (point == 0 || point + 1 == text.size() || point + behind > kDigits) return std::nullopt;
  const double value = static_cast<double>(whole) / kTens[behind];
  return minus ? -value : value;
}

}  // namespace orrery::sim
