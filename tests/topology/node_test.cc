// Are the nodes wired as the data sheets say, and do paths inside them take the links that they should?
#include <map>

#include "tests/catch.h"
#include "tests/topology/fixtures.h"

namespace orrery::topology {

namespace {

/// Lanes of each NVSwitch chip of a node without a network.
std::map<std::int32_t, std::int32_t> chip_lanes(const Cluster& cluster) {
  std::map<std::int32_t, std::int32_t> lanes;
  const Graph graph = cluster.graph();
  for (const Graph::Edge& e : graph.edges) {
    if (graph.vertices[e.b].kind == VertexKind::nvswitch) lanes[graph.vertices[e.b].member] += e.lanes;
  }
  return lanes;
}

NodeSpec mi250x() {
  NodeSpec node;
  node.kind = NodeSpec::Kind::mesh;
  node.latency = sim::microseconds(1);
  const auto add = [&](std::int64_t a, std::int64_t b, double rate) { node.mesh.push_back({a, b, Bandwidth(rate)}); };
  for (std::int64_t package = 0; package < 8; package += 2) add(package, package + 1, 200e9);
  add(0, 6, 100e9);
  add(2, 4, 100e9);
  add(0, 2, 50e9);
  add(4, 6, 50e9);
  add(1, 3, 50e9);
  add(1, 5, 50e9);
  add(3, 7, 50e9);
  add(5, 7, 50e9);
  return node;
}

}  // namespace

TEST_CASE("trays that NVLink joins are one node: every GPU on every chip, every tray with its NICs") {
  NodeSpec node;
  node.gpus = 4;
  node.switches = node.links = 18;
  node.rate = Bandwidth(900e9);
  node.latency = sim::microseconds(1);
  FabricSpec fabric = ndr();
  fabric.nics = 4;
  fabric.tree.rail = false;  // a leaf of a rack
  fabric.switches.radix = 144;
  fabric.tree.unit_nodes = 1;
  join_by_nvlink(node, fabric, 18);
  CHECK(node.gpus == 72);
  CHECK(fabric.nics == 72);
  const Cluster cluster(node, fabric, 2 * 72, 72, nowhere());
  const auto d = cluster.describe();
  CHECK(count(d, "NVSwitch") == 2 * 18);
  CHECK(count(d, "NIC") == 2 * 72);
  CHECK(links(d, Tier::node) == 2 * 72 * 18);
  // The first and the last tray of a rack: up to the chips and down, no network; another rack: through a NIC of one's
  // own.
  CHECK(cluster.path(0, 71).top == Tier::node);
  CHECK(cluster.path(0, 71).latency == cluster.path(0, 1).latency);
  CHECK(cluster.path(0, 72).top != Tier::node);
  for (const std::int64_t gpu : {0, 5, 71}) CHECK(cluster.nic_of(gpu) == gpu);
}

TEST_CASE("a job fills domains alike: with the most nodes that divide it") {
  CHECK(nodes_per_domain(64, 18) == 16);
  CHECK(nodes_per_domain(36, 18) == 18);
  CHECK(nodes_per_domain(2496 / 4, 18) == 16);  // 2^4 x 3 x 13
  CHECK(nodes_per_domain(2, 18) == 2);
  CHECK(nodes_per_domain(37, 18) == 1);  // a prime
}

TEST_CASE("DGX A100: 8 GPUs with 2 NVLinks to each of 6 chips") {
  const Cluster cluster = make(a100_node(), FabricSpec{}, 1);
  const auto lanes = chip_lanes(cluster);
  REQUIRE(lanes.size() == 6);
  for (const auto& [chip, n] : lanes) CHECK(n == 8 * 12 / 6);
  CHECK(links(cluster.describe(), Tier::node) == 8 * 12);
}

TEST_CASE("DGX H100: 18 NVLinks spread 5, 4, 4, 5 over 4 chips") {
  const auto lanes = chip_lanes(make(h100_node(), FabricSpec{}, 1));
  CHECK(lanes == std::map<std::int32_t, std::int32_t>{{0, 8 * 5}, {1, 8 * 4}, {2, 8 * 4}, {3, 8 * 5}});
}

TEST_CASE("A DGX with its network has 4 PCIe switches and 8 NICs, two of each kind of end to a switch") {
  const Cluster cluster = make(a100_node(), ndr(), 1);
  const auto d = cluster.describe();
  CHECK(count(d, "GPU") == 8);
  CHECK(count(d, "NVSwitch") == 6);
  CHECK(count(d, "PCIe switch") == 4);
  CHECK(count(d, "NIC") == 8);
  const Graph graph = cluster.graph();
  std::map<std::uint32_t, std::map<VertexKind, int>> under;
  for (const Graph::Edge& e : graph.edges) {
    if (e.tier == Tier::nic) ++under[e.b][graph.vertices[e.a].kind];
  }
  REQUIRE(under.size() == 4);
  for (const auto& [pcie, kinds] : under) {
    CHECK(graph.vertices[pcie].kind == VertexKind::pcie_switch);
    CHECK(kinds == std::map<VertexKind, int>{{VertexKind::gpu, 2}, {VertexKind::nic, 2}});
  }
}

TEST_CASE("NVLink paths load the sender's way up and the receiver's way down") {
  const Cluster cluster = make(a100_node(), FabricSpec{}, 1);
  const Path path = cluster.path(2, 5);
  REQUIRE(path.links.size() == 2);
  CHECK(cluster.link_name(path.links[0].link) == "node 0 GPU 2 -> NVSwitches");
  CHECK(cluster.link_name(path.links[1].link) == "node 0 NVSwitches -> GPU 5");
  CHECK(path.latency == sim::microseconds(1));
  CHECK(path.top == Tier::node);
  for (const auto& [link, weight] : path.links) CHECK(cluster.links()[link].capacity.value() == Approx(300e9));
  CHECK(cluster.path(3, 3).links.empty());
}

TEST_CASE("The node's efficiency scales its links and no others") {
  NodeSpec node = a100_node();
  node.efficiency = 0.5;
  const Cluster cluster = make(node, ndr(), 2);
  for (const LinkInfo& link : cluster.links()) {
    if (link.tier == Tier::node) CHECK(link.capacity.value() == Approx(300e9 * 0.5));
    if (link.tier == Tier::nic) CHECK(link.capacity.value() == Approx(32e9));
    if (link.tier == Tier::leaf) CHECK(link.capacity.value() == Approx(50e9 * 0.95));
  }
}

TEST_CASE("GPUs use the nearest of their node's NICs") {
  const auto nics_used = [](std::int64_t gpus, std::int64_t nics) {
    NodeSpec node = a100_node();
    node.gpus = gpus;
    FabricSpec fabric = ndr();
    fabric.nics = nics;
    const Cluster cluster = make(node, fabric, 2);
    std::vector<std::int64_t> used;
    for (std::int64_t g = gpus; g < 2 * gpus; ++g) used.push_back(cluster.nic_of(g));
    return used;
  };
  CHECK(nics_used(8, 8) == std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(nics_used(8, 4) == std::vector<std::int64_t>{0, 0, 1, 1, 2, 2, 3, 3});
  CHECK(nics_used(8, 1) == std::vector<std::int64_t>(8, 0));
  CHECK(nics_used(4, 8) == std::vector<std::int64_t>{0, 2, 4, 6});
}

TEST_CASE("A GPU and its NIC share a PCIe switch, however many there are of each") {
  for (const std::int64_t gpus : {1, 3, 4, 8}) {
    for (const std::int64_t nics : {1, 2, 3, 8, 9}) {
      for (const std::int64_t switches : {1, 2, 4, 5}) {
        NodeSpec node = a100_node();
        node.gpus = gpus;
        node.pcie_switches = switches;
        FabricSpec fabric = ndr();
        fabric.nics = nics;
        const Cluster cluster = make(node, fabric, 2);
        const auto names = [&](const Path& path) {
          return std::pair{cluster.link_name(path.links[0].link), cluster.link_name(path.links[1].link)};
        };
        const auto shared = [](const std::pair<std::string, std::string>& hop) {
          const std::string via = hop.first.substr(hop.first.find("-> ") + 3);
          return hop.second.starts_with("node 0 " + via + " -> NIC");
        };
        INFO(gpus << " GPUs, " << nics << " NICs, " << switches << " switches");
        for (std::int64_t g = 0; g < gpus; ++g) CHECK(shared(names(cluster.path(g, gpus))));
        for (std::int64_t i = 0; i < nics; ++i) CHECK(shared(names(cluster.nic_path(0, i, 1, 0))));
      }
    }
  }
}

TEST_CASE("A mesh takes direct links where there are any, else the widest of the shortest ways") {
  const Cluster cluster = make(mi250x(), FabricSpec{}, 1);
  const auto way = [&](std::int64_t a, std::int64_t b) {
    std::vector<std::string> names;
    for (const auto& [link, weight] : cluster.path(a, b).links) names.push_back(cluster.link_name(link));
    return names;
  };
  CHECK(way(0, 1) == std::vector<std::string>{"node 0 GPU 0 -> GPU 1"});
  CHECK(way(6, 0) == std::vector<std::string>{"node 0 GPU 6 -> GPU 0"});
  // 0 to 7: over 6 (100, then 200 GB/s). 2 to 5: over 4 (100, then 200 GB/s).
  CHECK(way(0, 7) == std::vector<std::string>{"node 0 GPU 0 -> GPU 6", "node 0 GPU 6 -> GPU 7"});
  CHECK(way(2, 5) == std::vector<std::string>{"node 0 GPU 2 -> GPU 4", "node 0 GPU 4 -> GPU 5"});
  CHECK(cluster.path(0, 7).latency == sim::microseconds(2));
  // As many links as a breadth-first search over the graph finds, and back the same way.
  const Graph graph = cluster.graph();
  for (std::uint32_t a = 0; a < 8; ++a) {
    const std::vector<std::int32_t> hops = hops_from(graph, a);
    for (std::uint32_t b = 0; b < 8; ++b) {
      const Path there = cluster.path(a, b), back = cluster.path(b, a);
      CHECK(there.links.size() == static_cast<std::size_t>(hops[b]));
      REQUIRE(there.links.size() == back.links.size());
      for (std::size_t i = 0; i < there.links.size(); ++i) {
        CHECK(sim::index(there.links[i].link) == (sim::index(back.links[back.links.size() - 1 - i].link) ^ 1U));
      }
    }
  }
}

TEST_CASE("Bisection of one node") {
  CHECK(make(a100_node(), FabricSpec{}, 1).describe().bisection.value() == Approx(4 * 300e9));
  // Between GCDs 0..3 and 4..7 run the links 0-6, 2-4, 1-5 and 3-7.
  CHECK(make(mi250x(), FabricSpec{}, 1).describe().bisection.value() == Approx(100e9 + 100e9 + 50e9 + 50e9));
}

}  // namespace orrery::topology
