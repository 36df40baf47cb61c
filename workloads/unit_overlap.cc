// Sums of a unit's compute and collectives. See unit_overlap.h.
#include "workloads/unit_overlap.h"

#include <algorithm>

namespace orrery::workloads {

bool works_by_unit(const Job& job) {
  if (job.replicas() == 1) return false;
  const Sharding sharding = job.parallelism.sharding;
  return sharding == Sharding::parameters ||
         (sharding == Sharding::gradients && job.software.sharding == name_of(Sharding::parameters));
}

double compute_seconds(const std::vector<PassItem>& items) {
  sim::Duration sum{};
  for (const PassItem& item : items) {
    if (!item.comm) sum += item.duration;
  }
  return sim::to_seconds(sum);
}

double seconds_alone(const CollectiveCost& cost, const GroupShape& data, const topology::Cluster& cluster) {
  const topology::FabricSpec& fabric = cluster.fabric_spec();
  const double links = fabric.nic_rate.value() * fabric.efficiency * static_cast<double>(data.rails);
  const double rate = cost.rate_cap > 0 ? cost.rate_cap : links;
  return sim::to_seconds(cost.latency) + (rate > 0 ? cost.work / rate : 0);
}

double covered_share(const UnitCollectives& pass, double compute, const Job& job, const GroupShape& data,
                     const topology::Cluster& cluster) {
  const auto units = static_cast<double>(pass.units);
  const auto seconds = [&](CollectiveOp op, DataType type) {
    const double bytes = pass.parameters / units * calibration::bytes_of(type);
    return units *
           seconds_alone(collective_cost(op, bytes, data, job.device, job.software, cluster), data, cluster);
  };
  double collectives = 0;
  if (pass.gathers) collectives += seconds(CollectiveOp::all_gather, job.precision.parameters);
  if (pass.reduces) collectives += seconds(CollectiveOp::reduce_scatter, job.precision.gradients);
  return compute > 0 ? std::min(1.0, collectives / compute) : 1.0;
}

}  // namespace orrery::workloads
