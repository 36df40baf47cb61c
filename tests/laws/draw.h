// What laws on random scenarios draw with: the same on every machine.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace orrery::tests {

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(seed) {}
  std::int64_t below(std::int64_t n) { return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(n)); }
  bool chance(std::int64_t percent) { return below(100) < percent; }
  template <class T>
  T of(const std::vector<T>& values) {
    return values[static_cast<std::size_t>(below(static_cast<std::int64_t>(values.size())))];
  }
  std::string text(const std::vector<std::string>& values) { return of(values); }
  std::string flag() { return chance(50) ? "true" : "false"; }

 private:
  std::mt19937_64 random_;
};

}  // namespace orrery::tests
