// Which machines have nodes that can change places, and whose a link is.
#include "sim/settings.h"
#include "tests/catch.h"
#include "tests/topology/fixtures.h"

using namespace orrery::topology;

namespace {

Cluster cluster_of(const FabricSpec& fabric, std::int64_t nodes, const Faults& faults = {}) {
  return Cluster(h100_node(), fabric, 8 * nodes, 8, nowhere(), faults);
}

}  // namespace

TEST_CASE("nodes change places where nothing outside of them can be full") {
  CHECK(cluster_of(ndr(), 4).nodes_change_places());
  CHECK(cluster_of(ndr(), 128).nodes_change_places());
  FabricSpec thin = ndr();
  thin.tree.oversubscription = 2;
  CHECK(!cluster_of(thin, 128).nodes_change_places());
  FabricSpec hashed = ndr();
  hashed.routes.policy = FabricSpec::Routing::ecmp;
  hashed.routes.ecmp_seed = 1;
  CHECK(!cluster_of(hashed, 128).nodes_change_places());
  FabricSpec rails = ndr();
  rails.kind = &fabrics::rail_only;
  CHECK(!cluster_of(rails, 4).nodes_change_places());
}

TEST_CASE("how far two nodes are apart, the switches above them tell") {
  FabricSpec fabric = ndr();
  fabric.tree.unit_nodes = 4;
  fabric.switches.radix = 16;
  const Cluster cluster = cluster_of(fabric, 64);
  REQUIRE(cluster.nodes_change_places());
  // By what the ways from node 0 have in common: leaf, spines, nothing below the core.
  for (std::int64_t node = 1; node < 64; ++node) {
    std::uint32_t a = cluster.leaf_of(0), b = cluster.leaf_of(8 * node);
    std::int64_t levels = 0;
    for (; a != b; ++levels) {
      a = cluster.above(a);
      b = cluster.above(b);
    }
    const Cluster::Way way = cluster.way(0, 8 * node);
    CHECK(way.latency == fabric.message.latency + fabric.switches.latency * (2 * levels + 1));
    CHECK(way.latency == cluster.path(0, 8 * node).latency);
    CHECK(way.hops == cluster.path(0, 8 * node).hops);
  }
}

TEST_CASE("links of a node are its own, and no others") {
  const Cluster cluster = cluster_of(ndr(), 4);
  const Path path = cluster.path(3, 8 * 2 + 5);
  CHECK(cluster.node_of_link(path.links.front().link) == 0);
  CHECK(cluster.node_of_link(path.links.back().link) == 2);
  for (const orrery::sim::LinkId link : cluster.nic_links(1, 7)) CHECK(cluster.node_of_link(link) == 1);
  CHECK(cluster.links_of_node() * 4 <= cluster.links().size());
}
