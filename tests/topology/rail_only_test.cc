// Do rails without switches between them keep apart, and does traffic from rail to rail cross inside a node?
#include "tests/catch.h"
#include "tests/topology/fixtures.h"

namespace orrery::topology {

namespace {

FabricSpec rails() {
  FabricSpec fabric = ndr();
  fabric.kind = &fabrics::rail_only;
  return fabric;
}

}  // namespace

TEST_CASE("Rails that no spine joins: one switch each where a rail fits on it, and a tree of its own beyond") {
  const auto small = make(h100_node(), rails(), 32).describe();
  CHECK(count(small, "leaf switch") == 8);
  CHECK(count(small, "spine switch") == 0);
  // The same nodes on a rail-optimised tree need spines, 8 x 32 uplinks on 64 ports.
  CHECK(count(make(h100_node(), ndr(), 32).describe(), "spine switch") == 4);
  // 128 nodes: every rail has 4 leaves of 32 uplinks, on 2 spines of 64 ports.
  const auto large = make(h100_node(), rails(), 128).describe();
  CHECK(count(large, "leaf switch") == 8 * 4);
  CHECK(count(large, "spine switch") == 8 * 2);
  CHECK(links(large, Tier::spine) == 8 * 4 * 32);
}

TEST_CASE("From rail to rail the sender's node passes traffic on over NVLink") {
  const Cluster cluster = make(h100_node(), rails(), 64);
  const NodeSpec node = h100_node();
  const Path same = cluster.path(3, 8 + 3);
  CHECK(same.top == Tier::leaf);
  CHECK(same.hops == 2 + 2 + 2);
  // GPU 3 of node 0 to GPU 5 of node 1: first to GPU 5 of node 0, then along rail 5.
  const Path across = cluster.path(3, 8 + 5), inside = cluster.path(3, 5), along = cluster.path(5, 8 + 5);
  CHECK(across.latency == same.latency + node.latency);
  CHECK(across.hops == same.hops + 2);
  std::vector<sim::WeightedLink> both = inside.links;
  both.insert(both.end(), along.links.begin(), along.links.end());
  CHECK(across.links == both);
  CHECK(cluster.way(3, 8 + 5).hops == across.hops);
  CHECK(cluster.way(3, 8 + 5).latency == across.latency);
  // Rails bisect like any other network: eight of them, half of the nodes each.
  CHECK(cluster.describe().bisection.value() == Approx(32.0 * 8 * 50e9 * 0.95));
}

TEST_CASE("GPUs of a node that no rail joins are turned like those of a rail-optimised tree") {
  const Cluster cluster = make(h100_node(), rails(), 64);
  const auto orbits = cluster.link_orbits(8);
  REQUIRE(orbits.size() == cluster.links().size());
  for (std::uint32_t link = 0; link < orbits.size(); ++link) CHECK(orbits[sim::LinkId{link}] == 8);
}

}  // namespace orrery::topology
