// Rails that no switch joins (Wang, Ghobadi, Shakeri, Zhang, Hasani: Rail-only, a low-cost high-performance network for
// training LLMs with trillion parameters, HOTI 2024): NIC i of every node hangs on rail i, a fat tree of its own, and
// traffic from one rail to another crosses inside a node. Training rarely asks for more: its groups lie on rails.
#include "topology/fabrics.h"

namespace orrery::topology {

FabricWiring make_rail_only(const FabricSpec& spec, std::int64_t nodes, const Settings& where) {
  FabricSpec one = spec;  // of one rail: a fat tree of nodes with one NIC each
  one.kind = &fabrics::fat_tree;
  one.nics = 1;
  one.tree.rail = false;
  one.tree.spine_groups = FabricSpec::SpineGroups::unit;
  const FabricWiring rail = make_fat_tree(one, nodes, where);
  FabricWiring wiring;
  wiring.leaf_of_nic.resize(static_cast<std::size_t>(nodes * spec.nics));
  for (std::int64_t r = 0; r < spec.nics; ++r) {
    const auto first_group = static_cast<std::uint32_t>(wiring.groups.size());
    const auto first_bundle = static_cast<std::uint32_t>(wiring.bundles.size());
    for (FabricWiring::Group group : rail.groups) {
      if (group.parent != kNoGroup) {
        group.parent += first_group;
        group.up += first_bundle;
      }
      group.name += fmt::format(" r{}", r);
      wiring.groups.push_back(std::move(group));
    }
    for (Bundle bundle : rail.bundles) {
      bundle.low += first_group;
      bundle.high += first_group;
      wiring.bundles.push_back(std::move(bundle));
    }
    for (std::int64_t n = 0; n < nodes; ++n) {
      wiring.leaf_of_nic[static_cast<std::size_t>(n * spec.nics + r)] =
          first_group + rail.leaf_of_nic[static_cast<std::size_t>(n)];
    }
  }
  return wiring;
}

}  // namespace orrery::topology
