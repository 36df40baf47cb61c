// See power.h.
#include "calibration/power.h"

#include <algorithm>
#include <cmath>

#include "sim/error.h"

namespace orrery::calibration {

Duty& Duty::operator+=(const Duty& other) {
  clocked += other.clocked;
  streaming += other.streaming;
  waiting += other.waiting;
  for (std::size_t t = 0; t < kDataTypes; ++t) flops[t] += other.flops[t];
  bytes += other.bytes;
  sent += other.sent;
  return *this;
}

Duty operator*(Duty duty, double times) {
  duty.clocked *= times;
  duty.streaming *= times;
  duty.waiting *= times;
  for (double& f : duty.flops) f *= times;
  duty.bytes *= times;
  duty.sent *= times;
  return duty;
}

double seconds_at(const Duty& duty, double clock) { return duty.clocked / clock + duty.streaming + duty.waiting; }

double exchange_joules(const PowerModel& power, const Duty& duty) {
  return (power.per_link_byte + 2 * power.per_byte) * duty.sent;
}

double joules_at(const PowerModel& power, const Duty& duty, double clock) {
  SIM_CHECK(clock > 0 && clock <= 1, "a clock of {}", clock);
  double products = 0;
  for (std::size_t t = 0; t < kDataTypes; ++t) products += power.per_flop[t] * duty.flops[t];
  // Watts of activity fall with the clock's cube, energy of an operation with its square.
  const double busy = duty.clocked / clock + duty.streaming;
  return power.standing * seconds_at(duty, clock) + power.active * std::pow(clock, 3) * busy +
         products * clock * clock + power.per_byte * duty.bytes + exchange_joules(power, duty);
}

double clock_within_limit(const PowerModel& power, const Duty& duty) {
  const auto within = [&](double clock) {
    return joules_at(power, duty, clock) <= power.limit * seconds_at(duty, clock);
  };
  if (!power.known() || !(seconds_at(duty, 1) > 0) || within(1)) return 1;
  double low = kLowestClock, high = 1;
  // Mean power grows with the clock, so halving finds it; forty times is below a picosecond in a minute.
  for (int i = 0; i < 40; ++i) {
    const double middle = (low + high) / 2;
    (within(middle) ? low : high) = middle;
  }
  return low;
}

}  // namespace orrery::calibration
