// Prices of calls. See collective_prices.h.
#include "workloads/groups/collective_prices.h"

namespace orrery::workloads {

namespace {
/// Groups whose ranks may hold the same part of the model: not those that lie within one stage however it runs. By the
/// names of rows, which the parts of a tensor group share with it.
bool holds_replicas(const CommGroup& group) {
  return !(group.name == CommGroup::tensor.name || group.name == CommGroup::context.name ||
           group.name == CommGroup::host.name);
}
}  // namespace

CollectiveCost CollectivePrices::of(CollectiveOp op, double bytes, const CommGroup& group) const {
  const auto cost_on = [&](const calibration::DeviceProfile& any) {
    return collective_cost(op, bytes, shapes[group], any, software, cluster);
  };
  const bool across = group.across_stages || (both_ways && holds_replicas(group));
  if (!across || of_stages.empty()) return cost_on(device);
  CollectiveCost slowest = cost_on(*of_stages.front());
  for (const calibration::DeviceProfile* other : of_stages) {
    const CollectiveCost cost = cost_on(*other);
    if (seconds_alone(cost, group) > seconds_alone(slowest, group)) slowest = cost;
  }
  return slowest;
}

double CollectivePrices::sent(CollectiveOp op, double bytes, const CommGroup& group) const {
  const GroupShape& shape = shapes[group];
  if (op == CollectiveOp::all_to_all && shape.ranks > 1) return exchange_load(shape).sum() * bytes;
  return wire_bytes(op, shape.ranks, bytes);
}

double CollectivePrices::seconds_alone(const CollectiveCost& cost, const CommGroup& group) const {
  const GroupShape& shape = shapes[group];
  const double line = shape.nic.value_or(cluster.nic_rate(0)).line.value();
  const double links = line * cluster.fabric_spec().efficiency * static_cast<double>(shape.rails);
  const double rate = cost.rate_cap > 0 ? cost.rate_cap : links;
  return sim::to_seconds(cost.latency) + (rate > 0 ? cost.work / rate : 0);
}

CollectiveCost CollectivePrices::of_signal(CollectiveOp op, double bytes, const CommGroup& group) const {
  CollectiveCost cost = of(op, bytes, group);
  cost.pattern = Pattern::around;  // a signal's route is empty
  cost.work = 0;
  cost.rate_cap = 0;
  return cost;
}

}  // namespace orrery::workloads
