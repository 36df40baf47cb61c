// Dragonfly (Kim, Dally, Scott, Abts, ISCA 2008): switches in groups, every two switches of a group and every two
// groups joined by direct links; adaptive routing takes the direct way or, where that is full, a detour over a third
// party.
//
// Contracted, a complete graph acts as an exchange to which every member brings all its links: a switch its local
// links, a group its global links. When the job's nodes fill g of the machine's G groups and talk to each other evenly,
// only the share (g - 1) / (G - 1) of a group's global links leads where the traffic goes; the rest of the traffic
// takes two global links (Valiant), so an average byte crosses 2 - (g - 1) / (G - 1) of them, and the exchange's
// capacity is divided by that. Between groups the latency is that of the longest direct way: two switches in each
// group.
//
// Left out: other jobs on the same global links, the choice of detours packet by packet, local detours; the NICs of a
// node share one switch.
#include <array>
#include <cmath>

#include "sim/key_rows.h"
#include "topology/fabrics.h"

namespace orrery::topology {

namespace {

constexpr std::array<std::string_view, 2> kDragonflyShares{"nodes_per_switch", "local_links"};

std::vector<sim::Key> dragonfly_keys() {
  return {
      sim::key_row("groups", "integer", "groups", "", {}, "Groups of the whole machine.", {"1", "10000"}),
      sim::key_row("switches_per_group", "integer", "switches", "", {},
                   "Switches of a group, all joined to each other.", {"1", "10000"}),
      sim::key_row("local_rate", "quantity", "bytes/s", "-", {},
                   "Line rate of a link inside a group; as nic_rate where it is left out.", kLinkRate),
      sim::key_row("global_rate", "quantity", "bytes/s", "-", {},
                   "Line rate of a link between groups; as nic_rate where it is left out.", kLinkRate),
      sim::key_row("global_links", "integer", "links", "1", {}, "Links between each two groups.", {"1", "10000"}),
  };
}

void read_dragonfly(const Settings& fabric, std::string_view, FabricSpec& spec) {
  spec.dragonfly.groups = fabric.at("groups").as_int();
  spec.dragonfly.switches_per_group = fabric.at("switches_per_group").as_int();
  spec.dragonfly.nodes_per_switch = fabric.at("nodes_per_switch").as_int();
  spec.dragonfly.local_rate = fabric.get_bandwidth("local_rate", spec.nic_rate);
  spec.dragonfly.global_rate = fabric.get_bandwidth("global_rate", spec.nic_rate);
  spec.dragonfly.local_links = fabric.get_int("local_links", 1);
  spec.dragonfly.global_links = fabric.get_int("global_links", 1);
}

FabricWiring make_dragonfly(const FabricSpec& spec, std::int64_t nodes, const Settings& where) {
  const std::int64_t switches = spec.dragonfly.switches_per_group;
  const std::int64_t per_group = switches * spec.dragonfly.nodes_per_switch;
  if (nodes > spec.dragonfly.groups * per_group) {
    where.fail(fmt::format("{} nodes are too many for fabric {}: {} groups of {} switches hold {} nodes", nodes,
                           spec.name, spec.dragonfly.groups, switches, spec.dragonfly.groups * per_group));
  }
  const std::int64_t global_lanes = (spec.dragonfly.groups - 1) * spec.dragonfly.global_links;
  const std::int64_t ports = spec.dragonfly.nodes_per_switch * spec.nics + (switches - 1) * spec.dragonfly.local_links +
                             (global_lanes + switches - 1) / switches;
  if (ports > spec.switches.radix) {
    where.fail(fmt::format(
        "a switch of fabric {} needs {} ports, but has {}; use fewer nodes_per_switch, local_links or global_links",
        spec.name, ports, spec.switches.radix));
  }
  const auto int32 = [](std::int64_t n) { return static_cast<std::int32_t>(n); };
  const std::int64_t used = (nodes + per_group - 1) / per_group;
  FabricWiring wiring;
  for (std::int64_t s = 0; s < used * switches; ++s) {
    wiring.groups.push_back(
        {.kind = VertexKind::leaf, .name = fmt::format("switch g{} s{}", s / switches, s % switches)});
  }
  for (std::int64_t node = 0; node < nodes; ++node) {
    for (std::int64_t i = 0; i < spec.nics; ++i) {
      wiring.leaf_of_nic.push_back(static_cast<std::uint32_t>(node / spec.dragonfly.nodes_per_switch));
    }
  }
  const auto join = [&](std::int64_t low, std::int64_t high, std::int64_t lanes, Bandwidth rate, Tier tier,
                        double detour) {
    const auto l = static_cast<std::uint32_t>(low);
    wiring.groups[l].parent = static_cast<std::uint32_t>(high);
    wiring.groups[l].up = static_cast<std::uint32_t>(wiring.bundles.size());
    wiring.bundles.push_back({l, static_cast<std::uint32_t>(high), int32(lanes), rate, tier, 1, 0, detour});
  };
  if (switches == 1 && used == 1) return wiring;
  const std::int64_t first_group = used * switches;
  for (std::int64_t g = 0; g < used; ++g) {
    // Turning around in a group crosses no switch but the two at the ends; passing through, the one with the global
    // link.
    wiring.groups.push_back({.kind = VertexKind::group,
                             .apex_switches = 0,
                             .transit_switches = switches > 1 ? 1 : 0,
                             .mesh_links = int32(spec.dragonfly.local_links),
                             .name = fmt::format("group g{}", g)});
    for (std::int64_t s = 0; s < switches; ++s) {
      // One switch alone has no local links; its group is itself.
      const std::int64_t lanes = switches > 1 ? (switches - 1) * spec.dragonfly.local_links : global_lanes;
      join(g * switches + s, first_group + g, lanes,
           switches > 1 ? spec.dragonfly.local_rate : spec.dragonfly.global_rate, Tier::spine, 1.0);
    }
  }
  if (used == 1) return wiring;
  const double direct = static_cast<double>(used - 1) / static_cast<double>(spec.dragonfly.groups - 1);
  wiring.groups.push_back({.kind = VertexKind::global,
                           .apex_switches = 0,
                           .transit_switches = 0,
                           .mesh_links = int32(spec.dragonfly.global_links),
                           .name = "global"});
  for (std::int64_t g = 0; g < used; ++g) {
    join(first_group + g, first_group + used, global_lanes, spec.dragonfly.global_rate, Tier::global, 2.0 - direct);
  }
  return wiring;
}

}  // namespace

constinit const FabricKind fabrics::dragonfly{
    .name = "dragonfly",
    .make = make_dragonfly,
    .shares = kDragonflyShares,
    .keys = dragonfly_keys,
    .read = read_dragonfly,
    .routed = false,
};

}  // namespace orrery::topology
