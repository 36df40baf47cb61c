// What libc++ 14, Emscripten's, lacks of C++20's library, for the rooms as they are: the module's build puts it ahead
// of every source file, no other build sees it. Adding to namespace std is what the language forbids and what every
// such header does; each part goes with the library that has its own.
#pragma once

#include <bit>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string>
#include <version>

namespace std {

#ifndef __cpp_lib_bit_cast
template <class To, class From>
constexpr To bit_cast(const From& from) noexcept {
  static_assert(sizeof(To) == sizeof(From), "bit_cast keeps every bit");
  return __builtin_bit_cast(To, from);
}
#endif

#ifndef __cpp_lib_to_chars
/// The nearest double to the number at the front of [first, last): strtod of musl rounds correctly, and the module sets
/// no locale. Neither white space, a plus, hexadecimal digits nor words belong to a number.
inline from_chars_result from_chars(const char* first, const char* last, double& value) {
  const auto digits = [last](const char* at) {
    while (at != last && *at >= '0' && *at <= '9') ++at;
    return at;
  };
  const char* at = first != last && *first == '-' ? first + 1 : first;
  const char* whole = digits(at);
  const char* end = whole;
  if (whole != last && *whole == '.') end = digits(whole + 1);
  if (whole == at && end <= whole + 1) return {first, errc::invalid_argument};
  if (end != last && (*end == 'e' || *end == 'E')) {
    const char* exponent = end + 1;
    if (exponent != last && (*exponent == '+' || *exponent == '-')) ++exponent;
    const char* after = digits(exponent);
    if (after != exponent) end = after;
  }
  errno = 0;
  const double read = strtod(string(first, end).c_str(), nullptr);
  if (errno == ERANGE) return {end, errc::result_out_of_range};
  value = read;
  return {end, errc{}};
}
#endif

}  // namespace std
