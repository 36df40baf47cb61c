// How many draws a test makes, and which pairs of a table it tries: all of them, or under sanitizers, which take ten
// times as long, some.
#pragma once

#include <cstddef>

namespace orrery::tests {

#ifdef __SANITIZE_ADDRESS__
constexpr bool kThins = true;
#else
constexpr bool kThins = false;
#endif

/// All draws, or one of eight.
template <typename T>
constexpr T thinned(T draws) {
  return kThins ? draws / 8 : draws;
}

/// Whether the pair of an input and what reads it is tried: always, or one of `of`, every input and every reader among
/// them where `of` is no larger than either list.
constexpr bool tried(std::size_t input, std::size_t reader, std::size_t of) {
  return !kThins || (input + reader) % of == 0;
}

}  // namespace orrery::tests
