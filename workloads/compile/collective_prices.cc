// Prices of calls. See collective_prices.h.
#include "workloads/compile/collective_prices.h"

namespace orrery::workloads {

double CollectivePrices::sent(CollectiveOp op, double bytes, const CommGroup& group) const {
  const GroupShape& shape = shapes[group];
  if (op == CollectiveOp::all_to_all && shape.ranks > 1) return exchange_load(shape).sum() * bytes;
  return wire_bytes(op, shape.ranks, bytes);
}

double CollectivePrices::seconds_alone(const CollectiveCost& cost, const CommGroup& group) const {
  const topology::FabricSpec& fabric = cluster.fabric_spec();
  const double links = fabric.nic_rate.value() * fabric.efficiency * static_cast<double>(shapes[group].rails);
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
