// What libc++ 14, Emscripten's, lacks of C++20's library, for the rooms as they are: the module's build puts it ahead
// of every source file, no other build sees it. Adding to namespace std is what the language forbids and what every
// such header does; each part goes with the library that has its own.
#pragma once

#include <bit>
#include <charconv>
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
/// The nearest double to the number at the front of [first, last); library_gaps.cc has it. Neither white space, a plus,
/// hexadecimal digits nor words belong to a number.
from_chars_result from_chars(const char* first, const char* last, double& value);
#endif

}  // namespace std
