// Groups on the cluster: shapes, routes, and the choice of algorithm. See collective.h.
#include "workloads/collectives/collective.h"

#include <algorithm>
#include <cmath>

#include "sim/error.h"

namespace orrery::workloads {

using sim::Duration;
using sim::WeightedLink;

const std::array<Protocol, 3>& protocols() {
  // Latencies of NCCL's tuning model in microseconds; LL128 is used across the network where it supports it
  // (InfiniBand, RoCE).
  static const std::array<Protocol, 3> table{{{"ring LL", 6.6, 0.6, 2.7, 5.0, 0.5},
                                              {"ring LL128", 14.0, 1.9, 4.0, 8.5, 0.9375},
                                              {"ring Simple", 8.4, 3.4, 14.0, 14.0, 1.0}}};
  return table;
}

double wire_bytes(CollectiveOp op, std::int64_t ranks, double bytes) {
  if (ranks <= 1) return 0;
  const double share = static_cast<double>(ranks - 1) / static_cast<double>(ranks);
  switch (op) {
    case CollectiveOp::all_reduce:
      return 2 * share * bytes;
    case CollectiveOp::all_gather:
    case CollectiveOp::reduce_scatter:
    case CollectiveOp::all_to_all:
      return share * bytes;
    case CollectiveOp::broadcast:
    case CollectiveOp::send_receive:
      return bytes;
  }
  return bytes;
}

std::vector<std::vector<std::int64_t>> members_by_node(std::span<const std::int64_t> gpus,
                                                       const topology::Cluster& cluster) {
  std::vector<std::int64_t> sorted(gpus.begin(), gpus.end());
  std::sort(sorted.begin(), sorted.end());
  std::vector<std::vector<std::int64_t>> nodes;
  std::int64_t last = -1;
  for (const std::int64_t gpu : sorted) {
    const std::int64_t node = cluster.node_of(gpu);
    if (node != last) nodes.emplace_back();
    last = node;
    nodes.back().push_back(gpu);
  }
  return nodes;
}

namespace {
bool never_matters(sim::LinkId link, const topology::Cluster& cluster) {
  const topology::LinkInfo& info = cluster.links()[link];
  return info.never_binding && info.tier != topology::Tier::leaf;
}
}  // namespace

void append_path(std::vector<WeightedLink>& links, const topology::Path& path, double weight,
                 const topology::Cluster& cluster) {
  for (const WeightedLink& link : path.links) {
    if (!never_matters(link.link, cluster)) links.push_back({link.link, link.weight * weight});
  }
}

namespace {

/// One GPU for each NIC that the node's members are nearest to: the ring leaves the node through these.
std::vector<std::int64_t> exits_of(const std::vector<std::int64_t>& members, const topology::Cluster& cluster) {
  std::vector<std::int64_t> exits;
  std::int64_t last_nic = -1;
  for (const std::int64_t gpu : members) {
    const std::int64_t nic = cluster.nic_of(gpu);
    if (nic != last_nic) exits.push_back(gpu);
    last_nic = nic;
  }
  return exits;
}

bool in_one_node(std::span<const std::int64_t> gpus, const topology::Cluster& cluster) {
  const std::int64_t node = cluster.node_of(gpus.front());
  return std::all_of(gpus.begin(), gpus.end(), [&](std::int64_t gpu) { return cluster.node_of(gpu) == node; });
}

/// Once round the members of one node, by NVLink.
void append_ring(std::vector<WeightedLink>& links, std::span<const std::int64_t> members, double weight,
                 const topology::Cluster& cluster) {
  const std::size_t g = members.size();
  for (std::size_t i = 0; g > 1 && i < g; ++i)
    append_path(links, cluster.path(members[i], members[(i + 1) % g]), weight, cluster);
}

std::int64_t tree_levels(const GroupShape& shape) {
  std::int64_t levels = 0;
  for (std::int64_t reach = 1; reach < shape.nodes; reach *= 2) ++levels;
  return levels;
}

}  // namespace

GroupShape shape_of(std::span<const std::int64_t> gpus, const topology::Cluster& cluster) {
  GroupShape shape;
  shape.ranks = static_cast<std::int64_t>(gpus.size());
  if (in_one_node(gpus, cluster)) {
    shape.per_node = shape.ranks;
    return shape;
  }
  const auto nodes = members_by_node(gpus, cluster);
  shape.nodes = static_cast<std::int64_t>(nodes.size());
  for (const auto& members : nodes) {
    shape.per_node = std::max(shape.per_node, static_cast<std::int64_t>(members.size()));
  }
  if (shape.nodes > 1) {  // one node need not have a fabric
    shape.rails = shape.ranks;
    for (const auto& members : nodes) {
      shape.rails = std::min(shape.rails, static_cast<std::int64_t>(exits_of(members, cluster).size()));
    }
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const topology::Path path = cluster.path(nodes[i].front(), nodes[(i + 1) % nodes.size()].front());
      shape.hop = std::max(shape.hop, path.latency);
      shape.top = std::max(shape.top, path.top);
    }
  }
  return shape;
}

std::uint32_t patterns_of(const GroupShape& shape, bool all_reduces) { return all_reduces && shape.nodes > 1 ? 3 : 1; }

sim::RouteId add_group_routes(sim::Network& network, std::span<const std::int64_t> gpus, const GroupShape& shape,
                              bool all_reduces, const topology::Cluster& cluster) {
  std::vector<WeightedLink> links;
  Duration around{};
  if (in_one_node(gpus, cluster)) {
    std::vector<std::int64_t> members(gpus.begin(), gpus.end());
    std::sort(members.begin(), members.end());
    append_ring(links, members, 1.0, cluster);
    return network.add_route(links, around);
  }
  const auto nodes = members_by_node(gpus, cluster);
  // Inside a node every ring passes through all members; a member forwards by NVLink except on the rings that leave by
  // its NIC.
  for (const auto& members : nodes) {
    const auto g = static_cast<double>(members.size());
    append_ring(links, members, (g - 1) / g, cluster);
  }
  Duration tree_hop{};
  const double weight = 1.0 / static_cast<double>(shape.rails);
  const auto first_exits = exits_of(nodes[0], cluster);
  auto from = first_exits, to = first_exits;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    from.swap(to);
    to = i + 1 < nodes.size() ? exits_of(nodes[i + 1], cluster) : first_exits;
    for (std::size_t rail = 0; rail < static_cast<std::size_t>(shape.rails); ++rail) {
      const topology::Path path = cluster.path(from[rail], to[rail], rail);
      append_path(links, path, weight, cluster);
      if (rail == 0) around += path.latency;
      tree_hop = std::max(tree_hop, path.latency);
    }
  }
  const sim::RouteId first = network.add_route(links, around);
  if (patterns_of(shape, all_reduces) == 3) {
    network.add_route(links, around * 2);
    network.add_route(links, tree_hop * (2 * tree_levels(shape)));
  }
  return first;
}

sim::RouteId add_pair_route(sim::Network& network, std::int64_t from, std::int64_t to,
                            const topology::Cluster& cluster) {
  topology::Path path = cluster.path(from, to);
  std::erase_if(path.links, [&](const WeightedLink& link) { return never_matters(link.link, cluster); });
  return network.add_route(path.links, path.latency);
}

std::vector<std::string_view> algorithms_of(CollectiveOp op, const GroupShape& shape) {
  if (op == CollectiveOp::send_receive) return {"send"};
  if (shape.nodes == 1) return {"node"};
  if (op == CollectiveOp::all_to_all) return {"pairwise"};
  std::vector<std::string_view> names;
  for (const Protocol& protocol : protocols()) names.push_back(protocol.name);
  if (op == CollectiveOp::all_reduce) names.push_back("tree");
  return names;
}

CollectiveCost collective_cost(CollectiveOp op, double bytes, const GroupShape& shape,
                               const calibration::DeviceProfile& device, const calibration::Software& software,
                               const topology::Cluster& cluster, std::string_view algorithm) {
  CollectiveCost cost;
  if (shape.ranks <= 1) return cost;
  if (algorithm != kAuto) {
    const auto known = algorithms_of(op, shape);
    SIM_CHECK(std::find(known.begin(), known.end(), algorithm) != known.end(), "no algorithm '{}'", algorithm);
  }
  if (shape.nodes == 1) {
    const auto timing =
        device.node_collective(op, shape.ranks, sim::Bytes(std::max<std::int64_t>(1, std::llround(bytes))));
    cost.latency = timing.latency;
    cost.work = timing.wire_bytes;
    cost.rate_cap = timing.rate.value();
    cost.algorithm = "node";
    return cost;
  }
  if (op == CollectiveOp::all_to_all) {
    const Estimate exchange = pairwise_exchange(bytes, shape, software);
    cost.latency = exchange.latency;
    cost.work = exchange.work;
    cost.algorithm = exchange.algorithm;
    return cost;
  }
  const topology::FabricSpec& fabric = cluster.fabric_spec();
  if (op == CollectiveOp::send_receive) {  // around the ring; where it leaves a node, one message through one NIC
    cost = send_cost(bytes, false, device, software);
    cost.rate_cap = fabric.nic_rate.value() * fabric.efficiency;
    return cost;
  }
  const double rate = fabric.nic_rate.value() * fabric.efficiency * static_cast<double>(shape.rails);
  const std::int64_t passes = op == CollectiveOp::all_reduce ? 2 : 1;
  const bool only_tree = algorithm == "tree";
  Estimate best = ring(bytes, passes, shape, rate, software, only_tree ? kAuto : algorithm);
  cost.pattern = passes == 2 ? Pattern::twice : Pattern::around;
  if (op == CollectiveOp::all_reduce && (algorithm == kAuto || only_tree)) {
    const Estimate tree = double_binary_tree(bytes, shape, rate, software);
    const auto total = [&](const Estimate& e, std::int64_t hops) {
      return sim::to_seconds(e.latency) + sim::to_seconds(shape.hop * hops) + e.work / (rate * e.rate_share);
    };
    if (only_tree || total(tree, 2 * tree_levels(shape)) < total(best, 2 * shape.nodes)) {
      best = tree;
      cost.pattern = Pattern::tree;
    }
  }
  cost.latency = best.latency;
  cost.work = best.work;
  cost.rate_cap = best.rate_share < 1.0 ? rate * best.rate_share : 0.0;
  cost.algorithm = best.algorithm;
  return cost;
}

CollectiveCost send_cost(double bytes, bool same_node, const calibration::DeviceProfile& device,
                         const calibration::Software& software) {
  CollectiveCost cost;
  cost.work = bytes;
  cost.algorithm = "send";
  if (same_node) {
    const auto timing = device.node_collective(CollectiveOp::send_receive, 2,
                                               sim::Bytes(std::max<std::int64_t>(1, std::llround(bytes))));
    cost.latency = timing.latency;
    cost.work = timing.wire_bytes;
    cost.rate_cap = timing.rate.value();
  } else {
    cost.latency = software.collective_base;
  }
  return cost;
}

}  // namespace orrery::workloads
