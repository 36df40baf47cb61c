// See power.h.
#include "calibration/device/power.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "sim/error.h"

namespace orrery::calibration {

namespace {

double energy_of(const PowerModel& power, const std::array<double, kDataTypes>& flops) {
  double joules = 0;
  for (std::size_t t = 0; t < kDataTypes; ++t) joules += power.per_flop[t] * flops[t];
  return joules;
}

}  // namespace

Duty& Duty::operator+=(const Duty& other) {
  products += other.products;
  attention += other.attention;
  elements += other.elements;
  streaming += other.streaming;
  exchanges += other.exchanges;
  for (std::size_t t = 0; t < kDataTypes; ++t) {
    flops[t] += other.flops[t];
    attention_flops[t] += other.attention_flops[t];
  }
  bytes += other.bytes;
  sent += other.sent;
  return *this;
}

Duty operator*(Duty duty, double times) {
  for (double* part :
       {&duty.products, &duty.attention, &duty.elements, &duty.streaming, &duty.exchanges, &duty.bytes, &duty.sent})
    *part *= times;
  for (double& f : duty.flops) f *= times;
  for (double& f : duty.attention_flops) f *= times;
  return duty;
}

Duty at_clock(Duty duty, const PowerModel& power, double clock) {
  SIM_CHECK(clock > 0 && clock <= 1, "a clock of {}", clock);
  duty.products /= power.product_speed(clock);
  duty.attention /= clock;
  duty.elements /= clock;
  return duty;
}

double seconds_at(const PowerModel& power, const Duty& duty, double clock) {
  const Duty there = at_clock(duty, power, clock);
  return there.products + there.attention + there.elements + there.streaming + there.exchanges;
}

double exchange_joules(const PowerModel& power, const Duty& duty) {
  return (power.per_link_byte + 2 * power.per_byte) * duty.sent;
}

Activity activity_of(const PowerModel& power, const Duty& there, double clock) {
  // Watts of activity fall with the speed to the exponent, energy of an operation to one less.
  const double n = power.exponent, of_products = power.product_speed(clock);
  Activity activity;
  activity.active =
      power.active *
      (std::pow(of_products, n) * there.products +
       std::pow(clock, n) * (there.attention + there.elements + there.streaming + power.exchange * there.exchanges));
  activity.products = energy_of(power, there.flops) * std::pow(of_products, n - 1) +
                      power.attention * energy_of(power, there.attention_flops) * std::pow(clock, n - 1);
  activity.memory = power.per_byte * there.bytes;
  return activity;
}

double joules_at(const PowerModel& power, const Duty& duty, double clock) {
  return power.standing * seconds_at(power, duty, clock) +
         activity_of(power, at_clock(duty, power, clock), clock).sum() + exchange_joules(power, duty);
}

namespace {

/// A clock within the limit and one beyond it, close to each other but not so close that rounding tells them apart; the
/// lowest and the highest where there are none.
std::pair<double, double> clocks_around(const PowerModel& power, const Duty& duty) {
  const auto beyond = [&](double clock) {
    return joules_at(power, duty, clock) - power.limit * seconds_at(power, duty, clock);
  };
  double low = kLowestClock, high = 1, of_low = beyond(low), of_high = beyond(high), guess = low;
  if (of_low > 0) return {kLowestClock, 1};
  constexpr int kSteps = 8;
  for (int i = 0, side = 0; i < kSteps && of_high > of_low; ++i) {
    guess = (low * of_high - high * of_low) / (of_high - of_low);
    const double value = beyond(guess);
    // The end that stays counts half the next time (the Illinois algorithm).
    if (value <= 0) {
      low = guess;
      of_low = value;
      if (side == -1) of_high /= 2;
      side = -1;
    } else {
      high = guess;
      of_high = value;
      if (side == 1) of_low /= 2;
      side = 1;
    }
  }
  constexpr double kApart = 1e-10;
  const double inside = guess - kApart, outside = guess + kApart;
  return {inside > kLowestClock && beyond(inside) <= 0 ? inside : kLowestClock,
          outside < 1 && beyond(outside) > 0 ? outside : 1};
}

}  // namespace

double clock_within_limit(const PowerModel& power, const Duty& duty) {
  const auto within = [&](double clock) {
    return joules_at(power, duty, clock) <= power.limit * seconds_at(power, duty, clock);
  };
  if (!power.known() || !(seconds_at(power, duty, 1) > 0) || within(1)) return 1;
  // Mean power grows with the clock, so halving finds it; forty times is below a picosecond in a minute. On which side
  // most middles lie is clear from a few clocks around it, which false position finds first.
  const auto [inside, outside] = clocks_around(power, duty);
  double low = kLowestClock, high = 1;
  for (int i = 0; i < 40; ++i) {
    const double middle = (low + high) / 2;
    const bool allowed = middle <= inside || (middle < outside && within(middle));
    (allowed ? low : high) = middle;
  }
  return low;
}

}  // namespace orrery::calibration
