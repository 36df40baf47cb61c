// Reads a fabric: scenarios/fabrics/<fabric>.yaml or an inline mapping. Its keys are the rows of fabric_keys(). An
// example:
//
//   {kind: fat_tree, routing: adaptive, nics: 8, nic_rate: 400 Gb/s, efficiency: 0.95, nic_latency: 2.4 us,
//    switch_latency: 0.45 us, rail: true, radix: 64, unit_nodes: 32, uplink_rate: 400 Gb/s, provenance: ...}
#include <algorithm>
#include <map>
#include <set>

#include "topology/cluster.h"
#include "topology/wiring.h"

namespace orrery::topology {

namespace {

constexpr std::int64_t kMost = 1'000'000;
// From Ethernet of 1 Gb/s to a hundred times the fastest ports that have been announced (1.6 Tb/s).
constexpr sim::Bounds kLinkRate{"1 Gb/s", "100 Tb/s"};

const std::vector<std::string>& routing_names() {
  static const std::vector<std::string> kNames{"adaptive", "ecmp", "d_mod_k", "spray"};  // as in Routing
  return kNames;
}

struct Row {
  sim::Key doc;
  std::vector<FabricSpec::Kind> kinds;  // where the key has a meaning; empty: everywhere
};

std::vector<std::string> generator_names() {
  std::vector<std::string> names;
  for (const FabricGenerator& g : fabric_generators()) names.push_back(g.name);
  return names;
}

const std::vector<Row>& rows() {
  using enum FabricSpec::Kind;
  static const std::vector<FabricSpec::Kind> kNet = {single_switch, fat_tree, rail_only, dragonfly, torus, graph};
  static const std::vector<FabricSpec::Kind> kTrees = {fat_tree, rail_only};
  static const std::vector<FabricSpec::Kind> kRouted = {single_switch, fat_tree, rail_only, torus, graph};
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
      {{"nics", "integer", "NICs", "8", {}, "NICs of a node.", {"1", "1024"}}, kNet},
      {{"nic_rate",
        "quantity",
        "bytes/s",
        "",
        {},
        "Line rate of a NIC per direction; or a mapping from device family to rate.",
        kLinkRate},
       kNet},
      {{"nic_rate.*",
        "quantity",
        "bytes/s",
        "-",
        {},
        "Of the devices whose name begins with this family's.",
        kLinkRate},
       kNet},
      {{"efficiency",
        "number",
        "",
        "1",
        {},
        "Share of the line rate that a saturating transfer's payload reaches, above 0, at most 1.",
        {"0.01", "1"}},
       kNet},
      {{"nic_latency",
        "quantity",
        "s",
        "2.4 us",
        {},
        "Send and receive side of one message together, without switches.",
        {"0 s", "100 ms"}},
       kNet},
      {{"switch_latency", "quantity", "s", "0.45 us", {}, "Each switch on the way, with its cable.", {"0 s", "100 ms"}},
       kNet},
      {{"radix",
        "integer",
        "ports",
        "64",
        {},
        "Ports of a switch at uplink_rate; of the one switch 1000000 where it is left out.",
        {"2", "1000000"}},
       kNet},
      {{"routing", "choice", "", "adaptive", routing_names(),
        "adaptive: over all shortest paths as they have room; spray: packets dealt evenly at every switch; ecmp: flows "
        "hashed onto paths; d_mod_k: the destination's number chooses."},
       kRouted},
      {{"ecmp_seed",
        "integer",
        "",
        "-",
        {},
        "Seed of the hash: each flow gets one path. Left out: the expectation over seeds (torus and graph need one).",
        {"0", ""}},
       kRouted},
      {{"flows_per_nic",
        "integer",
        "flows",
        "1",
        {},
        "Flows (queue pairs) that a NIC's traffic is hashed as, in the expectation.",
        {"1", "1024"}},
       kRouted},
      {{"sharp",
        "boolean",
        "",
        "false",
        {},
        "Whether the switches can add up what passes through them (SHARP); collectives that need it ask for it."},
       kNet},
      {{"nvlink_domain",
        "integer",
        "GPUs",
        "those of a node",
        {},
        "GPUs that NVLink joins across nodes, a multiple of a node's; nics stays that of a node.",
        {"1", "1000000"}},
       {}},
      {{"rail",
        "boolean",
        "",
        "true",
        {},
        "true: NIC i of every node of a unit goes to leaf i; false: all NICs of the unit to one leaf."},
       {fat_tree}},
      {{"unit_nodes", "integer", "nodes", "32", {}, "Nodes under one set of leaves.", {"1", "1000000"}}, kTrees},
      {{"uplink_rate",
        "quantity",
        "bytes/s",
        "-",
        {},
        "Line rate of a link between switches; as nic_rate where it is left out; or a mapping, as nic_rate.",
        kLinkRate},
       {fat_tree, rail_only, torus}},
      {{"uplink_rate.*",
        "quantity",
        "bytes/s",
        "-",
        {},
        "Of the devices whose name begins with this family's.",
        kLinkRate},
       {fat_tree, rail_only, torus}},
      {{"oversubscription",
        "number",
        "",
        "1",
        {},
        "Capacity of a leaf's downlinks over that of its uplinks.",
        {"0.01", "100"}},
       kTrees},
      {{"spine_radix",
        "integer",
        "ports",
        "-",
        {},
        "Ports of a spine or core switch; as radix where it is left out.",
        {"2", "1000000"}},
       kTrees},
      {{"core_oversubscription",
        "number",
        "",
        "1",
        {},
        "Capacity of a spine's downlinks over that of its uplinks, where there are three tiers.",
        {"0.01", "100"}},
       kTrees},
      {{"pod_leaves",
        "integer",
        "leaves",
        "-",
        {},
        "Leaves that one set of spines joins; as many as its ports allow where it is left out.",
        {"1", "1000000"}},
       kTrees},
      {{"spine_groups",
        "choice",
        "",
        "unit",
        {"unit", "rail"},
        "Which leaves share a set of spines when there are three tiers: those of neighbouring units, or of one rail."},
       {fat_tree}},
      {{"groups", "integer", "groups", "", {}, "Groups of the whole machine.", {"1", "10000"}}, {dragonfly}},
      {{"switches_per_group",
        "integer",
        "switches",
        "",
        {},
        "Switches of a group, all joined to each other.",
        {"1", "10000"}},
       {dragonfly}},
      {{"nodes_per_switch",
        "integer",
        "nodes",
        "1",
        {},
        "Nodes on a switch, with all their NICs; a dragonfly says how many.",
        {"1", "10000"}},
       {dragonfly, torus}},
      {{"dimensions",
        "list",
        "switches",
        "",
        {},
        "Switches along each dimension of the torus, at most 6 of them.",
        {"1", "1000000"}},
       {torus}},
      {{"links",
        "list",
        "",
        "",
        {},
        "Links between switches, each {ends: [name, name], lanes: 1, rate: of one lane; nic_rate where left out}."},
       {graph}},
      {{"links[].ends", "list", "", "", {}, "The names of the two switches."}, {graph}},
      {{"links[].lanes", "integer", "links", "1", {}, "Parallel links.", {"1", "100000"}}, {graph}},
      {{"links[].rate",
        "quantity",
        "bytes/s",
        "-",
        {},
        "Line rate of one lane; nic_rate where it is left out.",
        kLinkRate},
       {graph}},
      {{"attach",
        "list",
        "",
        "",
        {},
        "For every node the switch that its NICs hang on, or a list of switches that they take in turn."},
       {graph}},
      {{"local_rate",
        "quantity",
        "bytes/s",
        "-",
        {},
        "Line rate of a link inside a group; as nic_rate where it is left out.",
        kLinkRate},
       {dragonfly}},
      {{"global_rate",
        "quantity",
        "bytes/s",
        "-",
        {},
        "Line rate of a link between groups; as nic_rate where it is left out.",
        kLinkRate},
       {dragonfly}},
      {{"local_links",
        "integer",
        "links",
        "1",
        {},
        "Links between each two switches of a group; in a torus each two neighbours.",
        {"1", "10000"}},
       {dragonfly, torus}},
      {{"global_links", "integer", "links", "1", {}, "Links between each two groups.", {"1", "10000"}}, {dragonfly}},
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
  spec.tree.rail = spec.kind == FabricSpec::Kind::rail_only || fabric.get_bool("rail", true);
  spec.tree.unit_nodes = fabric.get_int("unit_nodes", 32);
  const Settings* uplink = fabric.find("uplink_rate");
  spec.switches.uplink_rate = uplink != nullptr ? read_rate(*uplink, device) : spec.nic_rate;
  spec.tree.oversubscription = fabric.get_number("oversubscription", 1.0);
  spec.tree.spine_radix = fabric.get_int("spine_radix", 0);
  spec.tree.core_oversubscription = fabric.get_number("core_oversubscription", 1.0);
  spec.tree.pod_leaves = fabric.get_int("pod_leaves", 0);
  const bool by_rail = fabric.get_choice("spine_groups", "unit", {"unit", "rail"}) == "rail";
  spec.tree.spine_groups = by_rail ? FabricSpec::SpineGroups::rail : FabricSpec::SpineGroups::unit;
  if (by_rail && !spec.tree.rail)
    fabric.at("spine_groups").fail("rail has no meaning without rails; use rail: true or unit");
}

void read_torus(const Settings& fabric, std::string_view device, FabricSpec& spec) {
  constexpr std::size_t kMostDimensions = 6;
  const Settings& list = fabric.at("dimensions");
  if (!list.is_sequence() || list.items().empty() || list.items().size() > kMostDimensions)
    list.fail(fmt::format("expected a list of 1 to {} numbers of switches, as in [8, 8, 8]", kMostDimensions));
  std::int64_t switches = 1;
  for (const Settings& item : list.items()) {
    spec.torus.dimensions.push_back(item.as_int());
    switches *= spec.torus.dimensions.back();
    if (switches > kMost) list.fail(fmt::format("makes more than {} switches", kMost));
  }
  spec.dragonfly.nodes_per_switch = fabric.get_int("nodes_per_switch", 1);
  spec.dragonfly.local_links = fabric.get_int("local_links", 1);
  const Settings* link = fabric.find("uplink_rate");
  spec.switches.uplink_rate = link != nullptr ? read_rate(*link, device) : spec.nic_rate;
}

/// The number of a switch, as links named it; -1 for one that none did.
std::int64_t switch_named(const FabricSpec& spec, const std::map<std::string, std::uint32_t>& known,
                          const Settings& name) {
  const auto it = known.find(name.text());
  if (name.is_scalar() && it != known.end()) return it->second;
  const std::string near = sim::nearest_word(name.text(), spec.graph.switch_names);
  name.fail(fmt::format("read '{}', which no link joins to anything; {} would be right", name.text(),
                        near.empty() ? "a switch of links, such as " + spec.graph.switch_names.front() : near));
}

void read_graph(const Settings& fabric, FabricSpec& spec) {
  std::map<std::string, std::uint32_t> known;
  const auto number_of = [&](const Settings& name) {
    if (!name.is_scalar() || name.text().empty()) name.fail("expected the name of a switch");
    const auto [it, added] = known.emplace(name.text(), static_cast<std::uint32_t>(spec.graph.switch_names.size()));
    if (added) spec.graph.switch_names.push_back(name.text());
    return it->second;
  };
  const Settings& links = fabric.at("links");
  if (!links.is_sequence() || links.items().empty()) links.fail("expected a list of {ends: [a, b], rate: ...}");
  std::set<std::pair<std::uint32_t, std::uint32_t>> taken;
  for (const Settings& item : links.items()) {
    const Settings& ends = item.at("ends");
    if (!ends.is_sequence() || ends.items().size() != 2) ends.fail("expected two switches, as in [s0, s1]");
    const std::uint32_t a = number_of(ends.items()[0]), b = number_of(ends.items()[1]);
    if (a == b)
      ends.fail(fmt::format("joins {} to itself; expected two different switches", spec.graph.switch_names[a]));
    if (!taken.insert(std::minmax(a, b)).second) {
      ends.fail(fmt::format("{} and {} are joined twice; name each pair once, with lanes", spec.graph.switch_names[a],
                            spec.graph.switch_names[b]));
    }
    spec.graph.edges.push_back(
        {a, b, static_cast<std::int32_t>(item.get_int("lanes", 1)), item.get_bandwidth("rate", spec.nic_rate)});
  }
  const Settings& attach = fabric.at("attach");
  if (!attach.is_sequence() || attach.items().empty()) attach.fail("expected a list with the switch of every node");
  for (const Settings& item : attach.items()) {
    std::vector<std::uint32_t> switches;
    if (!item.is_sequence()) {
      switches.push_back(static_cast<std::uint32_t>(switch_named(spec, known, item)));
    } else {
      if (item.items().empty() || static_cast<std::int64_t>(item.items().size()) > spec.nics)
        item.fail(fmt::format("expected 1 to {} switches, one per NIC at most", spec.nics));
      for (const Settings& name : item.items())
        switches.push_back(static_cast<std::uint32_t>(switch_named(spec, known, name)));
    }
    spec.graph.attach.push_back(std::move(switches));
  }
}

void read_dragonfly(const Settings& fabric, FabricSpec& spec) {
  spec.dragonfly.groups = fabric.at("groups").as_int();
  spec.dragonfly.switches_per_group = fabric.at("switches_per_group").as_int();
  spec.dragonfly.nodes_per_switch = fabric.at("nodes_per_switch").as_int();
  spec.dragonfly.local_rate = fabric.get_bandwidth("local_rate", spec.nic_rate);
  spec.dragonfly.global_rate = fabric.get_bandwidth("global_rate", spec.nic_rate);
  spec.dragonfly.local_links = fabric.get_int("local_links", 1);
  spec.dragonfly.global_links = fabric.get_int("global_links", 1);
}

}  // namespace

const sim::KeyTable& fabric_keys() {
  static const sim::KeyTable kKeys = [] {
    std::vector<sim::Key> keys;
    for (const Row& row : rows()) keys.push_back(row.doc);
    return sim::KeyTable(std::move(keys));
  }();
  return kKeys;
}

FabricSpec load_fabric_spec(const Settings& fabric, std::string_view device) {
  fabric_keys().check(fabric);
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
  spec.nvlink_domain = fabric.get_int("nvlink_domain", 0);
  if (spec.kind == FabricSpec::Kind::none) return spec;

  spec.nics = fabric.get_int("nics", 8);
  spec.nic_rate = read_rate(fabric.at("nic_rate"), device);
  spec.switches.uplink_rate = spec.nic_rate;
  spec.efficiency = fabric.get_number("efficiency", 1.0);
  spec.nic_latency = fabric.get_duration("nic_latency", sim::microseconds(2.4));
  spec.switches.latency = fabric.get_duration("switch_latency", sim::microseconds(0.45));
  spec.switches.radix = fabric.get_int("radix", spec.kind == FabricSpec::Kind::single_switch ? kMost : 64);
  const std::string routing = fabric.get_choice("routing", "adaptive", routing_names());
  spec.routes.policy = static_cast<FabricSpec::Routing>(
      std::find(routing_names().begin(), routing_names().end(), routing) - routing_names().begin());
  spec.switches.sharp = fabric.get_bool("sharp", false);
  spec.routes.flows_per_nic = fabric.get_int("flows_per_nic", 1);
  if (const Settings* seed = fabric.find("ecmp_seed")) {
    if (spec.routes.policy != FabricSpec::Routing::ecmp)
      seed->fail(fmt::format("has no meaning with routing {}; use routing: ecmp or leave it out", routing));
    spec.routes.ecmp_seed = static_cast<std::uint64_t>(seed->as_int());
  }
  const bool tree = spec.kind == FabricSpec::Kind::fat_tree || spec.kind == FabricSpec::Kind::rail_only;
  const bool mesh = spec.kind == FabricSpec::Kind::torus || spec.kind == FabricSpec::Kind::graph;
  if (mesh && spec.routes.policy == FabricSpec::Routing::ecmp && !spec.routes.ecmp_seed) {
    fabric.at("routing").fail(
        fmt::format("ecmp on a fabric of kind {} needs an ecmp_seed; give one, or use adaptive, "
                    "spray or d_mod_k",
                    kind));
  }
  if (tree) read_fat_tree(fabric, device, spec);
  if (spec.kind == FabricSpec::Kind::torus) read_torus(fabric, device, spec);
  if (spec.kind == FabricSpec::Kind::graph) read_graph(fabric, spec);
  if (spec.kind == FabricSpec::Kind::dragonfly) read_dragonfly(fabric, spec);
  return spec;
}

}  // namespace orrery::topology
