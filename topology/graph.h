// A cluster as a plain graph: every GPU, NVSwitch chip, PCIe switch, NIC and network switch is a vertex; an edge is a
// cable or the parallel lanes between the same two vertices. Full duplex: an edge carries its rate in both directions
// at once. The algorithms run on Boost.Graph (Siek, Lee, Lumsdaine 2002), which stays in graph.cc.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/units.h"

namespace orrery::topology {

using sim::Bandwidth;

/// Where a link lies, named after its upper end; also the level that traffic reports group by. node: NVLink or mesh;
/// nic: GPU to NIC over PCIe; leaf: NIC to first switch; spine: first to second switch tier (in a dragonfly: inside a
/// group; in a torus or a list of edges: between switches); core: second to third tier; global: between the groups of a
/// dragonfly.
enum class Tier : std::uint8_t { node, nic, leaf, spine, core, global };
std::string_view name_of(Tier tier);

enum class VertexKind : std::uint8_t { gpu, nvswitch, pcie_switch, nic, leaf, spine, core, group, global, host_bridge };
inline constexpr std::size_t kVertexKinds = 10;
/// In the singular, as in "PCIe switch".
std::string_view name_of(VertexKind kind);

struct Graph {
  struct Vertex {
    VertexKind kind = VertexKind::gpu;
    std::int64_t node = -1;   // -1: a network switch
    std::int32_t set = -1;    // network switches: which group of twins,
    std::int32_t member = 0;  // and which of its members; NVSwitch chips: which chip
    std::string name;
  };
  struct Edge {
    std::uint32_t a = 0, b = 0;
    std::int32_t lanes = 1;
    Bandwidth rate{};  // line rate of one lane, one direction
    Tier tier = Tier::node;
  };
  std::vector<Vertex> vertices;  // GPUs come first, in the order of their numbers
  std::vector<Edge> edges;
};

/// Links on the shortest way from `source` to every vertex; -1 where there is none.
std::vector<std::int32_t> hops_from(const Graph& graph, std::uint32_t source);

struct FlowEdge {
  std::uint32_t a = 0, b = 0;
  double capacity = 0;  // in both directions at once
};
/// The largest flow from `source` to `sink` (push-relabel, Goldberg & Tarjan 1988), in the unit of the capacities.
double max_flow(std::uint32_t vertices, std::span<const FlowEdge> edges, std::uint32_t source, std::uint32_t sink);

}  // namespace orrery::topology
