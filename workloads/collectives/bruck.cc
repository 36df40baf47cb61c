// Bruck's all-gather (Bruck, Ho, Kipnis, Upfal, Weathersby, IEEE TPDS 8(11), 1997, section 4, with one port; as MPI
// libraries run it for short calls: Thakur, Rabenseifner, Gropp, IJHPCA 19(1), 2005, section 4.1). In round k = 0, 1,
// ... every rank sends the min(2^k, n - 2^k) parts that it holds first to the rank 2^k below it, so that after R =
// ceil(log2 n) rounds all have everything, at the bytes of a ring in far fewer steps:
//   time = base + R net + sum over rounds (longest path) + (n-1)/n bytes / rate
// The rate is what the links leave that carry most over all rounds together: the first rank of a node sends to another
// node in all rounds but those that come round to its own, so that a node with a NIC to each GPU has little more than
// one NIC's rate. Ranks are counted node by node.
//
// Left out: that rounds follow each other, so that a link which is full in one of them is idle in another; the local
// copy that puts the parts in order.
#include <algorithm>
#include <cmath>
#include <vector>

#include "workloads/collectives/algorithm.h"

namespace orrery::workloads {

namespace {

/// Bytes/s of a rank's sends at which the busiest NIC of a node is full; 0 where nodes or NICs have unlike shares of
/// the ranks, so that only the links tell.
double rate_of_busiest_nic(const Call& call) {
  const std::int64_t n = call.shape.ranks, members = call.shape.per_node, rails = call.shape.rails;
  if (members % rails != 0 || n != call.shape.nodes * members) return 0;
  std::vector<double> parts(static_cast<std::size_t>(rails), 0);  // that leave by each
  for (std::int64_t distance = 1; distance < n; distance *= 2) {
    for (std::int64_t i = 0; i < members; ++i) {
      const bool stays = i >= distance || i + n - distance < members;
      const auto nic = static_cast<std::size_t>(i * rails / members);
      if (!stays) parts[nic] += static_cast<double>(std::min(distance, n - distance));
    }
  }
  const double most = *std::max_element(parts.begin(), parts.end());
  return call.rate / call.rails() * static_cast<double>(n - 1) / most;
}

}  // namespace

Estimate bruck(const Call& call, const Protocol&) {
  Estimate out;
  out.own_paths = std::ceil(std::log2(call.ranks()));
  out.latency = sim::to_seconds(call.software.library.collective_base) +
                out.own_paths * sim::to_seconds(call.software.library.collective_step_ring);
  out.work = wire_bytes(CollectiveOp::all_gather, call.shape.ranks, call.bytes);
  out.rate_cap = rate_of_busiest_nic(call);
  out.pattern = Pattern::own;
  return out;
}

OwnRoute bruck_route(std::span<const std::int64_t> gpus, const topology::Cluster& cluster) {
  return route_of_rounds(gpus, cluster, Towards::below,
                         [](std::size_t n, std::size_t distance) { return std::min(distance, n - distance); });
}

}  // namespace orrery::workloads
