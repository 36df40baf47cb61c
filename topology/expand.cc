// Expands the wiring into single switches and cables: every member of a group a vertex, every pair of members that a
// bundle joins an edge. A dragonfly's exchanges become the complete graphs that they stand for; links to groups of the
// machine that the cluster does not use are left out.
#include <map>

#include "topology/state.h"

namespace orrery::topology {

namespace {

std::string node_vertex_name(VertexKind kind, std::int64_t node, std::int64_t number) {
  static const std::map<VertexKind, std::string> kShort = {{VertexKind::gpu, "gpu"},
                                                           {VertexKind::nvswitch, "nvswitch"},
                                                           {VertexKind::pcie_switch, "pcie"},
                                                           {VertexKind::nic, "nic"},
                                                           {VertexKind::host_bridge, "host"}};
  return fmt::format("n{} {}{}", node, kShort.at(kind), number);
}

/// First vertex of every group of one node.
std::vector<std::uint32_t> add_node(const Cluster::State& s, std::int64_t node, Graph& graph) {
  std::vector<std::uint32_t> first;
  std::map<VertexKind, std::int64_t> number;
  for (std::size_t g = 0; g < s.inside.groups.size(); ++g) {
    const NodeWiring::Group& group = s.inside.groups[g];
    if (group.kind == VertexKind::gpu) {
      first.push_back(static_cast<std::uint32_t>(node * s.inside.gpus + static_cast<std::int64_t>(g)));
      continue;
    }
    first.push_back(static_cast<std::uint32_t>(graph.vertices.size()));
    for (std::int32_t m = 0; m < group.members; ++m) {
      graph.vertices.push_back({group.kind, node, -1, m, node_vertex_name(group.kind, node, number[group.kind]++)});
    }
  }
  for (const Bundle& b : s.inside.bundles) {
    const std::int32_t low_members = s.inside.groups[b.low].members, high_members = s.inside.groups[b.high].members;
    for (std::int32_t l = 0; l < low_members; ++l) {
      for (std::int32_t h = 0; h < high_members; ++h) {
        const std::int32_t lanes = lanes_between(b, low_members, high_members, l, h);
        if (lanes == 0) continue;
        graph.edges.push_back({first[b.low] + static_cast<std::uint32_t>(l),
                               first[b.high] + static_cast<std::uint32_t>(h), lanes, b.lane_rate, b.tier});
      }
    }
  }
  return first;
}

/// The complete graph between `children`, each a list of switches that take turns in carrying its links.
void add_mesh(const std::vector<std::vector<std::uint32_t>>& children, std::int32_t links, const Bundle& bundle,
              Graph& graph) {
  std::vector<std::size_t> turn(children.size(), 0);
  for (std::size_t a = 0; a < children.size(); ++a) {
    for (std::size_t b = a + 1; b < children.size(); ++b) {
      if (children[a].size() == 1 && children[b].size() == 1) {
        graph.edges.push_back({children[a][0], children[b][0], links, bundle.lane_rate, bundle.tier});
        continue;
      }
      for (std::int32_t i = 0; i < links; ++i) {
        graph.edges.push_back({children[a][turn[a]++ % children[a].size()], children[b][turn[b]++ % children[b].size()],
                               1, bundle.lane_rate, bundle.tier});
      }
    }
  }
}

void add_fabric(const Cluster::State& s, std::vector<std::uint32_t>& first, Graph& graph) {
  const std::vector<FabricWiring::Group>& groups = s.outside.groups;
  std::vector<std::vector<std::uint32_t>> switches(groups.size());  // of a mesh's children: all below
  std::vector<std::vector<std::uint32_t>> children(groups.size());
  for (std::uint32_t g = 0; g < groups.size(); ++g) {
    first.push_back(static_cast<std::uint32_t>(graph.vertices.size()));
    if (groups[g].parent != kNoGroup) children[groups[g].parent].push_back(g);
    if (groups[g].mesh_links > 0) continue;
    for (std::int32_t m = 0; m < groups[g].members; ++m) {
      switches[g].push_back(static_cast<std::uint32_t>(graph.vertices.size()));
      const std::string name = groups[g].members > 1 ? fmt::format("{}.{}", groups[g].name, m) : groups[g].name;
      graph.vertices.push_back({groups[g].kind, -1, static_cast<std::int32_t>(g), m, name});
    }
  }
  for (std::uint32_t g = 0; g < groups.size(); ++g) {
    if (groups[g].mesh_links > 0) {
      std::vector<std::vector<std::uint32_t>> ends;
      for (const std::uint32_t child : children[g]) {
        ends.push_back(switches[child]);
        switches[g].insert(switches[g].end(), switches[child].begin(), switches[child].end());
      }
      if (ends.size() > 1) add_mesh(ends, groups[g].mesh_links, s.outside.bundles[groups[children[g][0]].up], graph);
      continue;
    }
    for (const std::uint32_t child : children[g]) {
      const Bundle& b = s.outside.bundles[groups[child].up];
      for (std::int32_t l = 0; l < groups[child].members; ++l) {
        for (std::int32_t h = 0; h < groups[g].members; ++h) {
          const std::int32_t lanes = lanes_between(b, groups[child].members, groups[g].members, l, h);
          if (lanes > 0) {
            graph.edges.push_back({first[child] + static_cast<std::uint32_t>(l),
                                   first[g] + static_cast<std::uint32_t>(h), lanes, b.lane_rate, b.tier});
          }
        }
      }
    }
  }
}

/// Cables between the switches of a fabric that is no tree.
void add_cables(const Cluster::State& s, const std::vector<std::uint32_t>& first, Graph& graph) {
  if (s.outside.tree) return;
  for (const Bundle& b : s.outside.bundles) {
    const std::int32_t lanes = lanes_left(b);
    if (lanes > 0) graph.edges.push_back({first[b.low], first[b.high], lanes, b.lane_rate, b.tier});
  }
}

}  // namespace

Graph Cluster::graph() const {
  const State& s = *state_;
  Graph graph;
  for (std::int64_t gpu = 0; gpu < s.nodes * s.inside.gpus; ++gpu) {
    const std::int64_t node = gpu / s.inside.gpus;
    graph.vertices.push_back(
        {VertexKind::gpu, node, -1, 0, node_vertex_name(VertexKind::gpu, node, gpu % s.inside.gpus)});
  }
  std::vector<std::uint32_t> first_nic;
  for (std::int64_t n = 0; n < s.nodes; ++n) {
    const std::vector<std::uint32_t> first = add_node(s, n, graph);
    if (s.inside.nics > 0) first_nic.push_back(first[s.inside.first_nic]);
  }
  std::vector<std::uint32_t> first_switch;
  add_fabric(s, first_switch, graph);
  add_cables(s, first_switch, graph);
  for (std::int64_t n = 0; n < s.nodes && s.inside.nics > 0; ++n) {
    for (std::int64_t i = 0; i < s.inside.nics; ++i) {
      if (s.lost(n, i)) continue;
      graph.edges.push_back({first_nic[static_cast<std::size_t>(n)] + static_cast<std::uint32_t>(i),
                             first_switch[s.leaf_of(n, i)], 1, s.fabric.nic_rate, Tier::leaf});
    }
  }
  return graph;
}

}  // namespace orrery::topology
