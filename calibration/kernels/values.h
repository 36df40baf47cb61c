// Numbers that host and device agree on: pseudo-random inputs as a function of (seed, index), so that a reference on
// the host makes the same inputs instead of copying them, and the narrow floating-point formats, rounded to nearest
// even. SplitMix64: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014. fp8:
// Micikevicius et al., "FP8 formats for deep learning", arXiv 2209.05433 (OCP e4m3 and e5m2; AMD's gfx94x use another
// bias).
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#if defined(__CUDACC__) || defined(__HIPCC__)
#define ORRERY_BOTH __host__ __device__ inline
#else
#define ORRERY_BOTH inline
#endif

namespace orrery::calibration::gpu {

ORRERY_BOTH std::uint64_t scramble(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

ORRERY_BOTH std::uint64_t bits_at(std::uint64_t seed, std::uint64_t index) {
  return scramble(seed + (index + 1) * 0x9e3779b97f4a7c15ull);
}

/// About normal: mean 0, standard deviation 1, within +-3.47 (the sum of four uniform numbers).
ORRERY_BOTH float normal_at(std::uint64_t seed, std::uint64_t index) {
  const std::uint64_t b = bits_at(seed, index);
  const auto sum = static_cast<std::int32_t>((b & 0xffff) + ((b >> 16) & 0xffff) + ((b >> 32) & 0xffff) + (b >> 48));
  // Four times uniform over 2^16 values: mean 2 * 65535, standard deviation 2^16 sqrt(4 / 12).
  return static_cast<float>(sum - 131070) * (1.0f / 37837.2f);
}

/// Uniform between 0 and 1.
ORRERY_BOTH float draw_at(std::uint64_t seed, std::uint64_t index) {
  return static_cast<float>(bits_at(seed, index) >> 40) * (1.0f / 16777216.0f);
}

ORRERY_BOTH std::uint32_t bits_of(float value) {
  std::uint32_t bits = 0;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}
ORRERY_BOTH float float_of(std::uint32_t bits) {
  float value = 0;
  memcpy(&value, &bits, sizeof value);
  return value;
}

ORRERY_BOTH std::uint16_t to_bf16(float value) {
  const std::uint32_t bits = bits_of(value);
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
ORRERY_BOTH float from_bf16(std::uint16_t bits) { return float_of(static_cast<std::uint32_t>(bits) << 16); }

/// A format of `Exponent` and `Mantissa` bits whose largest number is `largest`, to which larger ones saturate.
template <int Exponent, int Mantissa>
ORRERY_BOTH std::uint32_t to_narrow(float value, float largest) {
  constexpr int kBias = (1 << (Exponent - 1)) - 1;
  const std::uint32_t sign = (bits_of(value) >> 31) << (Exponent + Mantissa);
  if (!(value == value)) return sign | ((1u << (Exponent + Mantissa)) - 1u);
  float size = value < 0 ? -value : value;
  if (size > largest) size = largest;
  int exponent = static_cast<int>(bits_of(size) >> 23) - 127;
  if (exponent < 1 - kBias) exponent = 1 - kBias;
  // Whole quanta of the binade; carrying into the next one, and subnormals, come out of the sum below.
  const auto quanta = static_cast<std::uint32_t>(rintf(ldexpf(size, Mantissa - exponent)));
  return sign | ((static_cast<std::uint32_t>(exponent + kBias - 1) << Mantissa) + quanta);
}
template <int Exponent, int Mantissa>
ORRERY_BOTH float from_narrow(std::uint32_t bits) {
  constexpr int kBias = (1 << (Exponent - 1)) - 1;
  const auto exponent = static_cast<int>((bits >> Mantissa) & ((1u << Exponent) - 1u));
  const std::uint32_t fraction = bits & ((1u << Mantissa) - 1u);
  const float size = exponent == 0
                         ? ldexpf(static_cast<float>(fraction), 1 - kBias - Mantissa)
                         : ldexpf(static_cast<float>(fraction + (1u << Mantissa)), exponent - kBias - Mantissa);
  return (bits >> (Exponent + Mantissa)) != 0 ? -size : size;
}

ORRERY_BOTH std::uint16_t to_fp16(float value) { return static_cast<std::uint16_t>(to_narrow<5, 10>(value, 65504.0f)); }
ORRERY_BOTH float from_fp16(std::uint16_t bits) { return from_narrow<5, 10>(bits); }
ORRERY_BOTH std::uint8_t to_e4m3(float value) { return static_cast<std::uint8_t>(to_narrow<4, 3>(value, 448.0f)); }
ORRERY_BOTH float from_e4m3(std::uint8_t bits) { return from_narrow<4, 3>(bits); }
ORRERY_BOTH std::uint8_t to_e5m2(float value) { return static_cast<std::uint8_t>(to_narrow<5, 2>(value, 57344.0f)); }
ORRERY_BOTH float from_e5m2(std::uint8_t bits) { return from_narrow<5, 2>(bits); }

/// AMD's gfx94x: a bias larger by one, and no negative zero, whose bits are its NaN.
ORRERY_BOTH std::uint8_t to_e4m3_fnuz(float value) {
  const std::uint8_t bits = to_e4m3(2 * value);
  return bits == 0x80 ? 0 : bits;
}
ORRERY_BOTH float from_e4m3_fnuz(std::uint8_t bits) { return from_e4m3(bits) / 2; }
ORRERY_BOTH std::uint8_t to_e5m2_fnuz(float value) {
  const std::uint8_t bits = to_e5m2(2 * value);
  return bits == 0x80 ? 0 : bits;
}
ORRERY_BOTH float from_e5m2_fnuz(std::uint8_t bits) { return from_e5m2(bits) / 2; }
/// Two numbers of 4 bits in a byte, the first in the lower half (Open Compute Project, microscaling formats 1.0).
ORRERY_BOTH std::uint8_t to_e2m1(float value) { return static_cast<std::uint8_t>(to_narrow<2, 1>(value, 6.0f)); }
ORRERY_BOTH float from_e2m1(std::uint32_t bits) { return from_narrow<2, 1>(bits & 15u); }

}  // namespace orrery::calibration::gpu
