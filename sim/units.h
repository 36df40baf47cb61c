// Units as types. Time is an integer count of picoseconds: exact, ordered, and the same on every machine; an int64
// holds 106 days of it. Sizes are integer bytes; rates are doubles, because a fair share is rarely a whole number.
#pragma once

#include <cmath>
#include <compare>
#include <cstdint>
#include <limits>

namespace orrery::sim {

/// A number with a unit. Sums need equal units; products with plain numbers keep the unit.
template <class Tag, class Rep>
class Quantity {
 public:
  using rep = Rep;
  constexpr Quantity() = default;
  constexpr explicit Quantity(Rep value) : value_(value) {}
  constexpr Rep value() const { return value_; }
  friend constexpr auto operator<=>(Quantity, Quantity) = default;
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return Quantity(a.value_ + b.value_); }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return Quantity(a.value_ - b.value_); }
  friend constexpr Quantity operator*(Quantity a, Rep factor) { return Quantity(a.value_ * factor); }
  friend constexpr Quantity operator*(Rep factor, Quantity a) { return Quantity(a.value_ * factor); }
  friend constexpr Rep operator/(Quantity a, Quantity b) { return a.value_ / b.value_; }
  friend constexpr Quantity operator/(Quantity a, Rep divisor) { return Quantity(a.value_ / divisor); }
  constexpr Quantity& operator+=(Quantity other) {
    value_ += other.value_;
    return *this;
  }
  constexpr Quantity& operator-=(Quantity other) {
    value_ -= other.value_;
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
  friend constexpr SimTime operator+(SimTime t, Duration d) { return SimTime(t.ps_ + d.value()); }
  friend constexpr Duration operator-(SimTime a, SimTime b) { return Duration(a.ps_ - b.ps_); }

 private:
  std::int64_t ps_ = 0;
};

/// Later than everything that can happen; also "not yet".
inline constexpr SimTime kNever{std::numeric_limits<std::int64_t>::max()};

/// Seconds as picoseconds, rounded to the nearest. The caller keeps |s| below 9e6.
inline Duration seconds(double s) { return Duration(std::llround(s * kPicosecondsPerSecond)); }
inline Duration microseconds(double us) { return seconds(us * 1e-6); }
inline constexpr double to_seconds(Duration d) { return static_cast<double>(d.value()) / kPicosecondsPerSecond; }
inline constexpr double to_seconds(SimTime t) { return static_cast<double>(t.value()) / kPicosecondsPerSecond; }

/// Rounds up: moving a byte always takes time, so a transfer can never finish before it starts.
inline Duration operator/(Bytes size, Bandwidth rate) {
  return Duration(
      static_cast<std::int64_t>(std::ceil(static_cast<double>(size.value()) / rate.value() * kPicosecondsPerSecond)));
}

}  // namespace orrery::sim
