// See gpu_work.h.
#include "workloads/step/gpu_work.h"

#include <algorithm>

namespace orrery::workloads {

void UseOfTime::add(const PartOfIteration& part, double times) {
  const double seconds = times * part.seconds;
  switch (part.use) {
    case PartOfIteration::Use::compute:
    case PartOfIteration::Use::attention:
      compute += seconds;
      return;
    case PartOfIteration::Use::memory:
      memory += seconds;
      return;
    case PartOfIteration::Use::communication:
      communication += seconds;
      return;
    case PartOfIteration::Use::host:
      host += seconds;
      return;
  }
}

UseOfTime& UseOfTime::operator+=(const UseOfTime& other) {
  compute += other.compute;
  memory += other.memory;
  communication += other.communication;
  host += other.host;
  padding += other.padding;
  return *this;
}

UseOfTime operator*(UseOfTime use, double times) {
  return {use.compute * times, use.memory * times, use.communication * times, use.host * times, use.padding * times};
}

void GpuWork::add(const PartOfIteration& part, double times) {
  use.add(part, times);
  const double seconds = times * part.seconds;
  const auto type = static_cast<std::size_t>(part.type);
  switch (part.use) {
    case PartOfIteration::Use::compute:
      duty.products += seconds;
      duty.flops[type] += times * part.flops;
      break;
    case PartOfIteration::Use::attention:
      duty.attention += seconds;
      duty.attention_flops[type] += times * part.flops;
      break;
    case PartOfIteration::Use::memory:
      duty.streaming += seconds;
      duty.flops[type] += times * part.flops;
      break;
    case PartOfIteration::Use::communication:
      duty.exchanges += seconds;
      duty.sent += times * part.bytes;
      return;
    case PartOfIteration::Use::host:
      return;
  }
  duty.bytes += times * part.bytes;
}

GpuWork& GpuWork::operator+=(const GpuWork& other) {
  use += other.use;
  duty += other.duty;
  return *this;
}

GpuWork operator*(GpuWork work, double times) { return {work.use * times, work.duty * times}; }

double ServedPower::clock(const calibration::Duty& duty) const {
  if (board.governs) return calibration::clock_within_limit(board, duty);
  if (board.limit == own_limit) return 1;
  calibration::PowerModel own = board;
  own.limit = own_limit;
  return std::min(1.0, calibration::clock_within_limit(board, duty) / calibration::clock_within_limit(own, duty));
}

double ServedPower::stretch(const calibration::Duty& duty) const {
  const double left = clock(duty);
  return left < 1 ? calibration::seconds_at(board, duty, left) - calibration::seconds_at(board, duty, 1) : 0;
}

double ServedPower::joules(const calibration::Duty& duty) const {
  const double left = clock(duty);
  return calibration::activity_of(board, calibration::at_clock(duty, board, left), left).sum() +
         calibration::exchange_joules(board, duty);
}

}  // namespace orrery::workloads
