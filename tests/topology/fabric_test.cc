// Do the fabrics have the switches and cables that port arithmetic and published tables ask for, and does every port
// exist?
#include <cmath>
#include <map>

#include "tests/catch.h"
#include "tests/topology/fixtures.h"

namespace orrery::topology {

namespace {

/// Ports in use of every network switch, a port being one lane of `port` rate, split where links are slower.
std::vector<double> ports_in_use(const Cluster& cluster, Bandwidth port) {
  const Graph graph = cluster.graph();
  std::vector<double> used(graph.vertices.size(), 0.0);
  for (const Graph::Edge& e : graph.edges) {
    for (const std::uint32_t v : {e.a, e.b}) {
      if (graph.vertices[v].node < 0) used[v] += e.lanes * e.rate.value() / port.value();
    }
  }
  return used;
}

void check_ports(const Cluster& cluster, double radix) {
  double most = 0;
  for (const double used : ports_in_use(cluster, cluster.fabric_spec().switches.uplink_rate))
    most = std::max(most, used);
  CHECK(most <= radix + 1e-6);
  CHECK(most > 0);
}

}  // namespace

TEST_CASE("MegaScale's 12288 GPUs on Tomahawk 4") {
  const Cluster cluster = make(a100_node(), tomahawk(), 12288 / 8);
  const auto d = cluster.describe();
  // A leaf: 64 x 200G down are 32 ports of 400G, so 32 up.
  const std::int64_t units = 1536 / 64, leaves = units * 8, uplinks = leaves * 32;
  // A pod: 32 leaves under 32 aggregation switches, 32 ports down and 32 up.
  const std::int64_t pods = leaves / 32, aggregation = pods * 32;
  // A plane joins one aggregation switch per pod, 6 x 32 lanes: 3 switches of 64 ports would do, 4 deal lanes out
  // evenly.
  const std::int64_t core = 32 * 4;
  CHECK(count(d, "leaf switch") == leaves);
  CHECK(count(d, "spine switch") == aggregation);
  CHECK(count(d, "core switch") == core);
  CHECK(links(d, Tier::leaf) == 12288);
  CHECK(links(d, Tier::spine) == uplinks);
  CHECK(links(d, Tier::core) == aggregation * 32);
  check_ports(cluster, 64);
  // 1:1 at every tier: half of all NICs can talk to the other half at full rate.
  CHECK(d.bisection.value() == Approx(12288.0 / 2 * 25e9 * 0.95));
}

TEST_CASE(
    "NVIDIA's table of SuperPOD sizes: nodes, leaves, spines, core switches (DGX SuperPOD reference architectures)") {
  struct Row {
    std::int64_t nodes, leaves, spines, core;
  };
  // Units of 32 nodes: 2, 4, 8, 16, 32 and 64 of them, as published.
  const std::vector<Row> rows = {{64, 16, 8, 0},      {128, 32, 16, 0},      {256, 64, 32, 0},
                                 {512, 128, 128, 64}, {1024, 256, 256, 128}, {2048, 512, 512, 256}};
  for (const auto groups : {FabricSpec::SpineGroups::unit, FabricSpec::SpineGroups::rail}) {
    for (const Row& row : rows) {
      FabricSpec fabric = ndr();
      fabric.tree.spine_groups = groups;
      const Cluster cluster = make(h100_node(), fabric, row.nodes);
      const auto d = cluster.describe();
      INFO(row.nodes << " nodes");
      CHECK(count(d, "leaf switch") == row.leaves);
      CHECK(count(d, "spine switch") == row.spines);
      CHECK(count(d, "core switch") == row.core);
      CHECK(links(d, Tier::spine) == row.nodes * 8);
      CHECK(links(d, Tier::core) == (row.core > 0 ? row.nodes * 8 : 0));
      check_ports(cluster, 64);
      CHECK(d.bisection.value() == Approx(static_cast<double>(row.nodes * 8 / 2) * 50e9 * 0.95));
    }
  }
}

TEST_CASE("Twins are twins: members of a group in one plane see the same neighbours with the same lanes") {
  const Graph graph = make(a100_node(), tomahawk(), 1536).graph();
  std::map<std::uint32_t, std::map<std::uint32_t, std::int32_t>> lanes;
  for (const Graph::Edge& e : graph.edges) {
    if (e.tier == Tier::spine) lanes[e.b][e.a] += e.lanes;
  }
  for (const auto& [spine, leaves] : lanes) {
    const std::uint32_t twin = spine - static_cast<std::uint32_t>(graph.vertices[spine].member);
    CHECK(leaves == lanes[twin]);
  }
}

TEST_CASE("Part-filled fabrics keep within their ports") {
  for (const std::int64_t nodes : {1, 2, 33, 100, 300, 1344}) check_ports(make(h100_node(), ndr(), nodes), 64);
  for (const std::int64_t nodes : {1, 65, 513, 700}) check_ports(make(a100_node(), tomahawk(), nodes), 64);
  FabricSpec hdr = fat_tree_spec();
  hdr.switches.radix = 40;
  hdr.tree.unit_nodes = 20;
  hdr.switches.uplink_rate = Bandwidth(25e9);
  hdr.tree.spine_groups = FabricSpec::SpineGroups::rail;
  for (const std::int64_t nodes : {20, 100, 101, 384, 560}) check_ports(make(a100_node(), hdr, nodes), 40);
}

TEST_CASE("One leaf needs no spine; rails need one to meet") {
  FabricSpec star = ndr();
  star.tree.rail = false;
  star.tree.unit_nodes = 4;
  CHECK(count(make(h100_node(), star, 4).describe(), "spine switch") == 0);
  CHECK(count(make(h100_node(), star, 5).describe(), "spine switch") > 0);
  // One unit: 8 leaves x 32 uplinks on 64-port spines.
  CHECK(count(make(h100_node(), ndr(), 32).describe(), "spine switch") == 8 * 32 / 64);
}

TEST_CASE("Oversubscription takes uplinks away, and bisection with them") {
  FabricSpec fabric = ndr();
  fabric.tree.rail = false;
  fabric.tree.unit_nodes = 4;  // 32 NICs down
  fabric.tree.oversubscription = 4;
  const auto d = make(h100_node(), fabric, 8).describe();
  CHECK(links(d, Tier::spine) == 2 * 32 / 4);
  CHECK(d.bisection.value() == Approx(32.0 / 4 * 50e9 * 0.95));
}

TEST_CASE("Meta's pods: 192 racks of 16 GPUs, joined 1:7") {
  FabricSpec fabric = ndr();
  fabric.tree.rail = false;
  fabric.tree.unit_nodes = 2;
  fabric.tree.spine_radix = 256;
  fabric.tree.pod_leaves = 192;
  fabric.tree.core_oversubscription = 7;
  const auto pod = make(h100_node(), fabric, 384).describe();
  CHECK(count(pod, "leaf switch") == 192);
  CHECK(count(pod, "core switch") == 0);
  CHECK(pod.bisection.value() == Approx(3072.0 / 2 * 50e9 * 0.95));
  const auto two = make(h100_node(), fabric, 768).describe();
  CHECK(count(two, "leaf switch") == 384);
  // A spine has 192 lanes down and the next whole number above a seventh of that up.
  CHECK(links(two, Tier::core) == count(two, "spine switch") * static_cast<std::int64_t>(std::ceil(192.0 / 7)));
  CHECK(two.bisection.value() < 3072.0 * 50e9 / 6.5);
}

TEST_CASE("A dragonfly's groups are complete graphs of complete graphs") {
  FabricSpec fabric = fat_tree_spec();
  fabric.kind = &fabrics::dragonfly;
  fabric.nics = 4;
  fabric.dragonfly.groups = 74;
  fabric.dragonfly.switches_per_group = 32;
  fabric.dragonfly.nodes_per_switch = 4;
  fabric.dragonfly.global_links = 4;
  fabric.dragonfly.local_rate = fabric.dragonfly.global_rate = fabric.switches.uplink_rate = Bandwidth(25e9);
  const Cluster cluster = make(a100_node(), fabric, 384);  // fills 3 groups of 128
  const auto d = cluster.describe();
  CHECK(count(d, "leaf switch") == 3 * 32);
  CHECK(links(d, Tier::spine) == 3 * 32 * 31 / 2);
  CHECK(links(d, Tier::global) == 3 * 4);
  check_ports(cluster, 64);
  std::int64_t local = 0, global = 0;
  for (const Graph::Edge& e : cluster.graph().edges) {
    if (e.tier == Tier::spine) local += e.lanes;
    if (e.tier == Tier::global) global += e.lanes;
  }
  CHECK(local == 3 * 32 * 31 / 2);
  CHECK(global == 3 * 4);
  // Two of the 73 other groups are where the traffic goes; an average byte crosses 2 - 2/73 global links.
  const Path path = cluster.path(0, 8 * 128);
  CHECK(path.top == Tier::global);
  bool seen = false;
  for (const auto& [link, weight] : path.links) {
    if (cluster.links()[link].tier != Tier::global) continue;
    seen = true;
    CHECK(cluster.links()[link].capacity.value() == Approx(73 * 4 * 25e9 * 0.95 / (2 - 2.0 / 73)));
  }
  CHECK(seen);
}

TEST_CASE("100,000 GPUs") {
  const Cluster cluster = make(a100_node(), tomahawk(), 12500);
  CHECK(cluster.gpus() == 100000);
  const auto d = cluster.describe();
  CHECK(count(d, "NIC") == 100000);
  CHECK(cluster.path(0, 99999).top == Tier::core);
}

}  // namespace orrery::topology
