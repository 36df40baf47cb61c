// UTF-8, and the characters of it that are not shown.
#include "sim/printable.h"

namespace orrery::sim {

std::size_t utf8_length(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const auto follows = [&](std::size_t i) { return (byte(i) & 0xc0U) == 0x80U; };
  const unsigned first = byte(at);
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return follows(at + 1) ? 2 : 0;
  if (first >= 0xe0 && first <= 0xef) {
    if ((first == 0xe0 && byte(at + 1) < 0xa0) || (first == 0xed && byte(at + 1) > 0x9f)) return 0;
    return follows(at + 1) && follows(at + 2) ? 3 : 0;
  }
  if (first >= 0xf0 && first <= 0xf4) {
    if ((first == 0xf0 && byte(at + 1) < 0x90) || (first == 0xf4 && byte(at + 1) > 0x8f)) return 0;
    return follows(at + 1) && follows(at + 2) && follows(at + 3) ? 4 : 0;
  }
  return 0;
}

bool is_obeyed(std::string_view text, std::size_t at) {
  const std::size_t length = utf8_length(text, at);
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[at + i]); };
  switch (length) {
    case 0:
      return true;
    case 1:
      return (byte(0) < 0x20 && text[at] != '\t' && text[at] != '\n' && text[at] != '\r') || byte(0) == 0x7f;
    case 2:  // C1: U+0080 to U+009F; the Arabic letter mark U+061C
      return (byte(0) == 0xc2 && byte(1) < 0xa0) || (byte(0) == 0xd8 && byte(1) == 0x9c);
    case 3:  // U+200E, U+200F, U+2028 to U+202E, U+2066 to U+2069; the byte order mark U+FEFF
      if (byte(0) == 0xef) return byte(1) == 0xbb && byte(2) == 0xbf && at > 0;
      if (byte(0) != 0xe2) return false;
      return (byte(1) == 0x80 && (byte(2) == 0x8e || byte(2) == 0x8f || (byte(2) >= 0xa8 && byte(2) <= 0xae))) ||
             (byte(1) == 0x81 && byte(2) >= 0xa6 && byte(2) <= 0xa9);
    default:
      return false;
  }
}

bool is_printable(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] >= ' ' && text[at] <= '~') {  // most text, by far
      ++at;
      continue;
    }
    if (is_obeyed(text, at)) return false;
    at += utf8_length(text, at);
  }
  return true;
}

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_length(text, at);
    if (!is_obeyed(text, at)) out.append(text, at, length);
    at += length > 0 ? length : 1;
  }
  return out;
}

}  // namespace orrery::sim
