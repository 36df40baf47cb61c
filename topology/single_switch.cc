// All NICs on one switch: an ideal star, or a small cluster. The switch is non-blocking; only its port count limits.
#include "topology/fabrics.h"

namespace orrery::topology {

namespace {

FabricWiring make_single_switch(const FabricSpec& spec, std::int64_t nodes, const Settings& where) {
  if (nodes * spec.nics > spec.switches.radix) {
    where.fail(fmt::format(
        "{} nodes of {} NICs need {} ports, but the one switch of fabric {} has {}; use at most {} nodes", nodes,
        spec.nics, nodes * spec.nics, spec.name, spec.switches.radix, spec.switches.radix / spec.nics));
  }
  FabricWiring wiring;
  wiring.groups.push_back({.kind = VertexKind::leaf, .name = "switch"});
  wiring.leaf_of_nic.assign(static_cast<std::size_t>(nodes * spec.nics), 0);
  return wiring;
}

}  // namespace

constinit const FabricKind fabrics::single_switch{
    .name = "single_switch",
    .make = make_single_switch,
};

}  // namespace orrery::topology
