// A torus of one or more dimensions (Dally and Towles, Principles and Practices of Interconnection Networks, 2004,
// chapter 5; as in Blue Gene, the K computer and TPU pods): every switch is joined to its two neighbours along each
// dimension, around the ends too. Nodes sit on the switches in the order of their numbers, the first dimension fastest.
// The whole machine is there, also where a job leaves nodes empty: their switches pass traffic on.
//
// Left out: virtual channels and deadlock avoidance.
#include <array>
#include <numeric>

#include "sim/key_rows.h"
#include "topology/fabrics.h"

namespace orrery::topology {

namespace {

constexpr std::array<std::string_view, 3> kTorusShares{"uplink_rate", "nodes_per_switch", "local_links"};

std::vector<sim::Key> torus_keys() {
  return {
      sim::key_row("dimensions", "list", "switches", "", {},
                   "Switches along each dimension of the torus, at most 6 of them.", {"1", "1000000"}),
  };
}

void read_torus(const Settings& fabric, std::string_view device, FabricSpec& spec) {
  constexpr std::size_t kMostDimensions = 6;
  constexpr std::int64_t kMostSwitches = 1'000'000;
  const Settings& list = fabric.at("dimensions");
  if (!list.is_sequence() || list.items().empty() || list.items().size() > kMostDimensions)
    list.fail(fmt::format("expected a list of 1 to {} numbers of switches, as in [8, 8, 8]", kMostDimensions));
  std::int64_t switches = 1;
  for (const Settings& item : list.items()) {
    spec.torus.dimensions.push_back(item.as_int());
    switches *= spec.torus.dimensions.back();
    if (switches > kMostSwitches) list.fail(fmt::format("makes more than {} switches", kMostSwitches));
  }
  spec.torus.nodes_per_switch = fabric.get_int("nodes_per_switch", 1);
  spec.torus.links = fabric.get_int("local_links", 1);
  spec.switches.uplink_rate = read_link_rate(fabric, "uplink_rate", device, spec);
}

FabricWiring make_torus(const FabricSpec& spec, std::int64_t nodes, const Settings& where) {
  const std::int64_t switches =
      std::accumulate(spec.torus.dimensions.begin(), spec.torus.dimensions.end(), std::int64_t{1}, std::multiplies<>());
  if (nodes > switches * spec.torus.nodes_per_switch) {
    where.fail(fmt::format("{} nodes are too many for fabric {}: {} switches of {} nodes hold {}", nodes, spec.name,
                           switches, spec.torus.nodes_per_switch, switches * spec.torus.nodes_per_switch));
  }
  std::int64_t ports = spec.torus.nodes_per_switch * spec.nics;
  for (const std::int64_t size : spec.torus.dimensions) ports += (size > 2 ? 2 : size - 1) * spec.torus.links;
  if (ports > spec.switches.radix) {
    where.fail(
        fmt::format("a switch of fabric {} needs {} ports, but has {}; use fewer nodes_per_switch or local_links",
                    spec.name, ports, spec.switches.radix));
  }
  FabricWiring wiring;
  wiring.tree = false;
  for (std::int64_t s = 0; s < switches; ++s) {
    std::string name = "switch";
    std::int64_t rest = s, stride = 1;
    for (const std::int64_t size : spec.torus.dimensions) {
      const std::int64_t at = rest % size, next = s + ((at + 1) % size - at) * stride;
      name += fmt::format(" {}", at);
      // Of two along a dimension both ways lead to the same neighbour: one link.
      if (size > 2 || (size == 2 && at == 0)) {
        wiring.bundles.push_back({static_cast<std::uint32_t>(s), static_cast<std::uint32_t>(next),
                                  static_cast<std::int32_t>(spec.torus.links), spec.switches.uplink_rate, Tier::spine});
      }
      rest /= size;
      stride *= size;
    }
    wiring.groups.push_back({.kind = VertexKind::leaf, .name = std::move(name)});
  }
  for (std::int64_t node = 0; node < nodes; ++node) {
    wiring.leaf_of_nic.insert(wiring.leaf_of_nic.end(), static_cast<std::size_t>(spec.nics),
                              static_cast<std::uint32_t>(node / spec.torus.nodes_per_switch));
  }
  return wiring;
}

}  // namespace

constinit const FabricKind fabrics::torus{
    .name = "torus",
    .make = make_torus,
    .shares = kTorusShares,
    .keys = torus_keys,
    .read = read_torus,
    .shortest_paths = true,
};

}  // namespace orrery::topology
