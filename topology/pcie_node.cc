// A node without links between its GPUs: PCIe all the way. GPUs hang below PCIe switches, switches below host bridges
// (the root complexes of the processors), and one link joins every two host bridges (UPI, Infinity Fabric). GPUs below
// one switch talk through it; others share their switches' uplinks, and across processors the link between these. NICs
// hang below the switches, so what a GPU sends to a NIC shares its link with what it sends to other GPUs. (Li et al.,
// Evaluating Modern GPU Interconnect: PCIe, NVLink, NV-SLI, NVSwitch and GPUDirect, TPDS 2020.) Left out: transfers
// bounced through host memory where peer access is off, and the rate that a root complex loses on peer traffic.
#include <algorithm>

#include "topology/wiring.h"

namespace orrery::topology {

NodeWiring pcie_node(const NodeSpec& spec, std::int64_t gpus, std::int64_t nics) {
  NodeWiring wiring;
  wiring.gpus = static_cast<std::int32_t>(gpus);
  wiring.groups.assign(static_cast<std::size_t>(gpus), {VertexKind::gpu, 1});
  share_out_nics(wiring, nics);
  const auto join = [&](std::uint32_t low, std::uint32_t high, Bandwidth rate, Tier tier) {
    wiring.bundles.push_back({low, high, 1, rate, tier});
    return static_cast<std::uint32_t>(wiring.bundles.size() - 1);
  };
  const auto add = [&](VertexKind kind) {
    wiring.groups.push_back({kind, 1});
    return static_cast<std::uint32_t>(wiring.groups.size() - 1);
  };
  // Full nodes fill all switches; GPU g of a node is always below the same one, also where fewer are used.
  const auto part = [](std::int64_t index, std::int64_t of, std::int64_t parts) { return index * parts / of; };
  const std::int64_t switches = part(gpus - 1, spec.gpus, spec.pcie_switches) + 1;
  const std::int64_t bridges = part(switches - 1, spec.pcie_switches, spec.host_bridges) + 1;
  const auto first_switch = static_cast<std::uint32_t>(gpus);
  for (std::int64_t i = 0; i < switches; ++i) add(VertexKind::pcie_switch);
  const auto first_bridge = static_cast<std::uint32_t>(wiring.groups.size());
  for (std::int64_t i = 0; i < bridges; ++i) add(VertexKind::host_bridge);
  const auto switch_of = [&](std::int64_t gpu) {
    return first_switch + static_cast<std::uint32_t>(part(gpu, spec.gpus, spec.pcie_switches));
  };
  for (std::int64_t g = 0; g < gpus; ++g) {
    const std::uint32_t link = join(static_cast<std::uint32_t>(g), switch_of(g), spec.rate, Tier::node);
    if (nics > 0) wiring.pcie_of_gpu.push_back(link);
  }
  for (std::int64_t i = 0; i < switches; ++i) {
    const auto bridge = first_bridge + static_cast<std::uint32_t>(part(i, spec.pcie_switches, spec.host_bridges));
    join(first_switch + static_cast<std::uint32_t>(i), bridge, spec.rate, Tier::node);
  }
  for (std::uint32_t a = 0; a < bridges; ++a) {
    for (std::uint32_t b = a + 1; b < bridges; ++b)
      join(first_bridge + a, first_bridge + b, spec.host_rate, Tier::node);
  }
  wiring.first_nic = static_cast<std::uint32_t>(wiring.groups.size());
  for (std::int64_t i = 0; i < nics; ++i) {
    const std::uint32_t nic = add(VertexKind::nic);
    const std::uint32_t above = switch_of(wiring.gpu_of_nic[static_cast<std::size_t>(i)]);
    wiring.pcie_of_nic.push_back(join(nic, above, spec.pcie, Tier::nic));
  }
  const auto all = best_routes(wiring);
  const std::size_t count = wiring.groups.size();
  for (std::size_t a = 0; a < static_cast<std::size_t>(gpus); ++a) {
    for (std::size_t b = 0; b < static_cast<std::size_t>(gpus); ++b) wiring.routes.push_back(all[a * count + b]);
  }
  for (std::size_t a = 0; a < static_cast<std::size_t>(gpus); ++a) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(nics); ++i) {
      wiring.nic_routes.push_back(all[a * count + wiring.first_nic + i]);
    }
  }
  return wiring;
}

}  // namespace orrery::topology
