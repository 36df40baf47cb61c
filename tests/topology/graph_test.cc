// Do the graph algorithms and the picture say what is there?
#include <map>
#include <sstream>

#include "tests/catch.h"
#include "tests/topology/fixtures.h"

namespace orrery::topology {

namespace {

std::size_t occurrences(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

std::string drawn(const Cluster& cluster) {
  std::ostringstream out;
  cluster.write_dot(out);
  return out.str();
}

}  // namespace

TEST_CASE("Hops and the largest flow on a graph small enough to see") {
  // 0 - 1 - 2 - 3 with a short cut 0 - 2; 4 is alone.
  Graph graph;
  graph.vertices.resize(5);
  for (const auto& [a, b] : {std::pair{0U, 1U}, {1U, 2U}, {2U, 3U}, {0U, 2U}})
    graph.edges.push_back({a, b, 1, Bandwidth(1), Tier::node});
  CHECK(hops_from(graph, 0) == std::vector<std::int32_t>{0, 1, 1, 2, -1});
  // From 0 to 3: 5 over the short cut and 3 over 1, but 2 - 3 lets 7 through.
  const std::vector<FlowEdge> edges = {{0, 1, 3}, {1, 2, 4}, {2, 3, 7}, {0, 2, 5}};
  CHECK(max_flow(5, edges, 0, 3) == Approx(7));
  CHECK(max_flow(5, edges, 0, 2) == Approx(3 + 5));
  CHECK(max_flow(5, edges, 0, 4) == 0);
}

TEST_CASE("Everything is connected, and GPUs come first") {
  const Cluster cluster = make(a100_node(), tomahawk(), 600);
  const Graph graph = cluster.graph();
  for (std::int64_t gpu = 0; gpu < cluster.gpus(); gpu += 777) {
    CHECK(graph.vertices[static_cast<std::size_t>(gpu)].kind == VertexKind::gpu);
    CHECK(graph.vertices[static_cast<std::size_t>(gpu)].node == cluster.node_of(gpu));
  }
  std::int64_t lost = 0;
  for (const std::int32_t hops : hops_from(graph, 0)) lost += hops < 0;
  CHECK(lost == 0);
}

TEST_CASE("The table and the graph agree on every count") {
  const Cluster cluster = make(h100_node(), ndr(), 300);
  const auto d = cluster.describe();
  const Graph graph = cluster.graph();
  std::map<std::string, std::int64_t> vertices;
  for (const Graph::Vertex& v : graph.vertices) ++vertices[std::string(name_of(v.kind))];
  for (const auto& [what, n] : vertices) CHECK(count(d, what) == n);
  std::map<Tier, std::int64_t> lanes;
  for (const Graph::Edge& e : graph.edges) lanes[e.tier] += e.lanes;
  for (const auto& [tier, n] : lanes) CHECK(links(d, tier) == n);
}

TEST_CASE("Small clusters are drawn whole, large ones in part, which the picture says") {
  const std::string small = drawn(make(h100_node(), ndr(), 1));
  CHECK(occurrences(small, "label=\"gpu") == 8);
  CHECK(occurrences(small, "label=\"nvswitch") == 4);
  CHECK(occurrences(small, "label=\"nic") == 8);
  CHECK(occurrences(small, "excerpt") == 0);
  CHECK(occurrences(small, "{") == occurrences(small, "}"));
  const std::string large = drawn(make(a100_node(), tomahawk(), 1536));
  CHECK(occurrences(large, "An excerpt: 3 of 1536 nodes") == 1);
  CHECK(occurrences(large, "of 192 leaf switches") == 1);
  CHECK(large.size() < 100'000);
}

TEST_CASE("A name from the user cannot break the picture") {
  FabricSpec fabric = ndr();
  fabric.name = "<b>&\"";
  const std::string text = drawn(make(h100_node(), fabric, 2));
  CHECK(occurrences(text, "&lt;b&gt;&amp;") == 1);
  CHECK(occurrences(text, "<b>") == 0);
}

}  // namespace orrery::topology
