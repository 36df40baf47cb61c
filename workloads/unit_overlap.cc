// Sums of a unit's compute and collectives. See unit_overlap.h.
#include "workloads/unit_overlap.h"

#include <algorithm>

namespace orrery::workloads {

namespace {
/// Software that is made to share out weights.
bool made_for_units(const Job& job) { return job.software.defaults.sharding == Sharding::parameters; }
}  // namespace

bool reduces_every_pass(const Job& job) {
  return job.replicas() > 1 && job.parallelism.sharding == Sharding::gradients &&
         (job.software.gradients.reduces_every_pass || made_for_units(job));
}

bool gathers_every_pass(const Job& job) {
  return job.replicas() > 1 && job.parallelism.sharding == Sharding::gradients && made_for_units(job);
}

bool shares_out_gradients(const Job& job) {
  return job.parallelism.sharding == Sharding::parameters || reduces_every_pass(job);
}

bool all_reduces_gradients(const Job& job) {
  return job.parallelism.sharding == Sharding::none ||
         (job.software.gradients.all_reduces_shards && !shares_out_gradients(job));
}

bool works_by_unit(const Job& job) {
  return job.replicas() > 1 && (job.parallelism.sharding == Sharding::parameters || reduces_every_pass(job));
}

CollectiveCost owner_reductions(double parameters, const Layer& layer, const Job& job, const GroupShape& data,
                                const topology::Cluster& cluster) {
  CollectiveCost sum;
  double moving = 0;  // seconds at each chain's own rate
  const double element = calibration::bytes_of(job.precision.gradients);
  const auto add = [&](double elements) {
    const CollectiveCost one =
        collective_cost(CollectiveOp::broadcast, elements * element, data, job.device, job.software, cluster);
    sum.latency += one.latency;
    sum.work += one.work;
    sum.pattern = one.pattern;
    sum.algorithm = one.algorithm;
    if (one.rate_cap > 0) moving += one.work / one.rate_cap;
  };
  double left = parameters;
  for (const Weights& weights : layer.weights) {
    if (!weights.matrix) continue;
    if (weights.elements > left) break;  // no layer in this unit
    add(weights.elements);
    left -= weights.elements;
  }
  if (left > 0) add(left);
  if (moving > 0) sum.rate_cap = sum.work / moving;
  return sum;
}

double compute_seconds(std::span<const PassItem> items) {
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
    return units * seconds_alone(collective_cost(op, bytes, data, job.device, job.software, cluster), data, cluster);
  };
  double collectives = 0;
  if (pass.gathers) collectives += seconds(CollectiveOp::all_gather, job.precision.parameters);
  if (pass.reduces) collectives += seconds(CollectiveOp::reduce_scatter, job.precision.gradients);
  return compute > 0 ? std::min(1.0, collectives / compute) : 1.0;
}

}  // namespace orrery::workloads
