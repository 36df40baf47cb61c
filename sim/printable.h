// What a terminal would obey instead of show: control characters of ASCII and of ISO 6429 (C1), and Unicode's marks of
// direction and line, which make text read as what it is not (Boucher and Anderson, Trojan Source, USENIX Security
// 2023). A document that holds them is refused; messages go without them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace orrery::sim {

/// Bytes of the character at `at` of UTF-8 text; 0 where no character begins there (RFC 3629, without overlong forms
/// and surrogates).
std::size_t utf8_length(std::string_view text, std::size_t at);

/// Whether a terminal would obey the character at `at`, or what stands there is no character. Tabs and line breaks are
/// shown.
bool is_obeyed(std::string_view text, std::size_t at);

/// Whether `text` holds none of these.
bool is_printable(std::string_view text);

/// `text` without such characters.
std::string printable(std::string_view text);

}  // namespace orrery::sim
