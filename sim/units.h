// Units as types. Time is an integer count of picoseconds: exact, ordered, and the same on every machine; an int64
// holds 106 days of it. Sizes are integer bytes; rates are doubles, because a fair share is rarely a whole number.
// Integers that pass their type's ends stay there (saturate): an absurd input makes an absurdly long step, which is
// refused, and never a negative one.
#pragma once

#include <cmath>
#include <compare>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace orrery::sim {

// Arithmetic that stops at the ends of int64; doubles pass through.
template <class Rep>
constexpr Rep saturating_add(Rep a, Rep b) {
  if constexpr (std::is_integral_v<Rep>) {
    Rep sum{};
    if (__builtin_add_overflow(a, b, &sum)) [[unlikely]]
      return b < 0 ? std::numeric_limits<Rep>::min() : std::numeric_limits<Rep>::max();
    return sum;
  } else {
    return a + b;
  }
}
template <class Rep>
constexpr Rep saturating_subtract(Rep a, Rep b) {
  if constexpr (std::is_integral_v<Rep>) {
    Rep difference{};
    if (__builtin_sub_overflow(a, b, &difference)) [[unlikely]]
      return b < 0 ? std::numeric_limits<Rep>::max() : std::numeric_limits<Rep>::min();
    return difference;
  } else {
    return a - b;
  }
}
template <class Rep>
constexpr Rep saturating_multiply(Rep a, Rep b) {
  if constexpr (std::is_integral_v<Rep>) {
    Rep product{};
    if (__builtin_mul_overflow(a, b, &product)) [[unlikely]]
      return (a < 0) != (b < 0) ? std::numeric_limits<Rep>::min() : std::numeric_limits<Rep>::max();
    return product;
  } else {
    return a * b;
  }
}
/// The nearest integer; the ends of int64 beyond them, and the upper one for what is no number.
inline std::int64_t saturating_round(double x) {
  constexpr double kEnd = 0x1p63;
  if (!(x < kEnd)) [[unlikely]]
    return std::numeric_limits<std::int64_t>::max();
  if (x < -kEnd) [[unlikely]]
    return std::numeric_limits<std::int64_t>::min();
  return std::llround(x);
}

/// A number with a unit. Sums need equal units; products with plain numbers keep the unit.
template <class Tag, class Rep>
class Quantity {
 public:
  using rep = Rep;
  constexpr Quantity() = default;
  constexpr explicit Quantity(Rep value) : value_(value) {}
  constexpr Rep value() const { return value_; }
  friend constexpr auto operator<=>(Quantity, Quantity) = default;
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return Quantity(saturating_add(a.value_, b.value_)); }
  friend constexpr Quantity operator-(Quantity a, Quantity b) {
    return Quantity(saturating_subtract(a.value_, b.value_));
  }
  friend constexpr Quantity operator*(Quantity a, Rep factor) {
    return Quantity(saturating_multiply(a.value_, factor));
  }
  friend constexpr Quantity operator*(Rep factor, Quantity a) { return a * factor; }
  friend constexpr Rep operator/(Quantity a, Quantity b) { return a.value_ / b.value_; }
  friend constexpr Quantity operator/(Quantity a, Rep divisor) { return Quantity(a.value_ / divisor); }
  constexpr Quantity& operator+=(Quantity other) {
    value_ = saturating_add(value_, other.value_);
    return *this;
  }
  constexpr Quantity& operator-=(Quantity other) {
    value_ = saturating_subtract(value_, other.value_);
    return *this;
  }

 private:
  Rep value_{};
};

using Bytes = Quantity<struct BytesTag, std::int64_t>;
using Bandwidth = Quantity<struct BandwidthTag, double>;      // bytes per second
using FlopRate = Quantity<struct FlopRateTag, double>;        // floating-point operations per second
using Duration = Quantity<struct DurationTag, std::int64_t>;  // picoseconds

inline constexpr double kPicosecondsPerSecond = 1e12;

/// A point in simulated time, picoseconds after the start of the step.
class SimTime {
 public:
  constexpr SimTime() = default;
  constexpr explicit SimTime(std::int64_t picoseconds) : ps_(picoseconds) {}
  constexpr std::int64_t value() const { return ps_; }
  friend constexpr auto operator<=>(SimTime, SimTime) = default;
  friend constexpr SimTime operator+(SimTime t, Duration d) { return SimTime(saturating_add(t.ps_, d.value())); }
  friend constexpr Duration operator-(SimTime a, SimTime b) { return Duration(saturating_subtract(a.ps_, b.ps_)); }

 private:
  std::int64_t ps_ = 0;
};

/// Later than everything that can happen; also "not yet".
inline constexpr SimTime kNever{std::numeric_limits<std::int64_t>::max()};

/// Seconds as picoseconds, rounded to the nearest; beyond 9.2e6 s the longest there is.
inline Duration seconds(double s) { return Duration(saturating_round(s * kPicosecondsPerSecond)); }
/// A time that takes `factor` times as long, rounded to the nearest picosecond.
inline Duration scaled(Duration time, double factor) {
  return Duration(saturating_round(static_cast<double>(time.value()) * factor));
}
inline Duration microseconds(double us) { return seconds(us * 1e-6); }
inline constexpr double to_seconds(Duration d) { return static_cast<double>(d.value()) / kPicosecondsPerSecond; }
inline constexpr double to_seconds(SimTime t) { return static_cast<double>(t.value()) / kPicosecondsPerSecond; }

/// Rounds up: moving a byte always takes time, so a transfer can never finish before it starts.
inline Duration operator/(Bytes size, Bandwidth rate) {
  return Duration(
      saturating_round(std::ceil(static_cast<double>(size.value()) / rate.value() * kPicosecondsPerSecond)));
}

}  // namespace orrery::sim
