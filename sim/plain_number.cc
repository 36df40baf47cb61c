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
  if (text.empty() || text.size() > kDigits + 1) return std::nullopt;
  const char *at = text.data(), *const end = at + text.size();
  std::int64_t whole = 0;
  unsigned digit = 0;
  const auto take_digits = [&] {
    for (; at != end && (digit = static_cast<unsigned char>(*at) - unsigned{'0'}) < 10; ++at)
      whole = 10 * whole + digit;
  };
  take_digits();
  std::size_t behind = 0;
  if (at != end) {
    if (*at != '.' || at == text.data() || ++at == end) return std::nullopt;
    behind = static_cast<std::size_t>(end - at);
    take_digits();
    if (at != end) return std::nullopt;
  }
  if (text.size() - (behind > 0 ? 1 : 0) > kDigits) return std::nullopt;
  const double value = behind > 0 ? static_cast<double>(whole) / kTens[behind] : static_cast<double>(whole);
  return minus ? -value : value;
}

}  // namespace orrery::sim
