// Ring collectives (Patarasuk & Yuan, JPDC 2009; as NCCL runs them): all-gather and reduce-scatter send (n-1)/n of the
// buffer in n - 1 steps, all-reduce twice that. A chunk passes `nodes` network hops and n - nodes hops inside nodes on
// its way round. Not modelled: the reduction's arithmetic, and the pipelining of chunks within a step.
#include <limits>

#include "workloads/collectives/collective.h"

namespace orrery::workloads {

Estimate ring(double bytes, std::int64_t passes, const GroupShape& shape, double rate,
              const calibration::Software& software, std::string_view wanted) {
  const auto p = static_cast<double>(passes);
  const double wire = p * bytes * static_cast<double>(shape.ranks - 1) / static_cast<double>(shape.ranks);
  const auto net_hops = p * static_cast<double>(shape.nodes);
  const auto node_hops = p * static_cast<double>(shape.ranks - shape.nodes);
  Estimate best;
  double best_s = std::numeric_limits<double>::infinity();
  for (const Protocol& protocol : protocols()) {
    if (wanted != kAuto && wanted != protocol.name) continue;
    const bool simple = protocol.bandwidth_share == 1.0;
    const double base = simple ? sim::to_seconds(software.collective_base) : protocol.base_us * 1e-6;
    const double net = simple ? sim::to_seconds(software.collective_step_ring) : protocol.net_us * 1e-6;
    const double node = simple ? sim::to_seconds(software.collective_step_node) : protocol.node_us * 1e-6;
    const double latency = base + net_hops * net + node_hops * node;
    const double total = latency + wire / (rate * protocol.bandwidth_share);
    if (total < best_s) {
      best_s = total;
      best = {sim::seconds(latency), wire, protocol.bandwidth_share, protocol.name};
    }
  }
  return best;
}

}  // namespace orrery::workloads
