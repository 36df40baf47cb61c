// Reads a fabric: scenarios/fabrics/<fabric>.yaml or an inline mapping. Its keys are the rows of fabric_keys(). An
// example:
//
//   {kind: fat_tree, routing: adaptive, nics: 8, nic_rate: 400 Gb/s, efficiency: 0.95, nic_latency: 2.4 us,
//    switch_latency: 0.45 us, rail: true, radix: 64, unit_nodes: 32, uplink_rate: 400 Gb/s, provenance: ...}
#include <algorithm>

#include "topology/cluster.h"
#include "topology/wiring.h"

namespace orrery::topology {

namespace {

constexpr std::int64_t kMost = 1'000'000;

struct Row {
  KeyDoc doc;
  std::vector<FabricSpec::Kind> kinds;  // where the key has a meaning; empty: everywhere
};

std::vector<std::string> generator_names() {
  std::vector<std::string> names;
  for (const FabricGenerator& g : fabric_generators()) names.push_back(g.name);
  return names;
}

const std::vector<Row>& rows() {
  using enum FabricSpec::Kind;
  static const std::vector<FabricSpec::Kind> kNet = {single_switch, fat_tree, dragonfly};
  static const std::vector<Row> kRows = {
      {{"kind", "choice", "", "", generator_names(), "Shape of the network between nodes."}, {}},
      {{"name", "text", "", "-", {}, "Name of the fabric, for reports; a file's name where it is left out."}, {}},
      {{"description", "text", "", "-", {}, "Free text."}, {}},
      {{"provenance",
        "text",
        "",
        "-",
        {},
        "Where the facts come from, and the reasons for the values that no source gives."},
       {}},
      {{"nics", "integer", "NICs", "8", {}, "NICs of a node."}, kNet},
      {{"nic_rate",
        "quantity",
        "bytes/s",
        "",
        {},
        "Line rate of a NIC per direction; or a mapping from device family to rate."},
       kNet},
      {{"efficiency",
        "number",
        "",
        "1",
        {},
        "Share of the line rate that a saturating transfer's payload reaches, above 0, at most 1."},
       kNet},
      {{"nic_latency",
        "quantity",
        "s",
        "2.4 us",
        {},
        "Send and receive side of one message together, without switches."},
       kNet},
      {{"switch_latency", "quantity", "s", "0.45 us", {}, "Each switch on the way, with its cable."}, kNet},
      {{"radix",
        "integer",
        "ports",
        "64",
        {},
        "Ports of a switch at uplink_rate; of the one switch 1000000 where it is left out."},
       kNet},
      {{"routing",
        "choice",
        "",
        "adaptive",
        {"adaptive", "ecmp"},
        "adaptive: traffic spreads evenly over the shortest paths; ecmp: flows are hashed onto them."},
       {single_switch, fat_tree}},
      {{"ecmp_seed",
        "integer",
        "",
        "-",
        {},
        "Seed of the hash: each flow gets one path. Left out: the expectation over seeds."},
       {single_switch, fat_tree}},
      {{"flows_per_nic",
        "integer",
        "flows",
        "1",
        {},
        "Flows (queue pairs) that a NIC's traffic is hashed as, in the expectation."},
       {single_switch, fat_tree}},
      {{"rail",
        "boolean",
        "",
        "true",
        {},
        "true: NIC i of every node of a unit goes to leaf i; false: all NICs of the unit to one leaf."},
       {fat_tree}},
      {{"unit_nodes", "integer", "nodes", "32", {}, "Nodes under one set of leaves."}, {fat_tree}},
      {{"uplink_rate",
        "quantity",
        "bytes/s",
        "-",
        {},
        "Line rate of a link between switches; as nic_rate where it is left out; or a mapping, as nic_rate."},
       {fat_tree}},
      {{"oversubscription", "number", "", "1", {}, "Capacity of a leaf's downlinks over that of its uplinks."},
       {fat_tree}},
      {{"spine_radix", "integer", "ports", "-", {}, "Ports of a spine or core switch; as radix where it is left out."},
       {fat_tree}},
      {{"core_oversubscription",
        "number",
        "",
        "1",
        {},
        "Capacity of a spine's downlinks over that of its uplinks, where there are three tiers."},
       {fat_tree}},
      {{"pod_leaves",
        "integer",
        "leaves",
        "-",
        {},
        "Leaves that one set of spines joins; as many as its ports allow where it is left out."},
       {fat_tree}},
      {{"spine_groups",
        "choice",
        "",
        "unit",
        {"unit", "rail"},
        "Which leaves share a set of spines when there are three tiers: those of neighbouring units, or of one rail."},
       {fat_tree}},
      {{"groups", "integer", "groups", "", {}, "Groups of the whole machine."}, {dragonfly}},
      {{"switches_per_group", "integer", "switches", "", {}, "Switches of a group, all joined to each other."},
       {dragonfly}},
      {{"nodes_per_switch", "integer", "nodes", "", {}, "Nodes on a switch, with all their NICs."}, {dragonfly}},
      {{"local_rate",
        "quantity",
        "bytes/s",
        "-",
        {},
        "Line rate of a link inside a group; as nic_rate where it is left out."},
       {dragonfly}},
      {{"global_rate",
        "quantity",
        "bytes/s",
        "-",
        {},
        "Line rate of a link between groups; as nic_rate where it is left out."},
       {dragonfly}},
      {{"local_links", "integer", "links", "1", {}, "Links between each two switches of a group."}, {dragonfly}},
      {{"global_links", "integer", "links", "1", {}, "Links between each two groups."}, {dragonfly}},
  };
  return kRows;
}

/// A rate, or the one that a mapping gives for the device's family.
Bandwidth read_rate(const Settings& value, std::string_view device) {
  if (!value.is_mapping()) return value.as_bandwidth();
  const Settings* best = nullptr;
  std::size_t best_length = 0;
  std::vector<std::string> families;
  for (const auto& [family, rate] : value.members()) {
    const Bandwidth checked = rate.as_bandwidth();  // every entry has to be right, also those not used
    SIM_CHECK(checked.value() > 0, "a rate of zero was let through");
    families.push_back(family);
    if (device.starts_with(family) && family.size() >= best_length && !family.empty()) {
      best = &rate;
      best_length = family.size();
    }
  }
  if (best == nullptr) {
    value.fail(fmt::format("gives rates for {}, but the device is {}; add its family or give one rate",
                           fmt::join(families, ", "), device.empty() ? "not known here" : device));
  }
  return best->as_bandwidth();
}

void read_fat_tree(const Settings& fabric, std::string_view device, FabricSpec& spec) {
  spec.rail = fabric.get_bool("rail", true);
  spec.unit_nodes = fabric.get_int("unit_nodes", 32, 1, kMost);
  const Settings* uplink = fabric.find("uplink_rate");
  spec.uplink_rate = uplink != nullptr ? read_rate(*uplink, device) : spec.nic_rate;
  spec.oversubscription = fabric.get_number("oversubscription", 1.0, 1e-3, 1e3);
  spec.spine_radix = fabric.get_int("spine_radix", 0, 2, kMost);
  spec.core_oversubscription = fabric.get_number("core_oversubscription", 1.0, 1e-3, 1e3);
  spec.pod_leaves = fabric.get_int("pod_leaves", 0, 1, kMost);
  const bool by_rail = fabric.get_choice("spine_groups", "unit", {"unit", "rail"}) == "rail";
  spec.spine_groups = by_rail ? FabricSpec::SpineGroups::rail : FabricSpec::SpineGroups::unit;
  if (by_rail && !spec.rail)
    fabric.at("spine_groups").fail("rail has no meaning without rails; use rail: true or unit");
}

void read_dragonfly(const Settings& fabric, FabricSpec& spec) {
  constexpr std::int64_t kMostGroups = 10'000;
  spec.groups = fabric.at("groups").as_int(1, kMostGroups);
  spec.switches_per_group = fabric.at("switches_per_group").as_int(1, kMostGroups);
  spec.nodes_per_switch = fabric.at("nodes_per_switch").as_int(1, kMostGroups);
  spec.local_rate = fabric.get_bandwidth("local_rate", spec.nic_rate);
  spec.global_rate = fabric.get_bandwidth("global_rate", spec.nic_rate);
  spec.local_links = fabric.get_int("local_links", 1, 1, kMostGroups);
  spec.global_links = fabric.get_int("global_links", 1, 1, kMostGroups);
}

}  // namespace

const std::vector<KeyDoc>& fabric_keys() {
  static const std::vector<KeyDoc> kKeys = [] {
    std::vector<KeyDoc> keys;
    for (const Row& row : rows()) keys.push_back(row.doc);
    return keys;
  }();
  return kKeys;
}

FabricSpec load_fabric_spec(const Settings& fabric, std::string_view device) {
  std::vector<std::string> known;
  for (const Row& row : rows()) known.push_back(row.doc.path);
  fabric.refuse_unknown(known);
  const std::string kind = fabric.at("kind").as_choice(generator_names());
  FabricSpec spec;
  for (const FabricGenerator& g : fabric_generators()) {
    if (g.name == kind) spec.kind = g.kind;
  }
  for (const Row& row : rows()) {
    const bool meant = row.kinds.empty() || std::find(row.kinds.begin(), row.kinds.end(), spec.kind) != row.kinds.end();
    const Settings* value = fabric.find(row.doc.path);
    if (!meant && value != nullptr)
      value->fail(fmt::format("has no meaning for a fabric of kind {}; leave it out", kind));
  }
  spec.name = fabric.get_text("name", "");
  spec.provenance = fabric.get_text("provenance", "");
  if (spec.kind == FabricSpec::Kind::none) return spec;

  constexpr std::int64_t kMostNics = 1024;
  spec.nics = fabric.get_int("nics", 8, 1, kMostNics);
  spec.nic_rate = read_rate(fabric.at("nic_rate"), device);
  spec.uplink_rate = spec.nic_rate;
  spec.efficiency = fabric.get_number("efficiency", 1.0, 1e-6, 1.0);
  spec.nic_latency = fabric.get_duration("nic_latency", sim::microseconds(2.4));
  spec.switch_latency = fabric.get_duration("switch_latency", sim::microseconds(0.45));
  spec.radix = fabric.get_int("radix", spec.kind == FabricSpec::Kind::single_switch ? kMost : 64, 2, kMost);
  if (fabric.get_choice("routing", "adaptive", {"adaptive", "ecmp"}) == "ecmp")
    spec.routing = FabricSpec::Routing::ecmp;
  spec.flows_per_nic = fabric.get_int("flows_per_nic", 1, 1, 1024);
  if (const Settings* seed = fabric.find("ecmp_seed")) {
    if (spec.routing != FabricSpec::Routing::ecmp)
      seed->fail("has no meaning with adaptive routing; use routing: ecmp or leave it out");
    spec.ecmp_seed = static_cast<std::uint64_t>(seed->as_int(0));
  }
  if (spec.kind == FabricSpec::Kind::fat_tree) read_fat_tree(fabric, device, spec);
  if (spec.kind == FabricSpec::Kind::dragonfly) read_dragonfly(fabric, spec);
  return spec;
}

}  // namespace orrery::topology
