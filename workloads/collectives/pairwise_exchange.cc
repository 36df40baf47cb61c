// Pairwise exchange, the all-to-all of NCCL: every rank sends its part to every other directly, all at once, so what
// counts is each GPU's own way out and the tiers above it. Every byte that is sent puts 1/(n-1) on the path to each of
// the others. On large clusters the nodes at an even spread of distances stand for all. Not modelled: the cost of
// posting n - 1 messages, and the detour over NVLink by which a message leaves through the receiver's rail (PXN): a
// message goes to the receiver's node by the peer at the sender's place.
#include <algorithm>

#include "workloads/collectives/collective.h"

namespace orrery::workloads {

Estimate pairwise_exchange(double bytes, const GroupShape& shape, const calibration::Software& software) {
  Estimate estimate;
  estimate.latency = software.collective_base;
  estimate.work = wire_bytes(CollectiveOp::all_to_all, shape.ranks, bytes);
  estimate.algorithm = "pairwise";
  return estimate;
}

sim::RouteId add_exchange_route(sim::Network& network, std::span<const std::int64_t> gpus,
                                const topology::Cluster& cluster) {
  constexpr std::size_t kMostDistances = 64;
  const auto nodes = members_by_node(gpus, cluster);
  const std::size_t distances = nodes.size() - 1, taken = std::min(distances, kMostDistances);
  const double others = static_cast<double>(gpus.size() - 1);
  std::vector<sim::WeightedLink> links;
  sim::Duration latency{};
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const std::vector<std::int64_t>& members = nodes[i];
    const std::size_t g = members.size();
    const double inside = static_cast<double>(g - 1) / others;
    const double outside =
        static_cast<double>(gpus.size() - g) / others / static_cast<double>(std::max<std::size_t>(1, taken));
    for (std::size_t m = 0; m < g; ++m) {
      if (g > 1) append_path(links, cluster.path(members[m], members[(m + 1) % g]), inside, cluster);
      for (std::size_t t = 0; t < taken; ++t) {
        const std::size_t distance = 1 + t * distances / taken;
        const std::vector<std::int64_t>& peers = nodes[(i + distance) % nodes.size()];
        const topology::Path path = cluster.path(members[m], peers[m % peers.size()], m);
        append_path(links, path, outside, cluster);
        latency = std::max(latency, path.latency);
      }
    }
  }
  return network.add_route(links, latency);
}

}  // namespace orrery::workloads
