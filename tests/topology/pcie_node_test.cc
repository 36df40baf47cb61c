// Nodes as they are sold: do their links add up to the data sheet, and does traffic take the links that it shares?
#include <map>

#include "tests/catch.h"
#include "tests/topology/fixtures.h"

namespace orrery::topology {

namespace {

NodeSpec pcie_spec() {
  NodeSpec node;
  node.kind = NodeSpec::Kind::pcie;
  node.gpus = 8;
  node.rate = Bandwidth(32e9);
  node.pcie = Bandwidth(25e9);
  node.pcie_switches = 4;
  node.host_bridges = 2;
  node.host_rate = Bandwidth(20e9);
  node.latency = sim::microseconds(0.5);
  return node;
}

Cluster alone(const NodeSpec& node) {
  FabricSpec none;
  return Cluster(node, none, node.gpus, node.gpus, nowhere());
}

double narrowest(const Cluster& cluster, std::int64_t from, std::int64_t to) {
  double least = 1e300;
  for (const auto& [link, weight] : cluster.path(from, to).links)
    least = std::min(least, cluster.links()[link].capacity.value() / weight);
  return least;
}

}  // namespace

TEST_CASE("PCIe: below one switch, below one processor, across processors") {
  const Cluster cluster = alone(pcie_spec());
  const auto d = cluster.describe();
  CHECK(count(d, "PCIe switch") == 4);
  CHECK(count(d, "host bridge") == 2);
  CHECK(cluster.path(0, 1).hops == 2);  // GPU - switch - GPU
  CHECK(cluster.path(0, 2).hops == 4);  // over the first processor
  CHECK(cluster.path(0, 4).hops == 5);  // over both
  CHECK(cluster.path(0, 4).latency == sim::microseconds(0.5) * 5);
  CHECK(narrowest(cluster, 0, 2) == 32e9);
  CHECK(narrowest(cluster, 0, 4) == 20e9);
  // Two GPUs of one switch that send to another switch share its uplink.
  std::map<std::uint32_t, int> users;
  for (const auto& [from, to] : {std::pair{0, 2}, std::pair{1, 3}}) {
    for (const auto& [link, weight] : cluster.path(from, to).links) ++users[sim::index(link)];
  }
  int shared = 0;
  for (const auto& [link, n] : users) shared += n == 2;
  CHECK(shared == 2);  // up from the first switch, down to the second
  // Half of the GPUs to the other half: everything crosses between the processors.
  CHECK(d.bisection.value() == Approx(20e9));
}

TEST_CASE("PCIe: a GPU's traffic to its NIC shares the link of its traffic to other GPUs") {
  FabricSpec fabric = tiny();  // two NICs per node
  const Cluster cluster = make(pcie_spec(), fabric, 2);
  CHECK(cluster.nic_of(0) == 0);
  CHECK(cluster.nic_of(7) == 1);
  const Path out = cluster.path(0, 8), peer = cluster.path(0, 1);
  CHECK(out.links.front().link == peer.links.front().link);
  // GPU 3's NIC hangs below GPU 0's switch: up to the processor and down again.
  CHECK(cluster.path(3, 8).hops == cluster.path(0, 8).hops + 2);
  for (std::int64_t from = 0; from < 8; ++from) {
    const Path there = cluster.path(from, 8 + 5), back = cluster.path(8 + 5, from);
    REQUIRE(there.links.size() == back.links.size());
    for (std::size_t i = 0; i < there.links.size(); ++i)
      CHECK(sim::index(there.links[i].link) == (sim::index(back.links[back.links.size() - 1 - i].link) ^ 1U));
  }
}

TEST_CASE("PCIe: a part-filled node keeps its GPUs where they are") {
  const Cluster part(pcie_spec(), FabricSpec(), 3, 3, nowhere());
  CHECK(count(part.describe(), "PCIe switch") == 2);
  CHECK(count(part.describe(), "host bridge") == 1);
  CHECK(part.path(0, 2).hops == 4);
}

TEST_CASE("DGX-1's hybrid cube mesh of V100: six NVLinks each, nobody further than two links") {
  // NVIDIA DGX-1 With Tesla V100 System Architecture (WP-08437): four GPUs to a cube's face, 25 GB/s per NVLink.
  NodeSpec node;
  node.kind = NodeSpec::Kind::mesh;
  const double one = 25e9, two = 50e9;
  const auto join = [&](std::int64_t a, std::int64_t b, double rate) { node.mesh.push_back({a, b, Bandwidth(rate)}); };
  join(0, 1, one);
  join(0, 2, one);
  join(0, 3, two);
  join(0, 4, two);
  join(1, 2, two);
  join(1, 3, one);
  join(1, 5, two);
  join(2, 3, two);
  join(2, 6, one);
  join(3, 7, one);
  join(4, 5, one);
  join(4, 6, one);
  join(4, 7, two);
  join(5, 6, two);
  join(5, 7, one);
  join(6, 7, two);
  std::vector<double> out(8, 0.0);
  for (const auto& link : node.mesh) {
    out[static_cast<std::size_t>(link.a)] += link.rate.value();
    out[static_cast<std::size_t>(link.b)] += link.rate.value();
  }
  for (const double rate : out) CHECK(rate == 6 * 25e9);
  const Cluster cluster = alone(node);
  for (std::int64_t a = 0; a < 8; ++a) {
    for (std::int64_t b = 0; b < 8; ++b) {
      if (a != b) CHECK(cluster.path(a, b).hops <= 2);
    }
  }
  CHECK(narrowest(cluster, 0, 3) == two);
  CHECK(cluster.path(0, 7).hops == 2);
  CHECK(narrowest(cluster, 0, 7) == two);  // by GPU 4, whose links are both double, not by GPU 3
  // The faces are joined by two double and two single links.
  CHECK(cluster.describe().bisection.value() == Approx(2 * two + 2 * one));
}

TEST_CASE("GB200 NVL72: every GPU has a link to each of 18 NVSwitch chips, and any two talk at the full rate") {
  // NVIDIA GB200 NVL72: 9 switch trays of two chips, 18 NVLinks of 50 GB/s per direction and GPU, 130 TB/s in all.
  NodeSpec node;
  node.gpus = 72;
  node.switches = 18;
  node.links = 18;
  node.rate = Bandwidth(900e9);
  FabricSpec fabric = ndr();
  fabric.nics = 72;
  fabric.switches.radix = 128;  // 72 leaves to a unit
  fabric.tree.unit_nodes = 4;
  const Cluster one = alone(node);
  const auto d = one.describe();
  CHECK(count(d, "NVSwitch") == 18);
  CHECK(links(d, Tier::node) == 72 * 18);
  CHECK(narrowest(one, 0, 71) == Approx(900e9));
  CHECK(d.bisection.value() == Approx(36 * 900e9));
  for (const auto& row : d.tiers) {
    if (row.tier == Tier::node) CHECK(row.total.value() * 2 == Approx(129.6e12));
  }
  const Cluster two = make(node, fabric, 2);
  CHECK(two.nic_of(71) == 71);
  CHECK(two.path(5, 72 + 5).top == Tier::leaf);
}

TEST_CASE("Fewer, as many and more NICs than GPUs") {
  for (const std::int64_t nics : {1, 4, 8, 16}) {
    FabricSpec fabric = fat_tree_spec();
    fabric.nics = nics;
    fabric.tree.unit_nodes = 2;
    const Cluster cluster = make(a100_node(), fabric, 2);
    INFO(nics << " NICs");
    for (std::int64_t gpu = 0; gpu < 8; ++gpu) CHECK(cluster.nic_of(gpu) == gpu * nics / 8);
    CHECK(count(cluster.describe(), "NIC") == 2 * nics);
  }
}

}  // namespace orrery::topology
