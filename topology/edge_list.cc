// Any network that a list of links between named switches describes, and a list that says which switch each node's NICs
// hang on. Ports are not counted: whoever lists links has counted them.
#include "topology/wiring.h"

namespace orrery::topology {

FabricWiring edge_list(const FabricSpec& spec, std::int64_t nodes, const Settings& where) {
  if (nodes > static_cast<std::int64_t>(spec.graph.attach.size())) {
    where.fail(fmt::format("{} nodes, but fabric {} attaches {}; use fewer GPUs or attach more nodes", nodes, spec.name,
                           spec.graph.attach.size()));
  }
  FabricWiring wiring;
  wiring.tree = false;
  for (const std::string& name : spec.graph.switch_names)
    wiring.groups.push_back({.kind = VertexKind::leaf, .name = name});
  for (const FabricSpec::Edges::Edge& edge : spec.graph.edges) {
    wiring.bundles.push_back({edge.a, edge.b, edge.lanes, edge.rate, Tier::spine});
  }
  for (std::int64_t node = 0; node < nodes; ++node) {
    const std::vector<std::uint32_t>& switches = spec.graph.attach[static_cast<std::size_t>(node)];
    for (std::int64_t i = 0; i < spec.nics; ++i) {
      wiring.leaf_of_nic.push_back(switches[static_cast<std::size_t>(i) % switches.size()]);
    }
  }
  return wiring;
}

}  // namespace orrery::topology
