// Groups on the cluster: their shapes, and the links that they load. See collective.h.
//
// Whatever the algorithm, a node's traffic leaves through the NICs that its members are nearest to, in equal parts, and
// goes to the next node of the ring: a tree's edges are laid on the same links, since nodes are numbered as they are
// wired and every algorithm's cost counts what the busiest node sends.
#include <algorithm>

#include "workloads/collectives/algorithm.h"
#include "workloads/collectives/collective.h"

namespace orrery::workloads {

using sim::Duration;
using sim::WeightedLink;

MembersByNode::MembersByNode(std::span<const std::int64_t> gpus, const topology::Cluster& cluster)
    : gpus_(gpus.begin(), gpus.end()) {
  if (!std::is_sorted(gpus_.begin(), gpus_.end())) std::sort(gpus_.begin(), gpus_.end());
  std::int64_t end = 0;  // of the last member's node
  for (std::size_t i = 0; i < gpus_.size(); ++i) {
    if (i > 0 && gpus_[i] < end) continue;
    begin_.push_back(i);
    end = (cluster.node_of(gpus_[i]) + 1) * cluster.gpus_per_node();
  }
  begin_.push_back(gpus_.size());
}

namespace {
bool never_matters(sim::LinkId link, const topology::Cluster& cluster) {
  const topology::LinkInfo& info = cluster.links()[link];
  return info.never_binding && info.tier != topology::Tier::leaf;
}
}  // namespace

void append_links(std::vector<WeightedLink>& links, std::span<const WeightedLink> added, double weight,
                  const topology::Cluster& cluster) {
  for (const WeightedLink& link : added) {
    if (!never_matters(link.link, cluster)) links.push_back({link.link, link.weight * weight});
  }
}

namespace {

/// One GPU for each NIC that the node's members are nearest to: the ring leaves the node through these.
void find_exits(std::span<const std::int64_t> members, const topology::Cluster& cluster,
                std::vector<std::int64_t>& exits) {
  if (members.size() == 1) return exits.assign(1, members.front());
  exits.clear();
  std::int64_t last_nic = -1;
  for (const std::int64_t gpu : members) {
    const std::int64_t nic = cluster.nic_of(gpu);
    if (nic != last_nic) exits.push_back(gpu);
    last_nic = nic;
  }
}

bool in_one_node(std::span<const std::int64_t> gpus, const topology::Cluster& cluster) {
  const std::int64_t node = cluster.node_of(gpus.front());
  return std::all_of(gpus.begin(), gpus.end(), [&](std::int64_t gpu) { return cluster.node_of(gpu) == node; });
}

}  // namespace

topology::Cluster::NicRate slower(const topology::Cluster::NicRate& a, const topology::Cluster::NicRate& b) {
  return {std::min(a.line, b.line), std::min(a.pcie, b.pcie)};
}

GroupShape shape_of(std::span<const std::int64_t> gpus, const topology::Cluster& cluster) {
  GroupShape shape;
  shape.ranks = static_cast<std::int64_t>(gpus.size());
  if (in_one_node(gpus, cluster)) {
    shape.per_node = shape.ranks;
    return shape;
  }
  const MembersByNode nodes(gpus, cluster);
  shape.nodes = static_cast<std::int64_t>(nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i)
    shape.per_node = std::max(shape.per_node, static_cast<std::int64_t>(nodes[i].size()));
  if (shape.nodes > 1) {  // one node need not have a fabric
    shape.gap = cluster.fabric_spec().message.gap;
    shape.rails = shape.ranks;
    std::vector<std::int64_t> exits;
    for (std::size_t i = 0; i < nodes.size() && shape.rails > 1; ++i) {
      find_exits(nodes[i], cluster, exits);
      shape.rails = std::min(shape.rails, static_cast<std::int64_t>(exits.size()));
    }
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const topology::Cluster::Way way = cluster.way(nodes[i].front(), nodes[(i + 1) % nodes.size()].front());
      shape.hop = std::max(shape.hop, way.latency);
      shape.top = std::max(shape.top, way.top);
      const topology::Cluster::NicRate nic = cluster.nic_rate(cluster.node_of(nodes[i].front()));
      shape.nic = shape.nic ? slower(*shape.nic, nic) : nic;
    }
  }
  return shape;
}

std::uint32_t patterns_of(const GroupShape& shape, const GroupCalls& calls) {
  constexpr auto kShared = static_cast<std::uint32_t>(Pattern::own);
  if (shape.nodes == 1) return 1;
  if (calls.own.bits != 0) return kShared + static_cast<std::uint32_t>(algorithms_with_routes().size());
  return calls.all_reduces ? kShared : 1;
}

sim::RouteId add_group_routes(sim::Network& network, std::span<const std::int64_t> gpus, const GroupShape& shape,
                              const GroupCalls& calls, const topology::Cluster& cluster,
                              std::span<const std::uint32_t> of_node) {
  std::vector<WeightedLink> links;
  Duration around{};
  if (in_one_node(gpus, cluster)) {
    std::vector<std::int64_t> members(gpus.begin(), gpus.end());
    std::sort(members.begin(), members.end());
    append_links(links, cluster.ring_links(members), 1.0, cluster);
    return network.add_route(links, around);
  }
  const MembersByNode nodes(gpus, cluster);
  const auto is_kept = [&](std::int64_t gpu) {
    return of_node.empty() || of_node[static_cast<std::size_t>(cluster.node_of(gpu))] > 0;
  };
  // Inside a node every ring passes through all members; a member forwards to another except on the rings that leave by
  // its NIC. On a mesh these are paths whose ends differ, so that a ring less one hop, taken evenly, stands for them
  // (ROCm/rccl, src/graph/rome_models.cc, model 84: 8 paths over 8 MI300X, each from a NIC to another, every link
  // once).
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const auto g = static_cast<double>(nodes[i].size());
    if (g > 1 && is_kept(nodes[i].front())) append_links(links, cluster.ring_links(nodes[i]), (g - 1) / g, cluster);
  }
  Duration hop{};
  const double weight = 1.0 / static_cast<double>(shape.rails);
  std::vector<std::int64_t> from, to;
  find_exits(nodes[0], cluster, to);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    from.swap(to);
    find_exits(nodes[(i + 1) % nodes.size()], cluster, to);
    for (std::size_t rail = 0; rail < static_cast<std::size_t>(shape.rails); ++rail) {
      topology::Path path;
      if (is_kept(from[rail]) || is_kept(to[rail])) {
        path = cluster.path(from[rail], to[rail], rail);
        if (!of_node.empty()) {
          std::erase_if(path.links, [&](const WeightedLink& link) {
            const std::int64_t node = cluster.node_of_link(link.link);
            return node < cluster.nodes() && of_node[static_cast<std::size_t>(node)] == 0;
          });
        }
        append_links(links, path.links, weight, cluster);
      } else {
        path.latency = cluster.way(from[rail], to[rail]).latency;
      }
      if (rail == 0) around += path.latency;
      hop = std::max(hop, path.latency);
    }
  }
  const sim::RouteId first = network.add_route(links, around);
  if (patterns_of(shape, calls) == 1) return first;
  network.add_route(links, around * 2);
  network.add_route(links, hop);
  if (calls.own.bits == 0) return first;
  for (const Algorithm* algorithm : algorithms_with_routes()) {
    const OwnRoute own = algorithm->route(gpus, cluster);
    network.add_route(own.links, own.latency);
  }
  return first;
}

sim::RouteId add_pair_route(sim::Network& network, std::int64_t from, std::int64_t to,
                            const topology::Cluster& cluster) {
  topology::Path path = cluster.path(from, to);
  std::erase_if(path.links, [&](const WeightedLink& link) { return never_matters(link.link, cluster); });
  return network.add_route(path.links, path.latency);
}

OwnRoute route_of_rounds(std::span<const std::int64_t> gpus, const topology::Cluster& cluster, Towards towards,
                         std::size_t (*parts)(std::size_t n, std::size_t distance)) {
  const MembersByNode nodes(gpus, cluster);
  const std::vector<std::int64_t>& ranks = nodes.all();
  const std::size_t n = ranks.size();
  OwnRoute out;
  for (std::size_t distance = 1; distance < n; distance *= 2) {
    const double share = static_cast<double>(parts(n, distance)) / static_cast<double>(n - 1);
    const std::size_t ahead = towards == Towards::above ? distance : n - distance;
    sim::Duration longest{};
    for (std::size_t i = 0; i < n; ++i) {
      const topology::Path path = cluster.path(ranks[i], ranks[(i + ahead) % n], i);
      append_links(out.links, path.links, share, cluster);
      longest = std::max(longest, path.latency);
    }
    out.latency += longest;
  }
  return out;
}

}  // namespace orrery::workloads
