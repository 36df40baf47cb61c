// The catalogue of nodes, and what generators share: how lanes are dealt out over twins, and the PCIe side of a node.
#include "topology/wiring.h"

#include <algorithm>

#include "topology/fabrics.h"

namespace orrery::topology {

const std::vector<NodeGenerator>& node_generators() {
  static const std::vector<NodeGenerator> kGenerators = {
      {"nvswitch", NodeSpec::Kind::nvswitch, nvswitch_node},
      {"mesh", NodeSpec::Kind::mesh, mesh_node},
      {"pcie", NodeSpec::Kind::pcie, pcie_node},
  };
  return kGenerators;
}

namespace {
FabricWiring make_none(const FabricSpec& spec, std::int64_t nodes, const Settings& where) {
  if (nodes > 1) {
    where.fail(fmt::format("{} nodes, but fabric {} joins no nodes; name a fabric or use the GPUs of one node", nodes,
                           spec.name.empty() ? "none" : spec.name));
  }
  return {};
}
}  // namespace

constinit const FabricKind fabrics::none{.name = "none", .make = make_none, .networked = false, .routed = false};

std::int32_t lanes_between(const Bundle& bundle, std::int32_t low_members, std::int32_t high_members, std::int32_t low,
                           std::int32_t high) {
  const std::int32_t low_block = low_members / bundle.planes, high_block = high_members / bundle.planes;
  if (low / low_block != high / high_block) return 0;
  const std::int32_t per_low = bundle.lanes / low_members;
  const std::int32_t extra = per_low % high_block;
  // The extras of the next member begin where those of this one end, so that every member of `high` gets its share.
  const std::int32_t start = bundle.first_extra + (low % low_block) * extra;
  const std::int32_t turn = ((high % high_block - start) % high_block + high_block) % high_block;
  std::int32_t lanes = per_low / high_block + (turn < extra ? 1 : 0);
  for (const Bundle::Damage& d : bundle.damage) lanes -= d.low == low && d.high == high ? d.lost : 0;
  return lanes;
}

void share_out_nics(NodeWiring& wiring, std::int64_t nics) {
  const auto gpus = static_cast<std::int64_t>(wiring.gpus);
  wiring.nics = static_cast<std::int32_t>(nics);
  for (std::int64_t g = 0; g < gpus; ++g) {
    // Of more NICs than GPUs the first of its own.
    const std::int64_t nic = nics <= gpus ? g * nics / gpus : (g * nics + gpus - 1) / gpus;
    wiring.nic_of_gpu.push_back(static_cast<std::int32_t>(nic));
  }
  for (std::int64_t i = 0; i < nics; ++i) {
    // The first GPU that uses this NIC; of more NICs than GPUs each belongs to the nearest GPU below.
    const std::int64_t owner = nics <= gpus ? (i * gpus + nics - 1) / nics : i * gpus / nics;
    wiring.gpu_of_nic.push_back(static_cast<std::int32_t>(owner));
  }
}

void attach_nics(NodeWiring& wiring, const NodeSpec& spec, std::int64_t nics) {
  if (nics == 0) return;
  const auto gpus = static_cast<std::int64_t>(wiring.gpus);
  share_out_nics(wiring, nics);
  // The scarcer of GPUs and NICs are dealt out over the switches, so that a GPU and its NIC always share one.
  const std::int64_t scarce = std::min(gpus, nics), switches = std::min(spec.pcie_switches, scarce);
  const auto first_switch = static_cast<std::uint32_t>(wiring.groups.size());
  const auto switch_of = [&](std::int64_t gpu) {
    const std::int64_t dealt = nics <= gpus ? wiring.nic_of_gpu[static_cast<std::size_t>(gpu)] : gpu;
    return first_switch + static_cast<std::uint32_t>(dealt * switches / scarce);
  };
  for (std::int64_t s = 0; s < switches; ++s) wiring.groups.push_back({VertexKind::pcie_switch, 1});
  wiring.first_nic = static_cast<std::uint32_t>(wiring.groups.size());
  for (std::int64_t g = 0; g < gpus; ++g) {
    wiring.pcie_of_gpu.push_back(static_cast<std::uint32_t>(wiring.bundles.size()));
    wiring.bundles.push_back({static_cast<std::uint32_t>(g), switch_of(g), 1, spec.pcie, Tier::nic});
  }
  for (std::int64_t i = 0; i < nics; ++i) {
    wiring.groups.push_back({VertexKind::nic, 1});
    wiring.pcie_of_nic.push_back(static_cast<std::uint32_t>(wiring.bundles.size()));
    wiring.bundles.push_back({wiring.first_nic + static_cast<std::uint32_t>(i),
                              switch_of(wiring.gpu_of_nic[static_cast<std::size_t>(i)]), 1, spec.pcie, Tier::nic});
  }
}

}  // namespace orrery::topology
