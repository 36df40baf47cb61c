// The protocol model of collective_model.h.
#include "calibration/device/collective_model.h"

#include <algorithm>
#include <cmath>

#include "sim/error.h"

namespace orrery::calibration {
namespace {

/// Interpolates geometrically in ln(size); held beyond the ends.
double between(const std::vector<double>& sizes, const std::vector<double>& values, double size) {
  if (size <= sizes.front()) return values.front();
  for (std::size_t i = 1; i < sizes.size(); ++i)
    if (size <= sizes[i]) {
      if (size == sizes[i]) return values[i];
      const double t = std::log(size / sizes[i - 1]) / std::log(sizes[i] / sizes[i - 1]);
      return values[i - 1] * std::pow(values[i] / values[i - 1], t);
    }
  return values.back();
}

double protocol_seconds(const Protocol& p, double hops, double wire, double rate) {
  const double start = p.base + hops * p.hop, transfer = wire / rate;
  if (p.overlap >= 0) return start + transfer + 2 * p.overlap * std::sqrt(start * transfer);
  const double longer = std::max(start, transfer), ratio = std::min(start, transfer) / longer;
  return longer * std::pow(1 + std::pow(ratio, 1 / (1 + p.overlap)), 1 + p.overlap);
}

/// Each GPU sends its whole buffer, to be added up in the switches, and the part that it has the sum of to all others.
double in_switch_bytes(double gpus, double bytes) { return (gpus + 1) / gpus * bytes; }
constexpr double kInSwitchSteps = 2;

}  // namespace

double wire_bytes(CollectiveOp op, double gpus, double bytes) {
  const double others = (gpus - 1) / gpus;
  switch (op) {
    case CollectiveOp::all_reduce:
      return 2 * others * bytes;
    case CollectiveOp::all_gather:
    case CollectiveOp::reduce_scatter:
    case CollectiveOp::all_to_all:
      return others * bytes;
    case CollectiveOp::broadcast:
    case CollectiveOp::send_receive:
      return bytes;
  }
  SIM_CHECK(false, "collective {}", static_cast<int>(op));
}

double steps(CollectiveOp op, double gpus) {
  switch (op) {
    case CollectiveOp::all_reduce:
      return 2 * (gpus - 1);
    case CollectiveOp::all_gather:
    case CollectiveOp::reduce_scatter:
    case CollectiveOp::broadcast:
      return gpus - 1;
    case CollectiveOp::all_to_all:
    case CollectiveOp::send_receive:
      return 1;
  }
  SIM_CHECK(false, "collective {}", static_cast<int>(op));
}

double CollectiveModel::switch_at(double group) const { return between(gpus, switch_bytes, group); }

CollectiveModel::Part CollectiveModel::low_latency_part(CollectiveOp op, double group, double bytes) const {
  const double wire = calibration::wire_bytes(op, group, bytes), rate = between(gpus, low_latency.rate, group);
  return {protocol_seconds(low_latency, steps(op, group), wire, rate), wire, rate};
}

CollectiveModel::Part CollectiveModel::bulk_part(CollectiveOp op, double group, double bytes) const {
  const bool switched = op == CollectiveOp::all_reduce && in_switch_from > 0 && group >= in_switch_from;
  const double wire = switched ? in_switch_bytes(group, bytes) : calibration::wire_bytes(op, group, bytes);
  const double rate = between(gpus, bulk.rate, group);
  return {protocol_seconds(bulk, switched ? kInSwitchSteps : steps(op, group), wire, rate), wire, rate};
}

CollectiveModel::Part CollectiveModel::fastest_part(CollectiveOp op, double group, double bytes) const {
  const Part low = low_latency_part(op, group, bytes), high = bulk_part(op, group, bytes);
  const Part best = low.seconds <= high.seconds ? low : high;
  if (in_switch.rate.empty() || op != CollectiveOp::all_reduce) return best;
  const double wire = in_switch_bytes(group, bytes), rate = in_switch.rate.back();
  const Part reduced{protocol_seconds(in_switch, kInSwitchSteps, wire, rate), wire, rate};
  return reduced.seconds < best.seconds ? reduced : best;
}

CollectiveTiming CollectiveModel::timing(CollectiveOp op, double group, double bytes) const {
  if (group <= 1 || bytes <= 0) return {sim::Duration{}, 0, Bandwidth(bulk.rate.back())};
  Part part;
  if (group > gpus.back()) {
    part = fastest_part(op, group, bytes);
  } else if (const double threshold = switch_at(group); bytes <= threshold) {
    part = low_latency_part(op, group, bytes);
  } else {
    part = bulk_part(op, group, bytes);
    part.seconds = std::max(part.seconds, low_latency_part(op, group, threshold).seconds);
  }
  return {sim::seconds(part.seconds - part.wire_bytes / part.rate), part.wire_bytes, Bandwidth(part.rate)};
}

}  // namespace orrery::calibration
