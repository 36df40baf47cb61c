// Does the wiring that a cluster's own tools print become the same network?
#include <fmt/format.h>

#include <sstream>

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
  CHECK(tools::expand_hosts("a[1,08-10]b", {}) == std::vector<std::string>{"a1b", "a08b", "a09b", "a10b"});
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

TEST_CASE("GPUs without a link of their own: over a third one where hops say so, over PCIe between islands") {
  const Folder folder;
  const auto node_of = [&](const std::string& text) {
    return topology::load_node_spec(
        scenarios::parse_yaml(tools::import_topology(folder.write("topo.txt", text), {}), "node.yaml"));
  };
  // Three dies in a row: 0 - 1 - 2. The way from 0 to 2 is over XGMI too, in two hops.
  const topology::NodeSpec row = node_of(
      "===== Hops between two GPUs =====\n     GPU0 GPU1 GPU2\nGPU0 0 1 2\nGPU1 1 0 1\nGPU2 2 1 0\n\n"
      "===== Link Type between two GPUs =====\n     GPU0 GPU1 GPU2\nGPU0 0 XGMI XGMI\nGPU1 XGMI 0 XGMI\n"
      "GPU2 XGMI XGMI 0\n");
  REQUIRE(row.mesh.size() == 2);
  CHECK(row.mesh[0].b == 1);
  CHECK(row.mesh[1].a == 1);
  // Two bridges of four links each; the four pairs between them cross the processors.
  const topology::NodeSpec bridged = node_of(
      "\tGPU0\tGPU1\tGPU2\tGPU3\nGPU0\t X \tNV4\tSYS\tSYS\nGPU1\tNV4\t X \tSYS\tSYS\n"
      "GPU2\tSYS\tSYS\t X \tNV4\nGPU3\tSYS\tSYS\tNV4\t X \n");
  REQUIRE(bridged.mesh.size() == 2);
  for (const auto& link : bridged.mesh) CHECK(link.rate.value() == Approx(100e9));
  CHECK(bridged.host_rate.value() == Approx(20e9));
}

TEST_CASE("an imported node takes the place of a profile's under any device, and islands go at PCIe's pace") {
  const Folder folder;
  const std::string pairs =
      "\tGPU0\tGPU1\tGPU2\tGPU3\nGPU0\t X \tNV12\tSYS\tSYS\nGPU1\tNV12\t X \tSYS\tSYS\n"
      "GPU2\tSYS\tSYS\t X \tNV12\nGPU3\tSYS\tSYS\tNV12\t X \n";
  std::string node;
  std::istringstream lines(tools::import_topology(folder.write("topo.txt", pairs), {}));
  for (std::string line; std::getline(lines, line);) node += "      " + line + "\n";
  const std::string scenario = folder.write(
      "pairs.yaml",
      "name: pairs\ncluster:\n  gpus: 4\n  fabric: single-node\n  device:\n    inherits: a100-sxm-80gb\n    node:\n" +
          node + "model: llama3.1-8b\nparallelism: {sharding: optimizer}\nbatch: {global: 4, micro: 1}\n");
  const auto busbw = [&](const char* gpus) {
    const tests::Outcome run = tests::orrery(
        {"collective", scenario, "--op", "all_reduce", "--gpus", gpus, "--sizes", "8GB:8GB:2", "--json", "-"});
    REQUIRE(run.status == 0);
    const std::size_t at = run.out.find("\"busbw_gbs\":");
    REQUIRE(at != std::string::npos);
    return std::stod(run.out.substr(at + 12));
  };
  // NVLink alone within a pair: 12 links of 25 GB/s, of which a ring of two moves what a link carries; between pairs
  // the 20 GB/s of the host, whatever stands beside.
  CHECK(busbw("2") > 150);
  CHECK(busbw("3") == Approx(20).epsilon(0.15));
  CHECK(busbw("4") == Approx(20).epsilon(0.15));
}

TEST_CASE("Slurm's topology.yaml, iblinkinfo and NCCL's topology file") {
  const tools::Wires links = tools::read_iblinkinfo(
      "CA: gpu-3 HCA-1:\n      0xb8      6    1[  ] ==( 4X      25.78125 Gbps Active/  LinkUp)==>       3    3[  ] "
      "\"MF0;sw1:MQM8700/U1\" ( )\n"
      "Switch: 0x0c42 MF0;sw1:MQM8700/U1:\n"
      "           3    2[  ] ==( 4X      25.78125 Gbps Active/  LinkUp)==>       2    1[  ] \"gpu-1 HCA-1\" ( )\n"
      "           3    3[  ] ==( 4X      25.78125 Gbps Active/  LinkUp)==>       6    1[  ] \"gpu-3 HCA-1\" ( )\n",
      "ib.txt");
  CHECK(links.hosts.size() == 2);
  CHECK(links.nic_gbps == Approx(100));  // four lanes of EDR
  const Folder folder;
  const std::string tree = tools::import_topology(
      folder.write(
          "topology.yaml",
          "- topology: t\n  cluster_default: true\n  tree:\n    switches:\n    - {switch: root, children: 's[1-2]'}\n"
          "    - {switch: s1, nodes: 'node[01-02]'}\n    - {switch: s2, nodes: 'node[03-04]'}\n"),
      {});
  CHECK(tree.find("# 4 hosts") != std::string::npos);
  CHECK(tree.find("['root', 's1']") != std::string::npos);
  // Two GPUs with 18 links each into switches: class 0x068000.
  const std::string nccl = tools::import_topology(
      folder.write(
          "nccl.xml",
          "<system version=\"1\"><cpu numaid=\"0\"><pci busid=\"0000:10:00.0\" class=\"0x030200\"><gpu dev=\"0\">"
          "<nvlink target=\"0000:05:00.0\" count=\"18\" tclass=\"0x068000\"/></gpu></pci>"
          "<pci busid=\"0000:20:00.0\" class=\"0x030200\"><gpu dev=\"1\">"
          "<nvlink target=\"0000:05:00.0\" count=\"18\" tclass=\"0x068000\"/></gpu></pci></cpu></system>\n"),
      {});
  CHECK(nccl.find("kind: nvswitch") != std::string::npos);
  CHECK(nccl.find("links: 18") != std::string::npos);
}

TEST_CASE("lines of iblinkinfo by themselves: with the names of both ends, or by numbers that far ends name") {
  // iblinkinfo -l: every line has its node, and both ends' numbers among all nodes.
  const tools::Wires named = tools::read_iblinkinfo(
      "0x0002c9 \"SwitchX -  Mellanox\"  4    3[  ] ==( 4X 25.78125 Gbps Active/  LinkUp)==>  0x0e0b72  15    1[  ] "
      "\"n2 HCA-1\" ( )\n"
      "0x0002c9 \"SwitchX -  Mellanox\"  4   17[  ] ==( 4X 25.78125 Gbps Active/  LinkUp)==>  0x334455   5    1[  ] "
      "\"n1 HCA-1\" ( )\n"
      "0x334455 \"n1 HCA-1\"  5    1[  ] ==( 4X 25.78125 Gbps Active/  LinkUp)==>  0x0002c9   4   17[  ] \"SwitchX -  "
      "Mellanox\" ( )\n"
      "0x0002c9 \"SwitchX -  Mellanox\"  4   18[  ] ==(                Down/ Polling)==>             [  ] \"\" ( )\n",
      "ib.txt");
  CHECK(named.hosts.size() == 2);
  CHECK(named.hosts.at("n1") == std::vector<std::string>{"SwitchX -  Mellanox"});
  CHECK(named.nic_gbps == Approx(100));
  // iblinkinfo | grep Up: headings are gone; number 2 is the switch that adapters' lines lead to.
  const tools::Wires bare = tools::read_iblinkinfo(
      "      0xec0d      4    1[  ] ==( 4X      25.78125 Gbps Active/  LinkUp)==>       2   17[  ] "
      "\"MF0;sw:MSB7700/U1\" "
      "( )\n"
      "           2   17[  ] ==( 4X      25.78125 Gbps Active/  LinkUp)==>       4    1[  ] \"n02 HCA-1\" ( )\n"
      "           2   18[  ] ==( 4X      25.78125 Gbps Active/  LinkUp)==>       1    1[  ] \"n01 HCA-1\" ( )\n",
      "ib.txt");
  CHECK(bare.hosts.size() == 2);
  CHECK(bare.hosts.at("n02") == std::vector<std::string>{"MF0;sw:MSB7700/U1"});
}

TEST_CASE("NCCL's topology file as people write it: GPUs by their numbers, links that lead nowhere are said") {
  const Folder folder;
  const std::string text = tools::import_topology(
      folder.write(
          "nccl.xml",
          "<system version=\"1\">\n<gpu dev=\"0\"><nvlink target=\"1\" count=\"4\"/></gpu>\n"
          "<gpu dev=\"1\"><nvlink target=\"0\" count=\"4\"/><nvlink target=\"7\" count=\"2\"/></gpu>\n</system>\n"),
      {});
  CHECK(text.find("gpus: 2") != std::string::npos);
  CHECK(text.find("pair: [0, 1], rate: 100 GB/s") != std::string::npos);  // four of 25
  CHECK(text.find("NVLinks that lead to no GPU of the file are left out: 7") != std::string::npos);
}

TEST_CASE("rails are those of the NICs' names, hosts go by their numbers, lines of Slurm go on") {
  // The second switch to be found is the first rail's; the reducing node of a switch is no host.
  const std::string ib =
      "Switch\t65 \"S-b\"\t\t# \"leaf1\" base port 0 lid 1 lmc 0\n[1]\t\"H-1\"[1](1) \t\t# \"gpu10 mlx5_1\" lid 5 "
      "4xNDR\n"
      "[2]\t\"H-2\"[1](2) \t\t# \"gpu2 mlx5_1\" lid 6 4xNDR\n[3]\t\"S-c\"[1]\t\t# \"spine\" lid 9 4xNDR\n"
      "[65]\t\"H-9\"[1](9) \t\t# \"Mellanox Technologies Aggregation Node\" lid 90 4xHDR\n\n"
      "Switch\t65 \"S-a\"\t\t# \"leaf0\" base port 0 lid 2 lmc 0\n[1]\t\"H-3\"[1](3) \t\t# \"gpu10 mlx5_0\" lid 7 "
      "4xNDR\n"
      "[2]\t\"H-4\"[1](4) \t\t# \"gpu2 mlx5_0\" lid 8 4xNDR\n[3]\t\"S-c\"[2]\t\t# \"spine\" lid 9 4xNDR\n\n"
      "Switch\t65 \"S-c\"\t\t# \"spine\" base port 0 lid 9 lmc 0\n[1]\t\"S-b\"[3]\t\t# \"leaf1\" lid 1 4xNDR\n"
      "[2]\t\"S-a\"[3]\t\t# \"leaf0\" lid 2 4xNDR\n";
  const tools::Wires fabric = tools::read_ibnetdiscover(ib, "ib.txt");
  REQUIRE(fabric.hosts.size() == 2);
  CHECK(fabric.hosts.begin()->first == "gpu2");
  for (const auto& [host, leaves] : fabric.hosts) CHECK(leaves == std::vector<std::string>{"S-a", "S-b"});
  const tools::Wires tree = tools::read_slurm_topology(
      "SwitchName=a Nodes=n[1-2] # first\nSwitchName=b Nodes=n10,\\\nn9\nSwitchName=top \\\n  Switches=a,b\n", "t.conf",
      {});
  std::vector<std::string> names;
  for (const auto& [host, leaves] : tree.hosts) names.push_back(host);
  CHECK(names == std::vector<std::string>{"n1", "n2", "n9", "n10"});
  CHECK(tree.links.size() == 2);
  // Blocks hang below one switch, with a lane for every NIC: 2 blocks of 2 hosts with 8.
  const tools::Wires blocks =
      tools::read_slurm_topology("BlockName=b1 Nodes=n[0-1]\nBlockName=b2 Nodes=n[2-3]\nBlockSizes=2\n", "t.conf", {});
  CHECK(blocks.hosts.size() == 4);
  REQUIRE(blocks.links.size() == 2);
  for (const auto& [ends, cable] : blocks.links) CHECK(cable.lanes == 16);
}

TEST_CASE("what is no wiring is refused in one line") {
  const std::string whole = ibnetdiscover();
  CHECK(refusal(whole.substr(0, whole.find("Switch\t40 \"S-spine"))).find("S-spine, which has no paragraph") !=
        std::string::npos);  // cut off
  CHECK(refusal("").find("no form") != std::string::npos);
  CHECK(refusal("a,b,rate\ns0,s1,fast\n").find("wires.txt:2:1") != std::string::npos);
  CHECK(refusal("a,b,rate,kind\ns0,s1,400 Gb/s,link\n").find("nic") != std::string::npos);
  CHECK(refusal("SwitchName=a Switches=b\nSwitchName=b Switches=a\n").find("tree") != std::string::npos);
  CHECK(refusal("SwitchName=a Nodes=n[0-99999999]\n").find("range") != std::string::npos);
  CHECK(refusal("SwitchName=a Nodes=n[3\n").find("]") != std::string::npos);
  CHECK(refusal("a,b,rate,lanes,kind\nn0,s0,1 Gb/s,1,nic\nn1,s1,1 Gb/s,1,nic\n").find("rail_only") !=
        std::string::npos);
  CHECK(refusal("GPU0 NV18\n").find("matrix") != std::string::npos);
}
