// Is the turn of a node's GPUs the symmetry that link_orbits says it is?
#include <set>
#include <vector>

#include "tests/catch.h"
#include "tests/topology/fixtures.h"

using namespace orrery::topology;
using orrery::sim::index;

namespace {

std::int64_t turned(std::int64_t gpu, std::int64_t size) { return gpu / size * size + (gpu + 1) % size; }

/// Turns both ends of a path `size` times: every link meets its like, and as many different ones as its orbit says.
void check_turns(const Cluster& cluster, std::int64_t size, std::int64_t from, std::int64_t to) {
  const LinkOrbits orbits = cluster.link_orbits(size);
  REQUIRE(orbits.size() == cluster.links().size());
  const Path first = cluster.path(from, to);
  std::vector<std::set<std::uint32_t>> seen(first.links.size());
  for (std::int64_t i = 0; i < size; ++i) {
    const Path path = cluster.path(from, to);
    REQUIRE(path.links.size() == first.links.size());
    CHECK(path.latency == first.latency);
    CHECK(path.top == first.top);
    for (std::size_t k = 0; k < path.links.size(); ++k) {
      const LinkInfo &own = cluster.links()[path.links[k].link], &like = cluster.links()[first.links[k].link];
      CHECK(own.capacity == like.capacity);
      CHECK(own.never_binding == like.never_binding);
      CHECK(orbits[path.links[k].link] == orbits[first.links[k].link]);
      seen[k].insert(index(path.links[k].link));
    }
    from = turned(from, size);
    to = turned(to, size);
  }
  for (std::size_t k = 0; k < seen.size(); ++k)
    CHECK(seen[k].size() == static_cast<std::size_t>(orbits[first.links[k].link]));
}

}  // namespace

TEST_CASE("turning the GPUs of every node maps routes onto routes, on rails and off them, through three tiers") {
  FabricSpec shared = ndr();
  shared.tree.rail = false;
  shared.tree.unit_nodes = 4;
  shared.tree.oversubscription = 2.0;
  FabricSpec by_rail = ndr();
  by_rail.tree.spine_groups = FabricSpec::SpineGroups::rail;
  by_rail.tree.pod_leaves = 8;
  FabricSpec by_unit = ndr();
  by_unit.tree.pod_leaves = 8;
  by_unit.tree.core_oversubscription = 2.0;
  for (const FabricSpec& fabric : {ndr(), tomahawk(), shared, by_rail, by_unit}) {
    const Cluster cluster = make(h100_node(), fabric, 160);
    for (const std::int64_t size : {2, 4, 8}) {
      INFO(fabric.tree.rail << " " << size);
      for (const std::int64_t to : {1, 2, 7, 8, 9, 64, 255, 256, 263, 511, 700, 1279})
        check_turns(cluster, size, 0, to);
      check_turns(cluster, size, 777, 13);
    }
  }
}

TEST_CASE("a leaf that all NICs of a node share stays where it is, a rail's leaf does not") {
  FabricSpec shared = ndr();
  shared.tree.rail = false;
  shared.tree.unit_nodes = 4;
  for (const bool rail : {true, false}) {
    const Cluster cluster = make(h100_node(), rail ? ndr() : shared, 64);
    const LinkOrbits orbits = cluster.link_orbits(8);
    const Path far = cluster.path(0, 63 * 8);  // another unit's leaf: up and down between leaf and spine
    bool any = false;
    for (const auto& link : far.links) {
      if (cluster.links()[link.link].tier != Tier::spine) continue;
      any = true;
      CHECK(orbits[link.link] == (rail ? 8 : 1));
    }
    CHECK(any);
  }
}

TEST_CASE("where GPUs of a node are not alike, or routes are drawn by lot, there are no orbits") {
  CHECK(make(h100_node(), ndr(), 4).link_orbits(3).empty());  // three do not divide eight
  FabricSpec seeded = tomahawk();
  seeded.routes.ecmp_seed = 1;
  CHECK(make(a100_node(), seeded, 4).link_orbits(2).empty());
  CHECK(make(a100_node(), tiny(), 4).link_orbits(2).empty());  // two NICs for eight GPUs
  NodeSpec mesh = a100_node();
  mesh.kind = NodeSpec::Kind::mesh;
  mesh.gpus = 2;
  mesh.mesh = {{0, 1, Bandwidth(100e9)}};
  CHECK(Cluster(mesh, FabricSpec{}, 2, 2, nowhere()).link_orbits(2).empty());
}
