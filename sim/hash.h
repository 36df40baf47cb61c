// 64-bit mixing, for colours in folding and for noise without state, and FNV-1a for keys and names. The finaliser is
// that of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014; constants:
// Stafford's variant 13).
#pragma once

#include <bit>
#include <cstdint>
#include <string_view>

namespace orrery::sim {

/// A bijection of 64-bit words in which every input bit moves about half of the output bits.
constexpr std::uint64_t mix64(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/// A hash of an ordered pair.
constexpr std::uint64_t hash_pair(std::uint64_t a, std::uint64_t b) {
  return mix64(mix64(a) ^ (b * 0xd6e8feb86659fd93u));
}

/// FNV-1a (Fowler, Noll, Vo; 64 bit), of bytes or of whole numbers one after another: a check against mistakes, not
/// against an adversary, and the same on every machine.
class Fnv1a {
 public:
  constexpr Fnv1a& add(std::uint64_t byte_or_number) {
    value_ = (value_ ^ byte_or_number) * 1099511628211u;
    return *this;
  }
  constexpr Fnv1a& add_text(std::string_view text) {
    for (const char c : text) add(static_cast<unsigned char>(c));
    return *this;
  }
  constexpr std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 14695981039346656037u;
};

/// Keeps `kept_bits` significant bits of a positive finite number, rounding to nearest.
template <int kept_bits>
double round_significant(double x) {
  static_assert(kept_bits > 1 && kept_bits < 53);
  constexpr int kDropped = 53 - kept_bits;
  auto bits = std::bit_cast<std::uint64_t>(x);
  bits += std::uint64_t{1} << (kDropped - 1);
  bits &= ~((std::uint64_t{1} << kDropped) - 1);
  return std::bit_cast<double>(bits);
}

}  // namespace orrery::sim
