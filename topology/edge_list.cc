// Any network that a list of links between named switches describes, and a list that says which switch each node's NICs
// hang on. Ports are not counted: whoever lists links has counted them.
#include <algorithm>
#include <map>
#include <set>

#include "sim/key_rows.h"
#include "topology/fabrics.h"

namespace orrery::topology {

namespace {

std::vector<sim::Key> edge_list_keys() {
  return {
      sim::key_row(
          "links", "list", "", "", {},
          "Links between switches, each {ends: [name, name], lanes: 1, rate: of one lane; nic_rate where left out}."),
      sim::key_row("links[].ends", "list", "", "", {}, "The names of the two switches."),
      sim::key_row("links[].lanes", "integer", "links", "1", {}, "Parallel links.", {"1", "100000"}),
      sim::key_row("links[].rate", "quantity", "bytes/s", "-", {},
                   "Line rate of one lane; nic_rate where it is left out.", kLinkRate),
      sim::key_row("attach", "list", "", "", {},
                   "For every node the switch that its NICs hang on, or a list of switches that they take in turn."),
  };
}

/// The number of a switch, as links named it; -1 for one that none did.
std::int64_t switch_named(const FabricSpec& spec, const std::map<std::string, std::uint32_t>& known,
                          const Settings& name) {
  const auto it = known.find(name.text());
  if (name.is_scalar() && it != known.end()) return it->second;
  const std::string near = sim::nearest_word(name.text(), spec.graph.switch_names);
  name.fail(fmt::format("got '{}', which no link joins to anything, expected {}", name.text(),
                        near.empty() ? "a switch of links, such as " + spec.graph.switch_names.front() : near));
}

void read_edge_list(const Settings& fabric, std::string_view, FabricSpec& spec) {
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

FabricWiring make_edge_list(const FabricSpec& spec, std::int64_t nodes, const Settings& where) {
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

}  // namespace

constinit const FabricKind fabrics::graph{
    .name = "graph",
    .make = make_edge_list,
    .keys = edge_list_keys,
    .read = read_edge_list,
    .shortest_paths = true,
};

}  // namespace orrery::topology
