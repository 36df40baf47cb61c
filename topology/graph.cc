// The algorithms on graphs, on Boost.Graph, and the names.
#include "topology/graph.h"

#include <array>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/breadth_first_search.hpp>
#include <boost/graph/compressed_sparse_row_graph.hpp>
#include <boost/graph/push_relabel_max_flow.hpp>

#include "sim/error.h"

namespace orrery::topology {

std::string_view name_of(Tier tier) {
  static constexpr std::array<std::string_view, 6> kNames{"node", "nic", "leaf", "spine", "core", "global"};
  return kNames[static_cast<std::size_t>(tier)];
}

std::string_view name_of(VertexKind kind) {
  static constexpr std::array<std::string_view, 9> kNames{"GPU",         "NVSwitch",    "PCIe switch",
                                                          "NIC",         "leaf switch", "spine switch",
                                                          "core switch", "group",       "global exchange"};
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

double max_flow(std::uint32_t vertices, std::span<const FlowEdge> edges, std::uint32_t source, std::uint32_t sink) {
  using Traits = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::directedS>;
  struct Arc {
    double capacity = 0, residual = 0;
    Traits::edge_descriptor reverse;
  };
  using Network = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, boost::no_property, Arc>;
  if (source == sink) return 0;
  Network network(vertices);
  for (const FlowEdge& e : edges) {
    // Full duplex: each arc is the other's reverse with its own capacity.
    const auto there = boost::add_edge(e.a, e.b, network).first;
    const auto back = boost::add_edge(e.b, e.a, network).first;
    network[there] = {e.capacity, 0, back};
    network[back] = {e.capacity, 0, there};
  }
  return boost::push_relabel_max_flow(network, source, sink, boost::get(&Arc::capacity, network),
                                      boost::get(&Arc::residual, network), boost::get(&Arc::reverse, network),
                                      boost::get(boost::vertex_index, network));
}

}  // namespace orrery::topology
