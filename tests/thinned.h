// How many draws a test makes: all of them, or under sanitizers, which take ten times as long, one of eight.
#pragma once

namespace orrery::tests {

template <typename T>
constexpr T thinned(T draws) {
#ifdef __SANITIZE_ADDRESS__
  return draws / 8;
#else
  return draws;
#endif
}

}  // namespace orrery::tests
