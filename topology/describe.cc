// Counts, bisection and path lengths of a cluster.
#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "topology/state.h"

namespace orrery::topology {

namespace {

/// The insides of nodes, and how many are so, in the order of the nodes.
std::vector<std::pair<NodeWiring, std::int64_t>> kinds_of_nodes(const Cluster::State& s) {
  std::int64_t first = s.nodes;
  for (const OtherNodes& other : s.others) first -= other.nodes;
  std::vector<std::pair<NodeWiring, std::int64_t>> kinds{{s.inside, first}};
  for (const OtherNodes& other : s.others) kinds.emplace_back(s.wired(other.node), other.nodes);
  return kinds;
}

std::vector<Cluster::Description::Count> count_vertices(const Cluster::State& s) {
  std::array<std::int64_t, kVertexKinds> count{};
  for (const auto& [inside, nodes] : kinds_of_nodes(s)) {
    for (const NodeWiring::Group& g : inside.groups) count[static_cast<std::size_t>(g.kind)] += g.members * nodes;
  }
  for (const FabricWiring::Group& g : s.outside.groups) count[static_cast<std::size_t>(g.kind)] += g.members;
  std::vector<Cluster::Description::Count> rows{{"node", s.nodes}};
  for (std::size_t k = 0; k < count.size(); ++k) {
    // The one global exchange stands for links, not for a thing to count.
    if (count[k] > 0 && static_cast<VertexKind>(k) != VertexKind::global) {
      rows.push_back({std::string(name_of(static_cast<VertexKind>(k))), count[k]});
    }
  }
  return rows;
}

std::vector<Cluster::Description::TierRow> count_links(const Cluster::State& s) {
  struct Sum {
    double links = 0, rate = 0;
  };
  std::array<Sum, 6> sums{};
  const auto add = [&](Tier tier, double links, Bandwidth each) {
    sums[static_cast<std::size_t>(tier)].links += links;
    sums[static_cast<std::size_t>(tier)].rate += links * each.value();
  };
  std::int64_t first = 0;
  for (const auto& [inside, many] : kinds_of_nodes(s)) {
    const auto nodes = static_cast<double>(many);
    for (const Bundle& b : inside.bundles) add(b.tier, nodes * b.lanes, b.lane_rate);
    if (inside.nics > 0) add(Tier::leaf, nodes * inside.nics, s.nic_rate_of(first));
    first += many;
  }
  std::vector<std::int64_t> children(s.outside.groups.size(), 0);
  for (const Bundle& b : s.outside.bundles) ++children[b.high];
  for (const Bundle& b : s.outside.bundles) {
    // A link of a complete graph is brought by both its ends; those to unused groups are not counted.
    const std::int32_t mesh = s.outside.groups[b.high].mesh_links;
    add(b.tier, mesh > 0 ? 0.5 * mesh * static_cast<double>(children[b.high] - 1) : lanes_left(b), b.lane_rate);
  }
  std::vector<Cluster::Description::TierRow> rows;
  for (std::size_t t = 0; t < sums.size(); ++t) {
    if (sums[t].links == 0) continue;
    rows.push_back({static_cast<Tier>(t), static_cast<std::int64_t>(sums[t].links + 0.5),
                    Bandwidth(sums[t].rate / sums[t].links), Bandwidth(sums[t].rate)});
  }
  return rows;
}

/// Largest flow from the first half of the nodes (of one node: of its GPUs) to the others.
Bandwidth bisect(const Cluster::State& s) {
  std::vector<FlowEdge> edges;
  std::uint32_t vertices = 0;
  const auto ends = [&](std::int64_t index, std::int64_t of) { return index < of / 2 ? vertices : vertices + 1; };
  const double unlimited = 1e18;
  if (s.nodes == 1) {
    vertices = static_cast<std::uint32_t>(s.inside.groups.size());
    for (std::int64_t g = 0; g < s.inside.gpus; ++g) {
      edges.push_back({static_cast<std::uint32_t>(g), ends(g, s.inside.gpus), unlimited});
    }
    for (const Bundle& b : s.inside.bundles) {
      if (b.tier == Tier::node) edges.push_back({b.low, b.high, b.lane_rate.value() * b.lanes * s.node.efficiency});
    }
    return Bandwidth(s.inside.gpus < 2 ? 0.0 : max_flow(vertices + 2, edges, vertices, vertices + 1));
  }
  vertices = static_cast<std::uint32_t>(s.outside.groups.size());
  std::map<std::pair<std::uint32_t, std::uint32_t>, double> at_leaf;
  for (std::int64_t n = 0; n < s.nodes; ++n) {
    for (std::int64_t i = 0; i < s.inside.nics; ++i) {
      at_leaf[{s.leaf_of(n, i), ends(n, s.nodes)}] += s.nic_feed(n);
    }
  }
  for (const auto& [key, capacity] : at_leaf) edges.push_back({key.first, key.second, capacity});
  for (const Bundle& b : s.outside.bundles) edges.push_back({b.low, b.high, s.payload(b, true)});
  return Bandwidth(max_flow(vertices + 2, edges, vertices, vertices + 1));
}

std::vector<Cluster::Description::PathRow> survey_paths(const Cluster& cluster, const Cluster::State& s) {
  std::map<std::tuple<Tier, std::int64_t, std::int64_t>, std::int64_t> found;  // tier, hops, latency
  for (std::int64_t gpu = 1; gpu < s.gpus; ++gpu) {
    const Cluster::Way way = cluster.way(gpu, 0);  // towards one destination: one search of the graph does for all
    ++found[{way.top, way.hops, way.latency.value()}];
  }
  std::vector<Cluster::Description::PathRow> rows;
  for (const auto& [key, count] : found) {
    rows.push_back({std::get<0>(key), std::get<1>(key), Duration(std::get<2>(key)),
                    static_cast<double>(count) / static_cast<double>(s.gpus - 1)});
  }
  return rows;
}

}  // namespace

Cluster::Description Cluster::describe() const {
  const State& s = *state_;
  Description d;
  d.vertices = count_vertices(s);
  d.tiers = count_links(s);
  d.bisection = bisect(s);
  d.paths = survey_paths(*this, s);
  if (!s.outside.groups.empty() && s.outside.groups[0].parent != kNoGroup) {
    const Bundle& up = s.outside.bundles[s.outside.groups[0].up];
    d.collision_factor = s.by_bundle.collisions[s.outside.groups[0].up];  // the first unit is the fullest
    const auto nics = std::count(s.outside.leaf_of_nic.begin(), s.outside.leaf_of_nic.end(), 0U);
    d.uplinks = {nics * s.fabric.routes.flows_per_nic, lanes_left(up),
                 Bandwidth(s.fabric.nic_rate.value() / static_cast<double>(s.fabric.routes.flows_per_nic)),
                 up.lane_rate};
  }
  return d;
}

}  // namespace orrery::topology
