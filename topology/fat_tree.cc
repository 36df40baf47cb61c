// Folded Clos networks of one, two or three tiers (Leiserson 1985; Al-Fares et al., SIGCOMM 2008), rail-optimised or
// not.
//
// A unit of nodes shares one set of leaves: with rails, NIC i of every node goes to leaf i of its unit; else all NICs
// of the unit go to its one leaf. A leaf's uplinks carry its downlinks' rate over the oversubscription. Two tiers are
// used while the ports of a spine reach all leaves; beyond that, pods of leaves share a set of spines, spine s of every
// pod joins core plane s. Ports of the leaf count at the uplink rate and may be split (a 400G port as two of 200G, as
// in MegaScale, NSDI 2024, section 3.6). The switch counts agree with NVIDIA's tables for DGX SuperPOD (RA-11333: 8
// units 64 leaves and 32 spines; 16 units 128, 128 and 64 core switches). Spine and core counts are the fewest that
// deal lanes out evenly.
//
// Left out: ports for storage, management and spare nodes; uneven pods (a part-filled pod keeps all its spines).
#include <algorithm>
#include <array>
#include <cmath>

#include "sim/key_rows.h"
#include "topology/fabrics.h"

namespace orrery::topology {

namespace {

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// The smallest divisor of `n` that is at least `low` (low <= n).
std::int64_t divisor_from(std::int64_t n, std::int64_t low) {
  for (std::int64_t d = std::max<std::int64_t>(low, 1); d < n; ++d) {
    if (n % d == 0) return d;
  }
  return n;
}

struct Shape {
  std::int64_t rails, units, leaves, down, ups;  // down and up lanes of a full leaf
  std::int64_t pods = 1, spines = 0;             // spines per pod; pods = 1 and no core: two tiers
  std::int64_t units_per_pod = 1;
  std::int64_t spine_ups = 0, cores_per_plane = 0;
};

void check_leaf_ports(const FabricSpec& spec, const Shape& s, const Settings& where) {
  const double split = spec.switches.uplink_rate.value() / spec.nic_rate.value();
  const std::int64_t down_ports =
      split >= 1 ? divide_up(s.down, static_cast<std::int64_t>(split + 1e-9))
                 : static_cast<std::int64_t>(std::ceil(static_cast<double>(s.down) / split - 1e-9));
  if (down_ports + s.ups > spec.switches.radix) {
    where.fail(
        fmt::format("a leaf of fabric {} needs {} ports down for {} NICs and {} up, but has {}; use fewer unit_nodes "
                    "or more oversubscription",
                    spec.name, down_ports, s.down, s.ups, spec.switches.radix));
  }
}

Shape shape_of(const FabricSpec& spec, std::int64_t nodes, const Settings& where) {
  const bool by_rail = spec.tree.spine_groups == FabricSpec::SpineGroups::rail && spec.tree.rail;
  Shape s{};
  s.rails = spec.tree.rail ? spec.nics : 1;
  s.units = divide_up(nodes, spec.tree.unit_nodes);
  s.leaves = s.units * s.rails;
  s.down = spec.tree.unit_nodes * spec.nics / s.rails;
  const double lanes_needed = static_cast<double>(s.down) * spec.nic_rate.value() /
                              (spec.tree.oversubscription * spec.switches.uplink_rate.value());
  s.ups = std::max<std::int64_t>(1, static_cast<std::int64_t>(std::ceil(lanes_needed - 1e-9)));
  check_leaf_ports(spec, s, where);
  s.pods = 1;
  if (s.leaves == 1) return s;

  const std::int64_t ports = spec.tree.spine_radix > 0 ? spec.tree.spine_radix : spec.switches.radix;
  const std::int64_t two_tiers = spec.tree.pod_leaves > 0 ? std::min(spec.tree.pod_leaves, ports) : ports;
  if (s.leaves <= two_tiers) {
    s.units_per_pod = s.units;
    s.spines = divisor_from(s.ups, divide_up(s.leaves * s.ups, ports));
    return s;
  }
  const double share = spec.tree.core_oversubscription / (1 + spec.tree.core_oversubscription);
  const auto spine_down = static_cast<std::int64_t>(static_cast<double>(ports) * share + 1e-9);
  const std::int64_t pod_leaves = std::min(spec.tree.pod_leaves > 0 ? spec.tree.pod_leaves : spine_down, spine_down);
  s.units_per_pod = by_rail ? pod_leaves : pod_leaves / s.rails;
  if (s.units_per_pod < 1) {
    where.fail(
        fmt::format("the {} rails of a unit of fabric {} do not fit under one set of spines, which takes {} leaves; "
                    "use spine_groups: rail or a larger spine_radix",
                    s.rails, spec.name, pod_leaves));
  }
  s.pods = divide_up(s.units, s.units_per_pod) * (by_rail ? s.rails : 1);
  const std::int64_t full_pod = std::min(s.units_per_pod, s.units) * (by_rail ? 1 : s.rails);
  s.spines = divisor_from(s.ups, divide_up(full_pod * s.ups, spine_down));
  const double spine_lanes_down = static_cast<double>(full_pod * s.ups / s.spines);
  s.spine_ups = static_cast<std::int64_t>(std::ceil(spine_lanes_down / spec.tree.core_oversubscription - 1e-9));
  if (s.pods > ports) {
    const std::int64_t most_units = by_rail ? ports / s.rails * s.units_per_pod : ports * s.units_per_pod;
    where.fail(
        fmt::format("{} nodes are too many for fabric {}: three tiers of its switches hold {} nodes; use fewer GPUs or "
                    "a larger spine_radix",
                    nodes, spec.name, most_units * spec.tree.unit_nodes));
  }
  s.cores_per_plane = divisor_from(s.spine_ups, divide_up(s.pods * s.spine_ups, ports));
  return s;
}

}  // namespace

FabricWiring make_fat_tree(const FabricSpec& spec, std::int64_t nodes, const Settings& where) {
  const Shape s = shape_of(spec, nodes, where);
  const bool by_rail = spec.tree.spine_groups == FabricSpec::SpineGroups::rail && spec.tree.rail && s.spine_ups > 0;
  const auto int32 = [](std::int64_t n) { return static_cast<std::int32_t>(n); };
  FabricWiring wiring;
  for (std::int64_t u = 0; u < s.units; ++u) {
    for (std::int64_t r = 0; r < s.rails; ++r) {
      wiring.groups.push_back(
          {.kind = VertexKind::leaf,
           .name = spec.tree.rail ? fmt::format("leaf u{} r{}", u, r) : fmt::format("leaf u{}", u)});
    }
  }
  wiring.leaf_of_nic.reserve(static_cast<std::size_t>(nodes * spec.nics));
  for (std::int64_t node = 0; node < nodes; ++node) {
    for (std::int64_t i = 0; i < spec.nics; ++i) {
      wiring.leaf_of_nic.push_back(
          static_cast<std::uint32_t>(node / spec.tree.unit_nodes * s.rails + (spec.tree.rail ? i : 0)));
    }
  }
  if (s.spines == 0) return wiring;

  const auto first_spine = static_cast<std::uint32_t>(s.leaves);
  for (std::int64_t p = 0; p < s.pods; ++p) {
    wiring.groups.push_back({.kind = VertexKind::spine,
                             .members = int32(s.spines),
                             .name = s.pods > 1 ? fmt::format("spine p{}", p) : "spine"});
  }
  const auto join = [&](std::uint32_t low, std::uint32_t high, std::int64_t lanes, Tier tier, std::int64_t planes) {
    wiring.groups[low].parent = high;
    wiring.groups[low].up = static_cast<std::uint32_t>(wiring.bundles.size());
    wiring.bundles.push_back({low, high, int32(lanes), spec.switches.uplink_rate, tier, int32(planes)});
  };
  for (std::int64_t leaf = 0; leaf < s.leaves; ++leaf) {
    const std::int64_t block = leaf / s.rails / s.units_per_pod;
    const std::int64_t pod = by_rail ? block * s.rails + leaf % s.rails : block;
    join(static_cast<std::uint32_t>(leaf), first_spine + static_cast<std::uint32_t>(pod), s.ups, Tier::spine, 1);
  }
  if (s.spine_ups == 0) return wiring;
  const auto core = static_cast<std::uint32_t>(wiring.groups.size());
  wiring.groups.push_back({.kind = VertexKind::core, .members = int32(s.spines * s.cores_per_plane), .name = "core"});
  for (std::int64_t p = 0; p < s.pods; ++p) {
    join(first_spine + static_cast<std::uint32_t>(p), core, s.spines * s.spine_ups, Tier::core, s.spines);
  }
  return wiring;
}

namespace {

constexpr std::array<std::string_view, 6> kFatTreeShares{"unit_nodes",  "uplink_rate",           "oversubscription",
                                                         "spine_radix", "core_oversubscription", "pod_leaves"};

std::vector<sim::Key> fat_tree_keys() {
  return {
      sim::key_row("rail", "boolean", "", "true", {},
                   "true: NIC i of every node of a unit goes to leaf i; false: all NICs of the unit to one leaf."),
      sim::key_row("spine_groups", "choice", "", "unit", {"unit", "rail"},
                   "Which leaves share a set of spines when there are three tiers: those of neighbouring units, or of "
                   "one rail."),
  };
}

void read_tree(const Settings& fabric, std::string_view device, FabricSpec& spec) {
  spec.tree.rail = spec.kind == &fabrics::rail_only || fabric.get_bool("rail", true);
  spec.tree.unit_nodes = fabric.get_int("unit_nodes", 32);
  spec.switches.uplink_rate = read_link_rate(fabric, "uplink_rate", device, spec);
  spec.tree.oversubscription = fabric.get_number("oversubscription", 1.0);
  spec.tree.spine_radix = fabric.get_int("spine_radix", 0);
  spec.tree.core_oversubscription = fabric.get_number("core_oversubscription", 1.0);
  spec.tree.pod_leaves = fabric.get_int("pod_leaves", 0);
  const bool by_rail = fabric.get_choice("spine_groups", "unit", {"unit", "rail"}) == "rail";
  spec.tree.spine_groups = by_rail ? FabricSpec::SpineGroups::rail : FabricSpec::SpineGroups::unit;
  if (by_rail && !spec.tree.rail)
    fabric.at("spine_groups").fail("rail has no meaning without rails; use rail: true or unit");
}

}  // namespace

constinit const FabricKind fabrics::fat_tree{
    .name = "fat_tree",
    .make = make_fat_tree,
    .shares = kFatTreeShares,
    .keys = fat_tree_keys,
    .read = read_tree,
};

// Rails are trees too, whose keys are read alike (rail_only.cc).
constinit const FabricKind fabrics::rail_only{
    .name = "rail_only",
    .make = make_rail_only,
    .shares = kFatTreeShares,
    .read = read_tree,
};

}  // namespace orrery::topology
