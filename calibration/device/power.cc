// See power.h.
#include "calibration/device/power.h"

#include <algorithm>
#include <cmath>

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

double clock_within_limit(const PowerModel& power, const Duty& duty) {
  const auto within = [&](double clock) {
    return joules_at(power, duty, clock) <= power.limit * seconds_at(power, duty, clock);
  };
  if (!power.known() || !(seconds_at(power, duty, 1) > 0) || within(1)) return 1;
  double low = kLowestClock, high = 1;
  // Mean power grows with the clock, so halving finds it; forty times is below a picosecond in a minute.
  for (int i = 0; i < 40; ++i) {
    const double middle = (low + high) / 2;
    (within(middle) ? low : high) = middle;
  }
  return low;
}

}  // namespace orrery::calibration
