// What the policies promise: d-mod-k keeps shifts apart, spraying an intact tree is adaptive routing, and throwing
// flows costs what the expectation says.
#include <cmath>
#include <map>

#include "sim/max_min.h"
#include "tests/catch.h"
#include "tests/topology/fixtures.h"

namespace orrery::topology {

namespace {

/// Most flows on one link between switches when every NIC sends to the NIC `shift` NICs on, leaf by leaf.
int most_on_a_lane(const Cluster& cluster, std::int64_t shift) {
  const std::int64_t nodes = cluster.nodes();
  std::map<std::uint32_t, int> flows;
  for (std::int64_t n = 0; n < nodes; ++n) {
    for (const auto& [link, weight] : cluster.nic_path(n, 0, (n + shift) % nodes, 0).links) {
      const Tier tier = cluster.links()[link].tier;
      if (tier == Tier::spine || tier == Tier::core) ++flows[sim::index(link)];
    }
  }
  int most = 0;
  for (const auto& [link, n] : flows) most = std::max(most, n);
  return most;
}

/// Nodes of one NIC, 1:1 at every tier, switches of 8 ports: 4 nodes to a leaf, 4 leaves to a pod.
FabricSpec slim() {
  FabricSpec fabric = fat_tree_spec();
  fabric.nics = 1;
  fabric.tree.rail = false;
  fabric.nic_rate = fabric.switches.uplink_rate = Bandwidth(10e9);
  fabric.switches.radix = 8;
  fabric.tree.unit_nodes = 4;
  return fabric;
}

}  // namespace

TEST_CASE("d-mod-k: no two flows of a shift meet on a link (Zahavi, JPDC 2012), where hashing lets them") {
  for (const std::int64_t nodes : {32, 128}) {  // two tiers; three
    FabricSpec fabric = slim();
    fabric.routes.policy = FabricSpec::Routing::d_mod_k;
    const Cluster ordered = make(a100_node(), fabric, nodes);
    CHECK((count(ordered.describe(), "core switch") > 0) == (nodes == 128));
    fabric.routes.policy = FabricSpec::Routing::ecmp;
    fabric.routes.ecmp_seed = 1;
    const Cluster hashed = make(a100_node(), fabric, nodes);
    int worst = 0;
    for (std::int64_t shift = 1; shift < nodes; ++shift) {
      CHECK(most_on_a_lane(ordered, shift) <= 1);
      worst = std::max(worst, most_on_a_lane(hashed, shift));
    }
    CHECK(worst >= 3);  // of 32 flows and more, thrown 31 times and more
  }
}

TEST_CASE("d-mod-k deals the destinations of a split downlink evenly") {
  FabricSpec fabric = tomahawk();  // 64 NICs of 200G below a leaf with 32 uplinks of 400G
  fabric.routes.policy = FabricSpec::Routing::d_mod_k;
  const Cluster cluster = make(a100_node(), fabric, 128);
  CHECK(most_on_a_lane(cluster, 64) == 2);  // 64 flows on 32 lanes, two to each: full, and nothing lost
}

TEST_CASE("Spraying an intact tree is adaptive routing") {
  FabricSpec fabric = ndr();
  const Cluster adaptive = make(h100_node(), fabric, 128);
  fabric.routes.policy = FabricSpec::Routing::spray;
  const Cluster spray = make(h100_node(), fabric, 128);
  REQUIRE(adaptive.links().size() == spray.links().size());
  for (std::uint32_t l = 0; l < spray.links().size(); ++l)
    CHECK(adaptive.links()[LinkId{l}].capacity == spray.links()[LinkId{l}].capacity);
  CHECK(adaptive.path(0, 1000).links == spray.path(0, 1000).links);
}

TEST_CASE("MegaScale's split ports: two downlinks of 200G per uplink of 400G, or one per uplink of 200G") {
  // Without the split a 64-port leaf takes 32 downlinks and 32 uplinks, all of 200G.
  FabricSpec split = tomahawk(), whole = tomahawk();
  whole.tree.unit_nodes = 32;
  whole.switches.uplink_rate = whole.nic_rate;
  // A flow shares its lane with X ~ Binomial(flows - 1, 1/32) others. Unsplit every one of them halves, thirds, ...:
  // the mean is 1 + 31/32. Split, the first fits beside it: the mean of max(1, (1 + X) / 2).
  const double none = std::pow(31.0 / 32, 63);
  const double with_split = ((1 + 63.0 / 32) + none) / 2, without = 1 + 31.0 / 32;
  const Cluster fast = make(a100_node(), split, 128), slow = make(a100_node(), whole, 128);
  CHECK(fast.describe().collision_factor == Approx(with_split));
  CHECK(slow.describe().collision_factor == Approx(without));
  CHECK(with_split / without == Approx(0.788).epsilon(0.01));  // a fifth of the time gained

  // Thrown: one way up and one way down, a flow as slow as the fuller of both.
  const Slowdown a = fast.throw_flows(6), b = slow.throw_flows(6);
  CHECK(a.mean >= with_split * 0.97);
  CHECK(b.mean >= without * 0.97);
  CHECK(a.mean < b.mean);
  // The slowest flow, for which a collective waits: the fullest of some hundred lanes. Unsplit it holds 5 or 6 flows of
  // a mean of 1, split 7 or 8 of a mean of 2, which is half as many of its rate.
  CHECK(a.slowest > a.mean);
  CHECK(b.slowest > a.slowest);
  // One flow per NIC and a lane for each: nothing to gain from more seeds than there is noise.
  FabricSpec adaptive = split;
  adaptive.routes.flows_per_nic = 16;
  CHECK(make(a100_node(), adaptive, 128).throw_flows(2).mean < a.mean);
}

}  // namespace orrery::topology
