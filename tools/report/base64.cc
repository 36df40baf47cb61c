// Columns of numbers as text: base64 of RFC 4648, with padding.
#include <bit>
#include <cstdint>

#include "tools/report/page.h"

namespace orrery::tools {

std::string base64(const void* bytes, std::size_t size) {
  static_assert(std::endian::native == std::endian::little, "columns are written as they lie in memory");
  static constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const auto* data = static_cast<const unsigned char*>(bytes);
  std::string out;
  out.reserve((size + 2) / 3 * 4);
  for (std::size_t i = 0; i < size; i += 3) {
    std::uint32_t word = static_cast<std::uint32_t>(data[i]) << 16;
    if (i + 1 < size) word |= static_cast<std::uint32_t>(data[i + 1]) << 8;
    if (i + 2 < size) word |= data[i + 2];
    out += kDigits[word >> 18];
    out += kDigits[(word >> 12) & 63];
    out += i + 1 < size ? kDigits[(word >> 6) & 63] : '=';
    out += i + 2 < size ? kDigits[word & 63] : '=';
  }
  return out;
}

}  // namespace orrery::tools
