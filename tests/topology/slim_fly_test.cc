// Has a Slim Fly the counts of its paper, two links at most between any two switches, and one way where there is one?
#include <map>

#include "tests/catch.h"
#include "tests/topology/fixtures.h"

namespace orrery::topology {

namespace {

sim::Settings document(std::int64_t q, std::int64_t nodes_per_switch, std::int64_t radix) {
  sim::Settings fabric = nowhere();
  const auto set = [&](const std::string& key, const std::string& value) {
    fabric.set(key, sim::Settings::scalar(value, {"test", 1, 1}));
  };
  set("kind", "slim_fly");
  set("name", "test");
  set("q", std::to_string(q));
  set("nodes_per_switch", std::to_string(nodes_per_switch));
  set("nics", "1");
  set("nic_rate", "400 Gb/s");
  set("radix", std::to_string(radix));
  return fabric;
}

/// Links of a switch: (3 q - 1) / 2 or (3 q + 1) / 2.
std::int64_t degree(std::int64_t q) { return q % 4 == 1 ? (3 * q - 1) / 2 : (3 * q + 1) / 2; }

Cluster cluster_of(std::int64_t q) { return make(a100_node(), load_fabric_spec(document(q, 1, 64)), 2 * q * q); }

}  // namespace

TEST_CASE("A Slim Fly has 2 q^2 switches with about 3 q / 2 links each") {
  for (const std::int64_t q : {3, 5, 7, 11, 13}) {
    INFO("q " << q);
    const Cluster cluster = cluster_of(q);
    const auto d = cluster.describe();
    CHECK(count(d, "leaf switch") == 2 * q * q);
    CHECK(links(d, Tier::spine) == q * q * degree(q));
    std::map<std::uint32_t, std::int64_t> ends;
    for (const Graph::Edge& e : cluster.graph().edges) {
      if (e.tier != Tier::spine) continue;
      ends[e.a] += e.lanes;
      ends[e.b] += e.lanes;
    }
    CHECK(static_cast<std::int64_t>(ends.size()) == 2 * q * q);
    for (const auto& [vertex, at] : ends) CHECK(at == degree(q));
  }
}

TEST_CASE("Two switches of a Slim Fly are one link apart, or two") {
  // GPU - PCIe - NIC - switches - NIC - PCIe - GPU: as in a torus (torus_test.cc).
  for (const std::int64_t q : {5, 7, 11}) {
    INFO("q " << q);
    const Cluster cluster = cluster_of(q);
    for (const std::int64_t from : {std::int64_t{0}, q + 2, q * q + 3}) {
      std::map<std::int32_t, std::int64_t> apart;
      for (std::int64_t to = 0; to < cluster.nodes(); ++to) {
        if (to != from) ++apart[cluster.way(from * 8, to * 8).hops - 6];
      }
      // Whatever is no neighbour is two links away.
      CHECK(apart == std::map<std::int32_t, std::int64_t>{{1, degree(q)}, {2, 2 * q * q - 1 - degree(q)}});
    }
  }
}

TEST_CASE("A Slim Fly of q = 5 is the graph of Hoffman and Singleton: one shortest path between any two") {
  // 50 switches of 7 links: 1 + 7 + 7 * 6 = 50, so that no two of the ways of two links end at the same switch.
  const Cluster cluster = cluster_of(5);
  for (std::int64_t to = 1; to < cluster.nodes(); ++to) {
    for (const auto& [link, weight] : cluster.path(0, to * 8).links) {
      if (cluster.links()[link].tier == Tier::spine) CHECK(weight == Approx(1.0));
    }
  }
}

TEST_CASE("A Slim Fly refuses what it cannot be and what it cannot hold") {
  CHECK_THROWS_WITH(load_fabric_spec(document(9, 1, 64)), ContainsSubstring("got 9, expected an odd prime"));
  CHECK_THROWS_WITH(make(a100_node(), load_fabric_spec(document(5, 1, 64)), 51),
                    ContainsSubstring("got 51 nodes, expected at most 50"));
  // 7 links and 4 NICs need 11 ports.
  CHECK_NOTHROW(make(a100_node(), load_fabric_spec(document(5, 4, 11)), 200));
  CHECK_THROWS_WITH(make(a100_node(), load_fabric_spec(document(5, 4, 10)), 200), ContainsSubstring("expected 11"));
}

TEST_CASE("Keys of a Slim Fly belong to it alone") {
  sim::Settings fabric = document(5, 1, 64);
  fabric.set("groups", sim::Settings::scalar("4", {"test", 1, 1}));
  CHECK_THROWS_WITH(load_fabric_spec(fabric), ContainsSubstring("has no meaning for a fabric of kind slim_fly"));
  // Two that differ in q alone are two fabrics.
  CHECK(load_fabric_spec(document(5, 1, 64)) == load_fabric_spec(document(5, 1, 64)));
  CHECK_FALSE(load_fabric_spec(document(5, 1, 64)) == load_fabric_spec(document(7, 1, 64)));
}

}  // namespace orrery::topology
