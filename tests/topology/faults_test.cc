// What is lost is not used, what is left is; who has no way left is named.
#include <algorithm>
#include <set>

#include "tests/catch.h"
#include "tests/topology/fixtures.h"

namespace orrery::topology {

namespace {

constexpr double kPayload = 50e9 * 0.95;  // of one uplink of these fabrics

Fault lost(std::string a, std::string b, std::int32_t lanes = 0) {
  return {Fault::Kind::lost_link, std::move(a), std::move(b), 1.0, lanes, {"test", 3, 7}, "perturb.lost_links[0]"};
}
Fault slow(std::string a, std::string b, double rate) {
  return {Fault::Kind::slow_link, std::move(a), std::move(b), rate, 0, {"test", 3, 7}, "perturb.slow_links[0]"};
}
Fault lost_switch(std::string name) {
  return {Fault::Kind::lost_switch, std::move(name), "", 1.0, 0, {"test", 3, 7}, "perturb.lost_switches[0]"};
}

Cluster broken(const FabricSpec& fabric, std::int64_t nodes, std::vector<Fault> faults, const NodeSpec& node) {
  return Cluster(node, fabric, nodes * node.gpus, node.gpus, nowhere(), {std::move(faults), {}});
}
Cluster broken(const FabricSpec& fabric, std::int64_t nodes, std::vector<Fault> faults) {
  return broken(fabric, nodes, std::move(faults), h100_node());
}

std::string refusal(const FabricSpec& fabric, std::int64_t nodes, std::vector<Fault> faults) {
  try {
    broken(fabric, nodes, std::move(faults));
  } catch (const sim::UserError& error) {
    return error.what();
  }
  return "(none)";
}

/// Capacity of the links of one tier on a path, up and down.
std::vector<double> capacities(const Cluster& cluster, const Path& path, Tier tier) {
  std::vector<double> found;
  for (const auto& [link, weight] : path.links) {
    if (cluster.links()[link].tier == tier) found.push_back(cluster.links()[link].capacity.value());
  }
  return found;
}

/// Four units of 32 nodes: 32 leaves of 32 uplinks, on 16 spines of 64 ports: two lanes from each leaf to each spine.
FabricSpec two_lanes() { return ndr(); }
constexpr std::int64_t kNodes = 128;
constexpr std::int64_t kNextUnit = 32 * 8;  // the same NIC of the first node of the next unit

/// A square of switches with one node on each.
FabricSpec square() {
  FabricSpec fabric = fat_tree_spec();
  fabric.kind = &fabrics::graph;
  fabric.nics = 1;
  fabric.graph.switch_names = {"a", "b", "c", "d"};
  fabric.graph.edges = {
      {0, 1, 1, Bandwidth(50e9)}, {1, 2, 1, Bandwidth(50e9)}, {2, 3, 1, Bandwidth(50e9)}, {3, 0, 1, Bandwidth(50e9)}};
  fabric.graph.attach = {{0}, {1}, {2}, {3}};
  return fabric;
}

}  // namespace

TEST_CASE("A lost lane takes its part of a bundle; dealing packets evenly, the weakest spine bounds all of them") {
  FabricSpec fabric = two_lanes();
  const std::vector<Fault> one{lost("leaf u1 r0", "spine.3", 1)};
  const Cluster adaptive = broken(fabric, kNodes, one);
  CHECK(links(adaptive.describe(), Tier::spine) == 32 * 32 - 1);
  // GPU 0 to the leaf that lost one of its 32 lanes: out by 32, in by 31.
  CHECK(capacities(adaptive, adaptive.path(0, kNextUnit), Tier::spine) ==
        std::vector<double>{32 * kPayload, 31 * kPayload});
  fabric.routes.policy = FabricSpec::Routing::spray;
  const Cluster spray = broken(fabric, kNodes, one);
  // A sixteenth of the traffic comes down from each spine, and the one with a single lane left carries it.
  CHECK(capacities(spray, spray.path(0, kNextUnit), Tier::spine) == std::vector<double>{32 * kPayload, 16 * kPayload});
  // Both lanes to a spine lost: the others do not send there any more.
  const Cluster without = broken(fabric, kNodes, {lost("spine.3", "leaf u1 r0")});
  CHECK(capacities(without, without.path(0, kNextUnit), Tier::spine) ==
        std::vector<double>{32 * kPayload, 30 * kPayload});
}

TEST_CASE("A lost spine takes its lanes from every leaf") {
  const Cluster cluster = broken(two_lanes(), kNodes, {lost_switch("spine.15")});
  CHECK(links(cluster.describe(), Tier::spine) == 32 * 30);
  CHECK(capacities(cluster, cluster.path(0, kNextUnit), Tier::spine) ==
        std::vector<double>{30 * kPayload, 30 * kPayload});
  CHECK(cluster.cut_off().empty());
}

TEST_CASE("A slow lane counts for its part; a slow NIC link slows its NIC alone") {
  const Cluster cluster =
      broken(two_lanes(), kNodes, {slow("leaf u0 r0", "spine.0", 0.25), slow("n1 nic2", "leaf u0 r2", 0.1)});
  // Two of 32 lanes join the pair; both run at a quarter.
  CHECK(capacities(cluster, cluster.path(0, kNextUnit), Tier::spine)[0] == Approx(30.5 * kPayload));
  CHECK(capacities(cluster, cluster.path(8 + 2, 2), Tier::leaf)[0] == Approx(0.1 * kPayload));
  CHECK(capacities(cluster, cluster.path(2, 8 + 2), Tier::leaf) == std::vector<double>{kPayload, 0.1 * kPayload});
  CHECK(capacities(cluster, cluster.path(8 + 1, 1), Tier::leaf)[0] == kPayload);
}

TEST_CASE("Links inside a node can be slow or lose lanes") {
  const NodeSpec node = h100_node();  // 18 lanes: 5 4 4 5
  const Cluster cluster =
      broken(two_lanes(), 2, {slow("n0 gpu1", "n0 nvswitch1", 0.5), lost("n1 gpu0", "n1 nvswitch0", 3)});
  const auto first = [&](std::int64_t from, std::int64_t to) {
    return cluster.links()[cluster.path(from, to).links[0].link].capacity.value();
  };
  CHECK(first(0, 1) == 450e9);
  CHECK(first(1, 0) == Approx(450e9 * (18 - 4 * 0.5) / 18));
  CHECK(first(8, 9) == Approx(450e9 * 15 / 18));
}

TEST_CASE("A NIC that lost its leaf hands its GPUs to the next one") {
  const Cluster cluster = broken(two_lanes(), kNodes, {lost_switch("leaf u0 r0")});
  CHECK(cluster.cut_off().size() == 32);  // NIC 0 of every node of the unit
  CHECK(cluster.cut_off()[1] == "n1 nic0");
  for (const std::int64_t node : {0, 31}) CHECK(cluster.nic_of(node * 8) == 1);
  CHECK(cluster.nic_of(32 * 8) == 0);
  // Its GPU 0 leaves by NIC 1 and reaches NIC 0 of the next unit over the spines.
  const Path path = cluster.path(0, kNextUnit);
  CHECK(path.top == Tier::spine);
  CHECK(cluster.link_name(path.links[2].link) == "node 0 nic 1 -> leaf u0 r1");
  // One link alone does the same to one NIC.
  const Cluster one = broken(two_lanes(), kNodes, {lost("n5 nic7", "leaf u0 r7")});
  CHECK(one.cut_off() == std::vector<std::string>{"n5 nic7"});
  CHECK(one.nic_of(5 * 8 + 7) == 0);
}

TEST_CASE("Rails without spines go on over the rails that are left") {
  FabricSpec fabric = ndr();
  fabric.kind = &fabrics::rail_only;
  // NIC 3 of node 0 is gone; GPU 3 of node 1 still has rail 3. Only another rail joins the two nodes for them.
  const Cluster cluster = broken(fabric, 4, {lost("n0 nic3", "leaf u0 r3")});
  const Path path = cluster.path(3, 8 + 3);
  CHECK(path.top == Tier::leaf);
  for (const auto& [link, weight] : path.links) CHECK(cluster.link_name(link).find("r3") == std::string::npos);
  CHECK(path.latency == cluster.path(1, 8 + 1).latency + h100_node().latency);
}

TEST_CASE("Where flows take one path, none takes a lost lane, there or back") {
  for (const auto routing : {FabricSpec::Routing::ecmp, FabricSpec::Routing::d_mod_k}) {
    FabricSpec fabric = two_lanes();
    fabric.routes.policy = routing;
    if (routing == FabricSpec::Routing::ecmp) fabric.routes.ecmp_seed = 3;
    // The last leaf of the second unit keeps two spines, those that the first leaf of the first unit does not lose.
    std::vector<Fault> faults{lost_switch("spine.1")};
    for (int s = 2; s < 14; ++s) faults.push_back(lost("leaf u1 r0", fmt::format("spine.{}", s)));
    faults.push_back(lost("leaf u0 r0", "spine.0"));
    const Cluster cluster = broken(fabric, kNodes, faults);
    std::set<std::string> used;
    for (std::int64_t from = 0; from < 32; ++from) {
      for (std::int64_t to = 0; to < 32; ++to) {
        const Path path = cluster.path(from * 8, kNextUnit + to * 8, static_cast<std::uint64_t>(to));
        REQUIRE(path.links.size() == 8);
        const std::string up = cluster.link_name(path.links[3].link), down = cluster.link_name(path.links[4].link);
        used.insert(up.substr(0, up.find(" (")));
        CHECK(up.substr(up.find("spine"), 8).substr(0, up.find(" (") - up.find("spine")) ==
              down.substr(0, down.find(" ->")));
      }
    }
    // Of spine 0, 14 and 15, which the second leaf keeps, the first has 14 and 15.
    CHECK(used == std::set<std::string>{"leaf u0 r0 -> spine.14", "leaf u0 r0 -> spine.15"});
  }
}

TEST_CASE("A graph goes round what is lost") {
  const Cluster whole = broken(square(), 4, {}), cut = broken(square(), 4, {lost("a", "b")});
  CHECK(whole.way(0, 8).hops == 2 + 1 + 1 + 1 + 2);
  CHECK(cut.way(0, 8).hops == 2 + 1 + 3 + 1 + 2);
  CHECK(cut.path(0, 8).links.size() == 2 + 1 + 3 + 1 + 2);
  CHECK(links(cut.describe(), Tier::spine) == 3);
  // Half of the bisection went with it: a and b against c and d is cut by two cables, one of which is still there.
  CHECK(whole.describe().bisection.value() == Approx(2 * std::min(50e9, 25e9) * 0.95));
  const Cluster hurt = broken(square(), 4, {slow("a", "b", 0.5)});
  CHECK(capacities(hurt, hurt.path(0, 8), Tier::spine) == std::vector<double>{0.5 * kPayload});
}

TEST_CASE("Traffic of others leaves the rest of every link of its tier") {
  Faults faults;
  faults.background[static_cast<std::size_t>(Tier::spine)] = 0.4;
  const NodeSpec node = h100_node();
  const Cluster cluster(node, two_lanes(), kNodes * 8, 8, nowhere(), faults);
  CHECK(capacities(cluster, cluster.path(0, kNextUnit), Tier::spine)[0] == Approx(0.6 * 32 * kPayload));
  CHECK(capacities(cluster, cluster.path(0, kNextUnit), Tier::leaf)[0] == Approx(kPayload));
  for (const auto& [link, weight] : cluster.path(0, kNextUnit).links) {
    if (cluster.links()[link].tier == Tier::spine) CHECK_FALSE(cluster.links()[link].never_binding);
  }
}

TEST_CASE("What cuts the cluster, or names nothing in it, is named") {
  std::vector<Fault> all_nics;
  for (int i = 0; i < 8; ++i) all_nics.push_back(lost(fmt::format("n2 nic{}", i), fmt::format("leaf u0 r{}", i)));
  const std::string cut = refusal(two_lanes(), kNodes, all_nics);
  CHECK(cut.starts_with("test:3:7: perturb.lost_links[0]: cuts the cluster: node 2 and node 0"));
  CHECK(refusal(square(), 4, {lost("a", "b"), lost("b", "c")}).find("node 0 and node 1 have no way") !=
        std::string::npos);
  // Each leaf keeps a spine, but not the same one.
  FabricSpec single = fat_tree_spec();  // eight leaves with one lane to each of four spines
  single.nics = 1;
  single.tree.rail = false;
  single.nic_rate = single.switches.uplink_rate = Bandwidth(10e9);
  single.switches.radix = 8;
  single.tree.unit_nodes = 4;
  single.routes.policy = FabricSpec::Routing::d_mod_k;
  std::vector<Fault> apart{lost("leaf u0", "spine.0"), lost("leaf u1", "spine.2"), lost("leaf u1", "spine.3")};
  CHECK(refusal(single, 32, apart) == "(none)");  // both have spine 1
  apart.push_back(lost("leaf u1", "spine.1"));
  CHECK(refusal(single, 32, apart).find("node 0 and node 4 have no way to each other; no switch has links to both") !=
        std::string::npos);

  CHECK(refusal(two_lanes(), kNodes, {lost("leaf u9 r0", "spine.0")}).find("'leaf u9 r0', which names nothing") !=
        std::string::npos);
  CHECK(refusal(two_lanes(), kNodes, {lost("leaf u0 r0", "spine.16")}).find("'spine.16', which names nothing") !=
        std::string::npos);
  CHECK(refusal(two_lanes(), kNodes, {lost("leaf u0 r0", "leaf u0 r1")}).find("which no link joins") !=
        std::string::npos);
  CHECK(refusal(two_lanes(), kNodes, {lost("n0 nic0", "leaf u0 r1")}).find("which no link joins") != std::string::npos);
  CHECK(refusal(two_lanes(), kNodes, {lost("leaf u0 r0", "spine.0", 3)}).find("expected at most 2") !=
        std::string::npos);
  CHECK(refusal(two_lanes(), kNodes, {lost("leaf u0 r0", "spine.0", 1), lost("spine.0", "leaf u0 r0", 1)})
            .find("a second time") != std::string::npos);
  CHECK(refusal(two_lanes(), kNodes, {lost_switch("n0 nvswitch0")}).find("no switch of the fabric") !=
        std::string::npos);
}

}  // namespace orrery::topology
