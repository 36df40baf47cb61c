// Does the wiring that a cluster's own tools print become the same network?
#include <fmt/format.h>

#include "scenarios/scenario.h"
#include "sim/error.h"
#include "tests/catch.h"
#include "tests/tools/program.h"
#include "tools/import/import.h"
#include "tools/import/wires.h"
#include "topology/cluster.h"

using namespace orrery;
using tests::Folder;

namespace {

/// Two leaves of two hosts with two NICs each, on one spine by two cables a leaf. Each cable stands at both ends.
std::string ibnetdiscover() {
  std::string out = "# Topology file: generated on ...\nvendid=0x2c9\n";
  const auto leaf = [&](int l) {
    out += fmt::format("Switch\t40 \"S-leaf{}\"\t\t# \"MF0;leaf{}:MQM8700/U1\" enhanced port 0 lid 3 lmc 0\n", l, l);
    for (int h = 0; h < 2; ++h) {
      for (int nic = 0; nic < 2; ++nic) {
        out += fmt::format("[{}]\t\"H-{}{}{}\"[1](a{}) \t\t# \"node{} mlx5_{}\" lid 5 4xHDR\n", 1 + 2 * h + nic, l, h,
                           nic, nic, 2 * l + h, nic);
      }
    }
    for (int c = 0; c < 2; ++c)
      out += fmt::format("[{}]\t\"S-spine\"[{}]\t\t# \"MF0;spine:MQM8700/U1\" lid 2 4xHDR\n", 30 + c, 2 * l + c + 1);
    out += "\n";
  };
  leaf(0);
  leaf(1);
  out += "Switch\t40 \"S-spine\"\t\t# \"MF0;spine:MQM8700/U1\" enhanced port 0 lid 2 lmc 0\n";
  for (int l = 0; l < 2; ++l) {
    for (int c = 0; c < 2; ++c)
      out += fmt::format("[{}]\t\"S-leaf{}\"[{}]\t\t# \"MF0;leaf{}:MQM8700/U1\" lid 3 4xHDR\n", 2 * l + c + 1, l,
                         30 + c, l);
  }
  out += "\nCa\t1 \"H-000\"\t\t# \"node0 mlx5_0\"\n[1](a0) \t\"S-leaf0\"[1]\t\t# lid 5 lmc 0 \"MF0\" lid 3 4xHDR\n";
  return out;
}

topology::FabricSpec fabric_of(const std::string& text, const tools::ClusterFacts& facts = {}) {
  const Folder folder;
  const std::string out = tools::import_topology(folder.write("wires.txt", text), facts);
  return topology::load_fabric_spec(scenarios::parse_yaml(out, "out.yaml"));
}

std::string refusal(const std::string& text) {
  try {
    fabric_of(text);
  } catch (const sim::UserError& error) {
    return error.what();
  }
  return {};
}

}  // namespace

TEST_CASE("ibnetdiscover: every cable once, NICs by host, rates by width and generation") {
  const topology::FabricSpec spec = fabric_of(ibnetdiscover());
  CHECK(spec.nics == 2);
  CHECK(spec.nic_rate.value() == Approx(25e9));  // 200 Gb/s
  REQUIRE(spec.graph.edges.size() == 2);         // leaf0-spine, leaf1-spine
  for (const auto& edge : spec.graph.edges) {
    CHECK(edge.lanes == 2);
    CHECK(edge.rate.value() == Approx(25e9));
  }
  REQUIRE(spec.graph.attach.size() == 4);
  CHECK(spec.graph.attach[0].size() == 2);
  CHECK(spec.graph.attach[0] == spec.graph.attach[1]);  // node0 and node1 on leaf0
  CHECK(spec.graph.attach[1] != spec.graph.attach[2]);
}

TEST_CASE("Slurm's topology.conf: a tree whose links up take all from below") {
  const topology::FabricSpec spec = fabric_of(
      "# comment\nSwitchName=s0 Nodes=tux[00-03]\nSwitchName=s1 Nodes=tux[04-05,07]\nSwitchName=top Switches=s[0-1]\n",
      {4, "100 Gb/s", "25 GB/s"});
  CHECK(spec.nics == 4);
  CHECK(spec.nic_rate.value() == Approx(12.5e9));
  CHECK(spec.graph.attach.size() == 7);
  std::int64_t lanes = 0;
  for (const auto& edge : spec.graph.edges) lanes += edge.lanes;
  CHECK(lanes == 7 * 4);
  CHECK(tools::expand_hosts("a[0-1]b[8-9],c", {}) == std::vector<std::string>{"a0b8", "a0b9", "a1b8", "a1b9", "c"});
}

TEST_CASE("a table of links") {
  const topology::FabricSpec spec =
      fabric_of("a,b,rate,lanes,kind\nn0,s0,400 Gb/s,8,nic\nn1,s1,400 Gb/s,8,nic\ns0,s1,800 Gb/s,4,link\n");
  CHECK(spec.nics == 8);
  REQUIRE(spec.graph.edges.size() == 1);
  CHECK(spec.graph.edges[0].lanes == 4);
  CHECK(spec.graph.edges[0].rate.value() == Approx(100e9));
}

TEST_CASE("a node's matrix: switches where all pairs share many links, a mesh where they differ") {
  const Folder folder;
  std::string all = "\t\x1b[4mGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tNIC1\tCPU Affinity\x1b[0m\n", some = all;
  const char* mesh[4][4] = {
      {"X", "NV1", "NV2", "SYS"}, {"NV1", "X", "SYS", "NV2"}, {"NV2", "SYS", "X", "NV1"}, {"SYS", "NV2", "NV1", "X"}};
  for (int a = 0; a < 4; ++a) {
    all += fmt::format("GPU{}", a);
    some += fmt::format("GPU{}", a);
    for (int b = 0; b < 4; ++b) {
      all += a == b ? "\t X " : "\tNV18";
      some += fmt::format("\t{}", mesh[a][b]);
    }
    all += "\tPXB\tSYS\t0-31\n";
    some += "\tPXB\tSYS\t0-31\n";
  }
  const auto node_of = [&](const std::string& text) {
    return topology::load_node_spec(
        scenarios::parse_yaml(tools::import_topology(folder.write("topo.txt", text), {}), "node.yaml"));
  };
  const topology::NodeSpec switched = node_of(all);
  CHECK(switched.kind == topology::NodeSpec::Kind::nvswitch);
  CHECK(switched.gpus == 4);
  CHECK(switched.rate.value() == Approx(18 * 25e9));
  const topology::NodeSpec direct = node_of(some);
  CHECK(direct.kind == topology::NodeSpec::Kind::mesh);
  REQUIRE(direct.mesh.size() == 4);  // six pairs, two of them over the processor
  double sum = 0;
  for (const auto& link : direct.mesh) sum += link.rate.value();
  CHECK(sum == Approx((1 + 2 + 2 + 1) * 25e9));
  const topology::NodeSpec xgmi = node_of(
      "======= ROCm System Management Interface =======\n===== Link Type between two GPUs =====\n"
      "       GPU0         GPU1         \nGPU0   0            XGMI         \nGPU1   XGMI         0            \n");
  CHECK(xgmi.kind == topology::NodeSpec::Kind::mesh);
  CHECK(xgmi.gpus == 2);
}

TEST_CASE("what is no wiring is refused in one line") {
  CHECK(refusal("").find("no form") != std::string::npos);
  CHECK(refusal("a,b,rate\ns0,s1,fast\n").find("wires.txt:2:1") != std::string::npos);
  CHECK(refusal("a,b,rate,kind\ns0,s1,400 Gb/s,link\n").find("nic") != std::string::npos);
  CHECK(refusal("SwitchName=a Switches=b\nSwitchName=b Switches=a\n").find("tree") != std::string::npos);
  CHECK(refusal("SwitchName=a Nodes=n[0-99999999]\n").find("range") != std::string::npos);
  CHECK(refusal("SwitchName=a Nodes=n[3\n").find("]") != std::string::npos);
  CHECK(refusal("BlockName=b Nodes=n[0-3]\n").find("topology/block") != std::string::npos);
  CHECK(refusal("a,b,rate,lanes,kind\nn0,s0,1 Gb/s,1,nic\nn1,s1,1 Gb/s,1,nic\n").find("rail_only") !=
        std::string::npos);
  CHECK(refusal("GPU0 NV18\n").find("matrix") != std::string::npos);
}
