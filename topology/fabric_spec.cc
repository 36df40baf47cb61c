// Reads a fabric: scenarios/fabrics/<fabric>.yaml or an inline mapping. Its keys are the rows of fabric_keys(). An
// example:
//
//   {kind: fat_tree, routing: adaptive, nics: 8, nic_rate: 400 Gb/s, efficiency: 0.95, nic_latency: 2.4 us,
//    switch_latency: 0.45 us, rail: true, radix: 64, unit_nodes: 32, uplink_rate: 400 Gb/s, provenance: ...}
#include <algorithm>

#include "sim/key_rows.h"
#include "topology/cluster.h"
#include "topology/fabrics.h"

namespace orrery::topology {

namespace {

constexpr std::int64_t kMost = 1'000'000;
/// No fleet's GPUs are equally fast, so one of which nothing is known differs as those that were fitted (ndr-rail).
constexpr double kFleetSpread = 0.011;

const std::vector<std::string>& routing_names() {
  static const std::vector<std::string> kNames{"adaptive", "ecmp", "d_mod_k", "spray"};  // as in Routing
  return kNames;
}

/// Where a key has a meaning.
enum class Where : std::uint8_t { everywhere, networked, routed, shared };  // shared: with the kinds that name it

struct Row {
  sim::Key doc;
  Where where;
};

std::vector<std::string> kind_names() {
  std::vector<std::string> names;
  for (const FabricKind* kind : kFabricKinds) names.emplace_back(kind->name);
  return names;
}

/// The keys that more than one kind has.
const std::vector<Row>& rows() {
  static const std::vector<Row> kRows = {
      {sim::key_row("kind", "choice", "", "", kind_names(), "Shape of the network between nodes."), Where::everywhere},
      {sim::key_row("name", "text", "", "-", {},
                    "Name of the fabric, for reports; a file's name where it is left out."),
       Where::everywhere},
      {sim::key_row("description", "text", "", "-", {}, "Free text."), Where::everywhere},
      {sim::key_row("provenance", "text", "", "-", {},
                    "Where the facts come from, and the reasons for the values that no source gives."),
       Where::everywhere},
      {sim::key_row("nics", "integer", "NICs", "8", {}, "NICs of a node.", {"1", "1024"}), Where::networked},
      {sim::key_row("nic_rate", "quantity", "bytes/s", "", {},
                    "Line rate of a NIC per direction; or a mapping from device family to rate.", kLinkRate),
       Where::networked},
      {sim::key_row("nic_rate.*", "quantity", "bytes/s", "-", {},
                    "Of the devices whose name begins with this family's.", kLinkRate),
       Where::networked},
      {sim::key_row("efficiency", "number", "", "1", {},
                    "Share of the line rate that a saturating transfer's payload reaches, above 0, at most 1.",
                    {"0.01", "1"}),
       Where::networked},
      {sim::key_row("nic_latency", "quantity", "s", "2.4 us", {},
                    "Send and receive side of one message together, without switches.", {"0 s", "100 ms"}),
       Where::networked},
      {sim::key_row("message_gap", "quantity", "s", "0 s", {},
                    "Time beyond that of its bytes from one message of a ring between nodes to the next (the gap of "
                    "LogP): what the transport spends on each.",
                    {"0 s", "100 ms"}),
       Where::networked},
      {sim::key_row("switch_latency", "quantity", "s", "0.45 us", {}, "Each switch on the way, with its cable.",
                    {"0 s", "100 ms"}),
       Where::networked},
      {sim::key_row("radix", "integer", "ports", "64", {},
                    "Ports of a switch at uplink_rate; of the one switch 1000000 where it is left out.",
                    {"2", "1000000"}),
       Where::networked},
      {sim::key_row("routing", "choice", "", "adaptive", routing_names(),
                    "adaptive: over all shortest paths as they have room; spray: packets dealt evenly at every switch; "
                    "ecmp: flows hashed onto paths; d_mod_k: the destination's number chooses."),
       Where::routed},
      {sim::key_row("ecmp_seed", "integer", "", "-", {},
                    "Seed of the hash: each flow gets one path. Left out: the expectation over seeds (torus and graph "
                    "need one).",
                    {"0", ""}),
       Where::routed},
      {sim::key_row("flows_per_nic", "integer", "flows", "1", {},
                    "Flows (queue pairs) that a NIC's traffic is hashed as, in equal shares; with a seed 32 at most "
                    "are told apart.",
                    {"1", "1024"}),
       Where::routed},
      {sim::key_row(
           "sharp", "boolean", "", "false", {},
           "Whether the switches can add up what passes through them (SHARP); collectives that need it ask for it."),
       Where::networked},
      {sim::key_row("nvlink_domain", "integer", "GPUs", "those of a node", {},
                    "GPUs that NVLink joins across nodes, a multiple of a node's; nics stays that of a node.",
                    {"1", "1000000"}),
       Where::everywhere},
      {sim::key_row("gpu_spread", "number", "", "0.011", {},
                    "Of the cluster's fleet: standard deviation of what a kernel takes from GPU to GPU, over its mean. "
                    "Ranks that wait for each other go at the pace of the slowest.",
                    {"0", "0.2"}),
       Where::everywhere},
      {sim::key_row("switch_price", "number", "USD", "-", {},
                    "What a switch costs; with link_price, topology adds the network up. No prediction rests on it.",
                    {"0", "1e9"}),
       Where::networked},
      {sim::key_row("link_price", "number", "USD", "-", {},
                    "What a link costs: a cable with what is plugged in at both its ends.", {"0", "1e9"}),
       Where::networked},
      {sim::key_row(
           "switch_power", "quantity", "W", "-", {},
           "What a switch draws; with link_power, topology adds the network up. A step's power counts its NICs alone.",
           {"0 W", "1 MW"}),
       Where::networked},
      {sim::key_row("link_power", "quantity", "W", "-", {}, "What the transceivers at both ends of a link draw.",
                    {"0 W", "1 MW"}),
       Where::networked},
      {sim::key_row("unit_nodes", "integer", "nodes", "32", {}, "Nodes under one set of leaves.", {"1", "1000000"}),
       Where::shared},
      {sim::key_row(
           "uplink_rate", "quantity", "bytes/s", "-", {},
           "Line rate of a link between switches; as nic_rate where it is left out; or a mapping, as nic_rate.",
           kLinkRate),
       Where::shared},
      {sim::key_row("uplink_rate.*", "quantity", "bytes/s", "-", {},
                    "Of the devices whose name begins with this family's.", kLinkRate),
       Where::shared},
      {sim::key_row("oversubscription", "number", "", "1", {},
                    "Capacity of a leaf's downlinks over that of its uplinks.", {"0.01", "100"}),
       Where::shared},
      {sim::key_row("spine_radix", "integer", "ports", "-", {},
                    "Ports of a spine or core switch; as radix where it is left out.", {"2", "1000000"}),
       Where::shared},
      {sim::key_row("core_oversubscription", "number", "", "1", {},
                    "Capacity of a spine's downlinks over that of its uplinks, where there are three tiers.",
                    {"0.01", "100"}),
       Where::shared},
      {sim::key_row("pod_leaves", "integer", "leaves", "-", {},
                    "Leaves that one set of spines joins; as many as its ports allow where it is left out.",
                    {"1", "1000000"}),
       Where::shared},
      {sim::key_row("nodes_per_switch", "integer", "nodes", "1", {},
                    "Nodes on a switch, with all their NICs; a dragonfly says how many.", {"1", "10000"}),
       Where::shared},
      {sim::key_row("local_links", "integer", "links", "1", {},
                    "Links between each two switches of a group; elsewhere each two neighbours.", {"1", "10000"}),
       Where::shared},
  };
  return kRows;
}

std::vector<sim::Key> keys_of(const FabricKind& kind) {
  return kind.keys == nullptr ? std::vector<sim::Key>{} : kind.keys();
}

bool has_meaning(const Row& row, const FabricKind& kind) {
  if (row.where == Where::networked) return kind.networked;
  if (row.where == Where::routed) return kind.routed;
  if (row.where == Where::everywhere) return true;
  const std::string_view key = std::string_view(row.doc.path).substr(0, row.doc.path.find('.'));
  return std::find(kind.shares.begin(), kind.shares.end(), key) != kind.shares.end();
}

/// Refuses keys that belong to other kinds.
void check_meant(const Settings& fabric, const FabricKind& kind) {
  const auto refuse = [&](const std::string& key) {
    if (const Settings* value = fabric.find(key))
      value->fail(fmt::format("has no meaning for a fabric of kind {}; leave it out", kind.name));
  };
  for (const Row& row : rows()) {
    if (!has_meaning(row, kind)) refuse(row.doc.path);
  }
  for (const FabricKind* other : kFabricKinds) {
    if (other == &kind) continue;
    for (const sim::Key& key : keys_of(*other)) refuse(key.path);
  }
}

}  // namespace

const sim::KeyTable& fabric_keys() {
  static const sim::KeyTable kKeys = [] {
    std::vector<sim::Key> keys;
    for (const Row& row : rows()) keys.push_back(row.doc);
    for (const FabricKind* kind : kFabricKinds) {
      for (sim::Key& key : keys_of(*kind)) keys.push_back(std::move(key));
    }
    return sim::KeyTable(std::move(keys));
  }();
  return kKeys;
}

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

Bandwidth read_link_rate(const Settings& fabric, std::string_view key, std::string_view device,
                         const FabricSpec& spec) {
  const Settings* rate = fabric.find(key);
  return rate != nullptr ? read_rate(*rate, device) : spec.nic_rate;
}

FabricSpec load_fabric_spec(const Settings& fabric, std::string_view device) {
  fabric_keys().check(fabric);
  const std::string kind = fabric.at("kind").as_choice(kind_names());
  FabricSpec spec;
  spec.kind = *std::find_if(kFabricKinds.begin(), kFabricKinds.end(), [&](const auto* k) { return k->name == kind; });
  check_meant(fabric, *spec.kind);
  spec.name = fabric.get_text("name", "");
  spec.provenance = fabric.get_text("provenance", "");
  spec.gpus.nvlink_domain = fabric.get_int("nvlink_domain", 0);
  spec.gpus.spread = fabric.get_number("gpu_spread", kFleetSpread);
  if (!spec.kind->networked) return spec;

  spec.nics = fabric.get_int("nics", 8);
  spec.nic_rate = read_rate(fabric.at("nic_rate"), device);
  spec.switches.uplink_rate = spec.nic_rate;
  spec.efficiency = fabric.get_number("efficiency", 1.0);
  spec.message.latency = fabric.get_duration("nic_latency", sim::microseconds(2.4));
  spec.message.gap = fabric.get_duration("message_gap", sim::Duration{});
  spec.switches.latency = fabric.get_duration("switch_latency", sim::microseconds(0.45));
  spec.switches.radix = fabric.get_int("radix", spec.kind == &fabrics::single_switch ? kMost : 64);
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
  if (spec.kind->shortest_paths && spec.routes.policy == FabricSpec::Routing::ecmp && !spec.routes.ecmp_seed) {
    fabric.at("routing").fail(fmt::format(
        "ecmp on a fabric of kind {} needs an ecmp_seed; give one, or use adaptive, spray or d_mod_k", kind));
  }
  if (spec.kind->read != nullptr) spec.kind->read(fabric, device, spec);
  return spec;
}

}  // namespace orrery::topology
