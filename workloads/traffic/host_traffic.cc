// With P parameters on R ranks that hold the same ones, of which n share out a state (1: all have all of it), a share f
// of them with the host, m micro-batches, and g, s and w bytes of a gradient in the type of the master weights, of one
// in that of the weights, and of a weight that comes back: behind the passes f g P R / n go and f w P R / n come. With
// the backward pass of one micro-batch the same go; of m, m s and once g, and (m - 1) s come back to be added to, or m
// g go where the host adds. Weights of the host come for each gather, P w over the ranks that share them, to all R.
#include "workloads/traffic/host_traffic.h"

#include <algorithm>
#include <string>

#include "sim/real.h"

namespace orrery::workloads {

namespace {

using sim::real;

void add_to_row(const CommGroup& among, const std::string& what, double bytes, TrafficRows& rows) {
  const auto known = std::find_if(rows.rows.begin(), rows.rows.end(),
                                  [&](const TrafficRow& row) { return row.among == among && row.what == what; });
  if (known != rows.rows.end())
    known->closed_form_bytes += bytes;
  else
    rows.add_sent(among, CollectiveOp::send_receive, what, 1, bytes, bytes, 0);
}

/// Micro-batches of whose backward passes gradients leave by themselves.
double leavings(const HostPart& part, const HostRanks& ranks) {
  const auto& [layout, method, software] = part;
  if (!software.optimizer.leaves_in_passes()) return 0;
  if (ranks.replicas == 1) return ranks.microbatches;
  const bool by_unit = software.defaults.sharding == Sharding::parameters && layout.pipeline == 1;
  if (layout.sharding == Sharding::parameters) return software.fetches.reduces_last_pass() ? 1 : ranks.microbatches;
  const bool every = layout.sharding == Sharding::gradients && (software.gradients.reduces_every_pass() || by_unit);
  return every ? ranks.microbatches : 1;
}

}  // namespace

void add_host_rows(const HostPart& part, double whole, const GatheredElements& gathered, const HostRanks& ranks,
                   TrafficRows& rows) {
  const HostStates& host = part.method.host_states;
  if (!host.any()) return;
  const calibration::OptimizerStyle& style = part.software.optimizer;
  const double element = calibration::bytes_of(part.method.precision.activations);
  const double master = style.follows_weights() ? element : 4;
  const double weight = style.host_adds() ? master : element;
  const Parallelism& layout = part.layout;
  const double copies = real(ranks.replicas) / (layout.sharding == Sharding::none ? 1 : real(ranks.owners));
  const double states = whole * copies * host.optimizer;
  const double m = leavings(part, ranks);
  const bool adds = style.host_adds() && m > 0;
  const double leave = adds ? m * master : m > 1 ? m * element + master : master;
  add_to_row(CommGroup::to_host, "gradients, to the host", states * leave, rows);
  if (m > 1 && !adds)
    add_to_row(CommGroup::from_host, "gradients, back from the host", states * (m - 1) * element, rows);
  const std::string what = "parameters, from the host";
  if (!host.parameters) return add_to_row(CommGroup::from_host, what, states * weight, rows);
  const auto sharing = [&](std::int64_t group) { return group > 0 ? real(group) : real(ranks.owners); };
  const double second = layout.inside.secondary > 0 ? real(layout.inside.secondary) : sharing(layout.inside.weights);
  const double elements =
      ranks.microbatches * (gathered.forward / sharing(layout.inside.weights) + gathered.backward / second) +
      gathered.after_step / real(ranks.owners);
  add_to_row(CommGroup::from_host, what, elements * real(ranks.replicas) * weight, rows);
}

void add_frozen_host_rows(const HostPart& part, double bytes, const HostRanks& ranks, TrafficRows& rows) {
  if (!part.method.host_states.parameters || part.layout.sharding != Sharding::parameters) return;
  const Parallelism& layout = part.layout;
  const double sharing = layout.inside.weights > 0 ? real(layout.inside.weights) : real(ranks.owners);
  const double second = layout.inside.secondary > 0 ? real(layout.inside.secondary) : sharing;
  add_to_row(CommGroup::from_host, "frozen parameters, from the host",
             ranks.microbatches * real(ranks.replicas) * bytes * (1 / sharing + 1 / second), rows);
}

}  // namespace orrery::workloads
