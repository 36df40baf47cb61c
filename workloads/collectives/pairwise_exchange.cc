// Pairwise exchange, the all-to-all of NCCL: every rank sends its part to every other directly, all at once, so what
// counts is each GPU's own way out and the tiers above it. Every byte that is sent puts 1/(n-1) on the path to each of
// the others. On large clusters the nodes at an even spread of distances stand for all. The messages to other nodes are
// posted one after the other:
//   pairwise:     base + (n - g) post + (n-1)/n bytes / what the route leaves each rank, and at most the share of its
//                 NIC that the library's messages reach (exchange_share)
//   hierarchical: base + A + (nodes - 1) post + the same,   A = all-to-all inside the node
// The hierarchical one goes by NVLink to the GPU at the receiver's place first (NCCL's PXN), so that each GPU sends one
// message to a node, which suits many small parts. post = 1 us: NCCL's cost of a message (src/graph/tuning.cc,
// getNetOverhead). Not modelled: the levels of the hierarchical one overlapping. A message goes to the receiver's node
// by the peer at the sender's place. Where nodes hold unequal parts of the group, each is sent as much as it holds.
#include <algorithm>

#include "workloads/collectives/algorithm.h"

namespace orrery::workloads {

namespace {
constexpr double kPost = 1e-6;
}

Estimate pairwise_exchange(const Call& call, const Protocol&) {
  Estimate out;
  out.latency = sim::to_seconds(call.software.library.collective_base) + (call.ranks() - call.per_node()) * kPost;
  const ExchangeLoad load = exchange_load(call.shape);
  out.work = load.sum() * call.bytes;
  const double share = call.software.library.exchange_share;
  // Kernels that send a token once are not this library's. Where nodes hold unequal parts of the group, those of the
  // smallest send most.
  const double least = call.nodes() > 1 ? (call.ranks() - call.per_node()) / (call.nodes() - 1) : call.ranks();
  const double between = (call.ranks() - least) / call.ranks();
  if (share < 1 && !call.shape.exchange.once && between > 0)
    out.rate_cap = share * call.rate / call.rails() * load.sum() / between;
  return out;
}

Estimate hierarchical_exchange(const Call& call, const Protocol& protocol) {
  Estimate out = pairwise_exchange(call, protocol);
  out.latency = sim::to_seconds(call.software.library.collective_base) + (call.nodes() - 1) * kPost +
                call.inside(CollectiveOp::all_to_all, call.bytes);
  return out;
}

/// By itself, a copy goes to each rank alike. Once a node: of the ranks that a token meets, all but those at the
/// sender's place in their node get it from there by NVLink.
ExchangeLoad exchange_load(const GroupShape& shape) {
  const auto n = static_cast<double>(shape.ranks), g = static_cast<double>(shape.per_node);
  const ExchangeStyle& style = shape.exchange;
  if (!style.once || style.choice.experts == 0) return {(g - 1) / n, (n - g) / n};
  const auto k = static_cast<double>(style.choice.top_k), nodes = static_cast<double>(shape.nodes);
  return {n * calibration::reaches(style.choice, n) * (g - 1) / g / k,
          (nodes - 1) * calibration::reaches(style.choice, nodes) / k};
}

namespace {

/// What a member of a node sends to another, over its NIC: to the member at its own place there, or where that node has
/// fewer or more, to those whose parts of it lie beside its own.
void append_ways(std::vector<sim::WeightedLink>& links, std::span<const std::int64_t> members, std::size_t m,
                 std::span<const std::int64_t> peers, double weight, const topology::Cluster& cluster,
                 sim::Duration& latency) {
  const std::size_t g = members.size(), p = peers.size();
  for (std::size_t peer = m * p / g; peer * g < (m + 1) * p; ++peer) {
    const std::size_t beside = std::min((m + 1) * p, (peer + 1) * g) - std::max(m * p, peer * g);  // of p
    const topology::Path path = cluster.path(members[m], peers[peer], m);
    append_links(links, path.links, weight * (static_cast<double>(beside) / static_cast<double>(p)), cluster);
    latency = std::max(latency, path.latency);
  }
}

}  // namespace

sim::RouteId add_exchange_route(sim::Network& network, std::span<const std::int64_t> gpus,
                                const topology::Cluster& cluster, const ExchangeStyle& style) {
  constexpr std::size_t kMostDistances = 64;
  const MembersByNode nodes(gpus, cluster);
  const std::size_t distances = nodes.size() - 1, taken = std::min(distances, kMostDistances);
  std::vector<sim::WeightedLink> links;
  sim::Duration latency{};
  GroupShape shape;
  shape.ranks = static_cast<std::int64_t>(gpus.size());
  shape.nodes = static_cast<std::int64_t>(nodes.size());
  shape.exchange = style;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const std::span<const std::int64_t> members = nodes[i];
    const std::size_t g = members.size();
    shape.per_node = static_cast<std::int64_t>(g);
    const ExchangeLoad load = exchange_load(shape);
    const double inside = load.inside / load.sum() / static_cast<double>(std::max<std::size_t>(1, g - 1));
    std::size_t others = 0;  // at the distances taken
    for (std::size_t t = 0; t < taken; ++t) others += nodes[(i + 1 + t * distances / taken) % nodes.size()].size();
    const double outside = load.between / load.sum();
    for (std::size_t m = 0; m < g; ++m) {
      for (std::size_t k = 1; k < g; ++k)
        append_links(links, cluster.path(members[m], members[(m + k) % g]).links, inside, cluster);
      for (std::size_t t = 0; t < taken; ++t) {
        const std::size_t distance = 1 + t * distances / taken;
        const std::span<const std::int64_t> peers = nodes[(i + distance) % nodes.size()];
        const double nodes_alike = static_cast<double>(others) / static_cast<double>(peers.size());
        append_ways(links, members, m, peers, outside / nodes_alike, cluster, latency);
      }
    }
  }
  return network.add_route(links, latency);
}

}  // namespace orrery::workloads
