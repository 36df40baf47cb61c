// The algorithms on graphs, on Boost.Graph, and the names.
#include "topology/graph.h"

#include <algorithm>
#include <array>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/breadth_first_search.hpp>
#include <boost/graph/compressed_sparse_row_graph.hpp>
#include <boost/graph/push_relabel_max_flow.hpp>
#include <cmath>

#include "sim/error.h"

namespace orrery::topology {

std::string_view name_of(Tier tier) {
  static constexpr std::array<std::string_view, 6> kNames{"node", "nic", "leaf", "spine", "core", "global"};
  return kNames[static_cast<std::size_t>(tier)];
}

std::string_view name_of(VertexKind kind) {
  static constexpr std::array<std::string_view, kVertexKinds> kNames{
      "GPU",         "NVSwitch", "PCIe switch",     "NIC",        "leaf switch", "spine switch",
      "core switch", "group",    "global exchange", "host bridge"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::vector<std::int32_t> hops_from(const Graph& graph, std::uint32_t source) {
  using Compact = boost::compressed_sparse_row_graph<boost::directedS>;
  SIM_CHECK(source < graph.vertices.size(), "vertex {} of {}", source, graph.vertices.size());
  std::vector<std::pair<std::size_t, std::size_t>> arcs;
  arcs.reserve(2 * graph.edges.size());
  for (const Graph::Edge& e : graph.edges) {
    arcs.emplace_back(e.a, e.b);
    arcs.emplace_back(e.b, e.a);
  }
  const Compact compact(boost::edges_are_unsorted_multi_pass, arcs.begin(), arcs.end(), graph.vertices.size());
  std::vector<std::int32_t> hops(graph.vertices.size(), -1);
  hops[source] = 0;
  const auto record = boost::record_distances(hops.data(), boost::on_tree_edge());
  boost::breadth_first_search(compact, source, boost::visitor(boost::make_bfs_visitor(record)));
  return hops;
}

namespace {

/// What an arc can carry at most: an unlimited one no more than the limited arcs at either of its ends, so that sums
/// over a million of them still fit an integer.
class Carried {
 public:
  Carried(std::uint32_t vertices, std::span<const FlowEdge> edges) : limited_(vertices, 0.0) {
    for (const FlowEdge& e : edges) {
      if (e.capacity >= kUnlimited) continue;
      limited_[e.a] += e.capacity;
      limited_[e.b] += e.capacity;
    }
  }
  std::int64_t at_most(const FlowEdge& e) const {
    double most = e.capacity;
    if (most >= kUnlimited) {
      const double a = limited_[e.a], b = limited_[e.b];
      most = a > 0 && b > 0 ? std::min(a, b) : std::max(a, b);
    }
    return std::llround(most);
  }

 private:
  static constexpr double kUnlimited = 1e17;
  std::vector<double> limited_;
};

}  // namespace

double max_flow(std::uint32_t vertices, std::span<const FlowEdge> edges, std::uint32_t source, std::uint32_t sink) {
  using Traits = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::directedS>;
  struct Arc {
    std::int64_t capacity = 0, residual = 0;  // whole bytes/s: Boost asserts that excesses cancel exactly
    Traits::edge_descriptor reverse;
  };
  using Network = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, boost::no_property, Arc>;
  if (source == sink) return 0;
  Network network(vertices);
  const Carried carried(vertices, edges);
  const auto add = [&](std::uint32_t from, std::uint32_t to, std::int64_t capacity) {
    if (from == sink || to == source) return;  // never part of a flow from source to sink
    const auto there = boost::add_edge(from, to, network).first;
    const auto back = boost::add_edge(to, from, network).first;
    network[there] = {capacity, 0, back};
    network[back] = {0, 0, there};
  };
  for (const FlowEdge& e : edges) {  // full duplex
    const std::int64_t capacity = carried.at_most(e);
    add(e.a, e.b, capacity);
    add(e.b, e.a, capacity);
  }
  return static_cast<double>(boost::push_relabel_max_flow(
      network, source, sink, boost::get(&Arc::capacity, network), boost::get(&Arc::residual, network),
      boost::get(&Arc::reverse, network), boost::get(boost::vertex_index, network)));
}

}  // namespace orrery::topology
