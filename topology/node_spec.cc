// Reads the `node:` section of a device profile. Its keys are the rows of node_keys(); an example of each kind:
//
//   node: {kind: nvswitch, gpus: 8, switches: 6, links: 12, rate: 300 GB/s, latency: 0.7 us, efficiency: 0.9,
//          pcie: 32 GB/s, pcie_switches: 4, provenance: NVIDIA DGX A100 system architecture white paper}
//   node: {kind: mesh, gpus: 8, mesh_rate: 64 GB/s, latency: 1 us, pcie: 64 GB/s, pcie_switches: 8}
//   node: {kind: pcie, gpus: 8, rate: 32 GB/s, pcie: 25 GB/s, pcie_switches: 4, host_bridges: 2, host_rate: 20 GB/s}
//   node: {kind: mesh, gpus: 4, mesh: [{pair: [0, 1], rate: 200 GB/s}, {pair: [1, 2], rate: 50 GB/s}, ...]}
#include <algorithm>
#include <set>
#include <utility>

#include "sim/key_rows.h"
#include "topology/cluster.h"
#include "topology/wiring.h"

namespace orrery::topology {

namespace {

constexpr std::int64_t kMostMeshGpus = 64;  // routes are kept for all pairs
// From a slow PCIe lane to fifty times NVLink 5.
constexpr sim::Bounds kRate{"100 MB/s", "100 TB/s"};

std::vector<std::string> generator_names() {
  std::vector<std::string> names;
  for (const NodeGenerator& g : node_generators()) names.push_back(g.name);
  return names;
}

void refuse_other_kind(const Settings& node, const std::string& kind, const std::vector<std::string>& others) {
  for (const std::string& key : others) {
    if (const Settings* value = node.find(key))
      value->fail(fmt::format("has no meaning for a node of kind {}; leave it out", kind));
  }
}

std::vector<NodeSpec::MeshLink> read_mesh(const Settings& node, std::int64_t gpus) {
  std::vector<NodeSpec::MeshLink> links;
  std::set<std::pair<std::int64_t, std::int64_t>> taken;
  if (const Settings* list = node.find("mesh")) {
    if (!list->is_sequence()) list->fail("expected a list of {pair: [a, b], rate: ...}");
    for (const Settings& item : list->items()) {
      const Settings& pair = item.at("pair");
      if (!pair.is_sequence() || pair.items().size() != 2) pair.fail("expected two GPUs, as in [0, 1]");
      const std::int64_t a = pair.items()[0].as_int(0, gpus - 1), b = pair.items()[1].as_int(0, gpus - 1);
      if (a == b) pair.fail(fmt::format("joins GPU {} to itself; expected two different GPUs", a));
      if (!taken.insert(std::minmax(a, b)).second)
        pair.fail(fmt::format("GPUs {} and {} are joined twice; name each pair once", a, b));
      links.push_back({std::min(a, b), std::max(a, b), item.at("rate").as_bandwidth()});
    }
  }
  if (const Settings* rate = node.find("mesh_rate")) {
    const Bandwidth each = rate->as_bandwidth();
    for (std::int64_t a = 0; a < gpus; ++a) {
      for (std::int64_t b = a + 1; b < gpus; ++b) {
        if (!taken.contains({a, b})) links.push_back({a, b, each});
      }
    }
  }
  return links;
}

/// A node that is cut in two, or whose first GPUs are, would leave some without a way.
void check_connected(const Settings& node, const NodeSpec& spec) {
  for (std::int64_t gpus = 2; gpus <= spec.gpus; ++gpus) {
    Graph graph;
    graph.vertices.resize(static_cast<std::size_t>(gpus));
    for (const NodeSpec::MeshLink& link : spec.mesh) {
      if (link.b < gpus)
        graph.edges.push_back(
            {static_cast<std::uint32_t>(link.a), static_cast<std::uint32_t>(link.b), 1, link.rate, Tier::node});
    }
    const std::vector<std::int32_t> hops = hops_from(graph, 0);
    const auto lost = std::find(hops.begin(), hops.end(), -1);
    if (lost != hops.end()) {
      node.fail(
          fmt::format("GPU {} has no way to GPU 0 over the GPUs before {}; number the GPUs so that each has a link to "
                      "an earlier one, or add links to mesh",
                      lost - hops.begin(), gpus));
    }
  }
}

std::vector<sim::Key> wiring_keys() {
  return {
      sim::key_row(
          "kind", "choice", "", "", generator_names(),
          "How the GPUs of a node reach each other: through switch chips, by direct links, or over PCIe alone."),
      sim::key_row("gpus", "integer", "GPUs", "8", {},
                   "GPUs (or dies) of a full node: NVLink domains of today have 72.", {"1", "1024"}),
      sim::key_row("switches", "integer", "chips", "", {}, "NVSwitch chips of a node (kind nvswitch).", {"1", "10000"}),
      sim::key_row("links", "integer", "links", "", {}, "NVLinks of one GPU, spread over the chips (kind nvswitch).",
                   {"1", "10000"}),
      sim::key_row("rate", "quantity", "bytes/s", "", {},
                   "Rate of one GPU per direction, all its links together (kinds nvswitch and pcie).", kRate),
      sim::key_row("mesh", "list", "", "-", {}, "Direct links, each {pair: [a, b], rate: per direction} (kind mesh)."),
      sim::key_row("mesh[].pair", "list", "GPUs", "", {}, "The two GPUs, counted from 0.", {"0", "1023"}),
      sim::key_row("mesh[].rate", "quantity", "bytes/s", "", {}, "Rate per direction.", kRate),
      sim::key_row("mesh_rate", "quantity", "bytes/s", "-", {},
                   "Rate per direction of a direct link between every pair that mesh does not name (kind mesh).",
                   kRate),
      sim::key_row("latency", "quantity", "s", "0.7 us", {},
                   "From GPU to GPU, one way; in a mesh or over PCIe per link.", {"0 s", "10 ms"}),
      sim::key_row("host_bridges", "integer", "bridges", "2", {},
                   "Root complexes, one per processor, that share out the PCIe switches (kind pcie).", {"1", "64"}),
      sim::key_row("host_rate", "quantity", "bytes/s", "20 GB/s", {},
                   "Rate per direction between two host bridges (kind pcie), or between islands of links and the host "
                   "(kind mesh; not given: all GPUs are joined by links).",
                   kRate),
      sim::key_row("efficiency", "number", "", "1", {},
                   "Share of the line rate that a saturating transfer's payload reaches, above 0, at most 1.",
                   {"0.01", "1"}),
      sim::key_row("pcie", "quantity", "bytes/s", "32 GB/s", {},
                   "Payload rate between a GPU and its NIC, per direction.", kRate),
      sim::key_row("pcie_switches", "integer", "switches", "4", {},
                   "PCIe switches of a node; each serves an equal share of the GPUs and their NICs.", {"1", "1024"}),
      sim::key_row("provenance", "text", "", "-", {}, "Where the facts come from."),
  };
}

std::vector<sim::Key> host_keys() {
  return {
      sim::key_row("host_memory", "quantity", "bytes", "not known: nothing is checked", {},
                   "Memory of the hosts of a node, all processors together, that optimizer states may lie in.",
                   {"1 GB", "10000 TB"}),
      sim::key_row("host_memory_rate", "quantity", "bytes/s", "200 GB/s", {},
                   "Bandwidth of that memory, all channels of all processors together.", {"1 GB/s", "10000 TB/s"}),
      sim::key_row("host_link", "quantity", "bytes/s", "pcie", {},
                   "Payload rate of a link between GPUs and the host's memory, per direction: PCIe, or NVLink-C2C.",
                   kRate),
      sim::key_row("host_links", "integer", "links", "pcie_switches", {},
                   "Such links of a node, which its GPUs share evenly.", {"1", "1024"}),
  };
}

}  // namespace

const sim::KeyTable& node_keys() {
  static const sim::KeyTable kKeys([] {
    std::vector<sim::Key> keys = wiring_keys();
    for (sim::Key& key : host_keys()) keys.push_back(std::move(key));
    return keys;
  }());
  return kKeys;
}

void join_by_nvlink(NodeSpec& node, FabricSpec& fabric, std::int64_t nodes) {
  SIM_CHECK(node.kind == NodeSpec::Kind::nvswitch && nodes >= 1, "a domain of {} nodes", nodes);
  node.gpus *= nodes;
  node.pcie_switches *= nodes;
  node.host.links *= nodes;
  node.host.memory = sim::Bytes(node.host.memory.value() * nodes);
  node.host.memory_rate = Bandwidth(node.host.memory_rate.value() * static_cast<double>(nodes));
  fabric.nics *= nodes;
}

std::int64_t nodes_per_domain(std::int64_t nodes, std::int64_t most) {
  std::int64_t fill = std::max<std::int64_t>(1, std::min(nodes, most));
  while (nodes % fill != 0) --fill;
  return fill;
}

NodeSpec load_node_spec(const Settings& node) {
  node_keys().check(node);
  const std::string kind = node.at("kind").as_choice(generator_names());
  NodeSpec spec;
  for (const NodeGenerator& g : node_generators()) {
    if (g.name == kind) spec.kind = g.kind;
  }
  spec.latency = node.get_duration("latency", sim::microseconds(0.7));
  spec.efficiency = node.get_number("efficiency", 1.0);
  spec.pcie = node.get_bandwidth("pcie", Bandwidth(32e9));
  spec.pcie_switches = node.get_int("pcie_switches", 4);
  spec.provenance = node.get_text("provenance", "");
  const auto read_host = [&] {
    if (const Settings* memory = node.find("host_memory")) spec.host.memory = memory->as_bytes();
    if (const Settings* rate = node.find("host_memory_rate")) spec.host.memory_rate = rate->as_bandwidth();
    spec.host.link = node.get_bandwidth("host_link", spec.pcie);
    spec.host.links = node.get_int("host_links", spec.pcie_switches, 1, 1024);
  };
  read_host();
  if (spec.kind == NodeSpec::Kind::nvswitch) {
    refuse_other_kind(node, kind, {"mesh", "mesh_rate", "host_bridges", "host_rate"});
    spec.gpus = node.get_int("gpus", 8);
    spec.switches = node.at("switches").as_int();
    spec.links = node.at("links").as_int();
    if (spec.links < spec.switches) {
      node.at("links").fail(
          fmt::format("{} links do not reach {} chips; expected at least one link to each", spec.links, spec.switches));
    }
    spec.rate = node.at("rate").as_bandwidth();
    return spec;
  }
  if (spec.kind == NodeSpec::Kind::pcie) {
    refuse_other_kind(node, kind, {"switches", "links", "mesh", "mesh_rate"});
    spec.gpus = node.get_int("gpus", 8, 1, kMostMeshGpus);
    spec.rate = node.at("rate").as_bandwidth();
    spec.pcie_switches = node.get_int("pcie_switches", std::min<std::int64_t>(4, spec.gpus), 1, spec.gpus);
    spec.host_bridges =
        node.get_int("host_bridges", std::min<std::int64_t>(2, spec.pcie_switches), 1, spec.pcie_switches);
    spec.host_rate = node.get_bandwidth("host_rate", Bandwidth(20e9));
    return spec;
  }
  refuse_other_kind(node, kind, {"switches", "links", "rate", "host_bridges"});
  spec.gpus = node.get_int("gpus", 8, 1, kMostMeshGpus);
  spec.mesh = read_mesh(node, spec.gpus);
  // Islands of links, and the host between them.
  spec.host_rate = node.get_bandwidth("host_rate", Bandwidth(0));
  if (spec.host_rate.value() <= 0) check_connected(node, spec);
  return spec;
}

}  // namespace orrery::topology
