// Laws that hold on every topology, tried on random ones: what enters a switch leaves it, no link carries more than it
// can, names change nothing, and more bandwidth never takes any from a route.
#include <algorithm>
#include <map>
#include <numeric>
#include <random>

#include "sim/max_min.h"
#include "tests/catch.h"
#include "tests/topology/fixtures.h"

namespace orrery::topology {

namespace {

using Random = std::mt19937_64;
constexpr std::uint32_t kNoVertex = 0xffffffff;

std::int64_t draw(Random& random, std::int64_t low, std::int64_t high) {
  return low + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(high - low + 1));
}

NodeSpec random_node(Random& random) {
  NodeSpec node = a100_node();
  node.gpus = draw(random, 2, 6);
  const std::int64_t kind = draw(random, 0, 2);
  if (kind == 1) {
    node.kind = NodeSpec::Kind::mesh;
    for (std::int64_t g = 1; g < node.gpus; ++g)
      node.mesh.push_back({draw(random, 0, g - 1), g, Bandwidth(1e9 * static_cast<double>(draw(random, 20, 200)))});
  } else if (kind == 2) {
    node.kind = NodeSpec::Kind::pcie;
    node.pcie_switches = draw(random, 1, node.gpus);
    node.host_bridges = draw(random, 1, node.pcie_switches);
  }
  node.pcie = Bandwidth(1e9 * static_cast<double>(draw(random, 10, 60)));
  return node;
}

void random_graph(Random& random, FabricSpec& fabric, std::int64_t nodes) {
  fabric.kind = &fabrics::graph;
  const std::int64_t switches = draw(random, 1, 9);
  for (std::int64_t s = 0; s < switches; ++s) fabric.graph.switch_names.push_back(fmt::format("s{}", s));
  for (std::int64_t a = 0; a < switches; ++a) {
    for (std::int64_t b = a + 1; b < switches; ++b) {
      if (b != a + 1 && draw(random, 0, 2) > 0) continue;  // a chain, and a third of the other pairs
      fabric.graph.edges.push_back({static_cast<std::uint32_t>(a), static_cast<std::uint32_t>(b),
                                    static_cast<std::int32_t>(draw(random, 1, 3)),
                                    Bandwidth(1e9 * static_cast<double>(draw(random, 10, 80)))});
    }
  }
  for (std::int64_t n = 0; n < nodes; ++n) {
    std::vector<std::uint32_t> on;
    for (std::int64_t i = draw(random, 1, fabric.nics); i > 0; --i)
      on.push_back(static_cast<std::uint32_t>(draw(random, 0, switches - 1)));
    fabric.graph.attach.push_back(on);
  }
}

FabricSpec random_fabric(Random& random, std::int64_t nodes) {
  FabricSpec fabric = fat_tree_spec();
  fabric.nics = draw(random, 1, 4);
  fabric.nic_rate = Bandwidth(1e9 * static_cast<double>(draw(random, 10, 60)));
  fabric.switches.uplink_rate = Bandwidth(fabric.nic_rate.value() * static_cast<double>(draw(random, 1, 2)));
  fabric.routes.policy = static_cast<FabricSpec::Routing>(draw(random, 0, 3));
  if (draw(random, 0, 1) == 0) fabric.routes.ecmp_seed = random() % 1000;
  fabric.routes.flows_per_nic = draw(random, 1, 4);
  switch (draw(random, 0, 4)) {
    case 0:
      fabric.tree.rail = draw(random, 0, 1) == 1;
      break;
    case 1:
      fabric.kind = &fabrics::rail_only;
      break;
    case 2:
      fabric.kind = &fabrics::dragonfly;
      fabric.routes.policy = FabricSpec::Routing::adaptive;
      fabric.dragonfly.groups = 5;
      fabric.dragonfly.switches_per_group = draw(random, 1, 4);
      fabric.dragonfly.nodes_per_switch =
          (nodes + 5 * fabric.dragonfly.switches_per_group - 1) / (5 * fabric.dragonfly.switches_per_group) + 1;
      fabric.dragonfly.local_rate = fabric.dragonfly.global_rate = fabric.switches.uplink_rate;
      return fabric;
    case 3:
      fabric.kind = &fabrics::torus;
      fabric.torus.dimensions = {draw(random, 2, 4), draw(random, 1, 4), 3};
      fabric.torus.nodes_per_switch = 4;
      break;
    default:
      random_graph(random, fabric, nodes);
  }
  const bool mesh = fabric.kind == &fabrics::torus || fabric.kind == &fabrics::graph;
  if (mesh && fabric.routes.policy == FabricSpec::Routing::ecmp) fabric.routes.ecmp_seed = random() % 1000;
  fabric.tree.unit_nodes = draw(random, 2, 5);
  fabric.switches.radix = 64;
  fabric.tree.oversubscription = static_cast<double>(draw(random, 1, 3));
  if (draw(random, 0, 1) == 0) {
    fabric.tree.pod_leaves = 2 * fabric.nics;  // three tiers
    fabric.tree.core_oversubscription = static_cast<double>(draw(random, 1, 2));
  }
  return fabric;
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

/// The two ends of a link: parts of one node are named in full.
std::pair<std::string, std::string> ends_of(const Cluster& cluster, LinkId link) {
  std::string name = lower(cluster.link_name(link));
  name = name.substr(0, name.find(" (lane"));
  const auto arrow = name.find(" -> ");
  std::string from = name.substr(0, arrow), to = name.substr(arrow + 4);
  const Tier tier = cluster.links()[link].tier;
  if (tier == Tier::node || tier == Tier::nic) {
    const std::string node = from.substr(0, from.find(' ', 5) + 1);
    to = node + to;
  }
  return {from, to};
}

void check_conserved(const Cluster& cluster, std::int64_t from, std::int64_t to, const Path& path) {
  std::map<std::string, double> balance;
  for (const auto& [link, weight] : path.links) {
    CHECK(weight > 0);
    CHECK(weight <= 1 + 1e-12);
    const auto [a, b] = ends_of(cluster, link);
    balance[a] -= weight;
    balance[b] += weight;
  }
  const auto name = [&](std::int64_t gpu) {
    return fmt::format("node {} gpu {}", cluster.node_of(gpu), gpu % cluster.gpus_per_node());
  };
  balance[name(from)] += 1;
  balance[name(to)] -= 1;
  for (const auto& [vertex, rest] : balance) {
    INFO(vertex);
    CHECK(std::abs(rest) < 1e-9);
  }
}

/// Max-min fair rates of these flows, none above what its links carry, each held up by a full link.
std::vector<double> checked_rates(const Cluster& cluster, const std::vector<Path>& paths) {
  sim::Table<LinkId, double> capacity;
  for (const LinkInfo& link : cluster.links()) capacity.push_back(link.capacity.value());
  std::vector<sim::Demand> demands;
  for (const Path& path : paths) demands.push_back({path.links, 0});
  const std::vector<double> rates = sim::max_min_rates(demands, capacity);
  std::vector<double> load(capacity.size(), 0.0);
  for (std::size_t f = 0; f < paths.size(); ++f) {
    for (const auto& [link, weight] : paths[f].links) load[sim::index(link)] += weight * rates[f];
  }
  for (std::uint32_t l = 0; l < capacity.size(); ++l) CHECK(load[l] <= capacity[LinkId{l}] * (1 + 1e-9));
  for (const Path& path : paths) {
    CHECK(std::any_of(path.links.begin(), path.links.end(), [&](const sim::WeightedLink& on) {
      return load[sim::index(on.link)] >= capacity[on.link] * (1 - 1e-9);
    }));
  }
  return rates;
}

struct Drawn {
  NodeSpec node;
  FabricSpec fabric;
  std::int64_t nodes = 0;
  std::vector<std::pair<std::int64_t, std::int64_t>> pairs;
};

Drawn draw_case(Random& random) {
  Drawn drawn;
  drawn.node = random_node(random);
  drawn.nodes = draw(random, 2, 20);
  drawn.fabric = random_fabric(random, drawn.nodes);
  const std::int64_t gpus = drawn.nodes * drawn.node.gpus;
  for (int f = 0; f < 40; ++f) {
    const std::int64_t from = draw(random, 0, gpus - 1), to = draw(random, 0, gpus - 1);
    if (from != to) drawn.pairs.emplace_back(from, to);
  }
  return drawn;
}

std::vector<Path> paths_of(const Cluster& cluster, const std::vector<std::pair<std::int64_t, std::int64_t>>& pairs) {
  std::vector<Path> paths;
  for (std::size_t f = 0; f < pairs.size(); ++f) paths.push_back(cluster.path(pairs[f].first, pairs[f].second, f));
  return paths;
}

constexpr int kCases = 150;

}  // namespace

TEST_CASE("On random topologies what enters a switch leaves it, and no link carries more than it can") {
  Random random(11);
  std::map<std::pair<const FabricKind*, FabricSpec::Routing>, int> seen;
  for (int round = 0; round < kCases; ++round) {
    INFO("case " << round);
    const Drawn drawn = draw_case(random);
    const Cluster cluster = make(drawn.node, drawn.fabric, drawn.nodes);
    ++seen[{drawn.fabric.kind, drawn.fabric.routes.policy}];
    const std::vector<Path> paths = paths_of(cluster, drawn.pairs);
    for (std::size_t f = 0; f < paths.size(); ++f) {
      const auto [from, to] = drawn.pairs[f];
      check_conserved(cluster, from, to, paths[f]);
      const Cluster::Way way = cluster.way(from, to);
      CHECK(way.hops == paths[f].hops);
      CHECK(way.latency == paths[f].latency);
      CHECK(way.top == paths[f].top);
    }
    checked_rates(cluster, paths);
  }
  CHECK(seen.size() >= 14);  // of 4 kinds with 4 policies and a dragonfly
}

TEST_CASE("On random topologies paths are as long as the graph of every cable says") {
  Random random(12);
  for (int round = 0; round < kCases / 3; ++round) {
    INFO("case " << round);
    const Drawn drawn = draw_case(random);
    // A rail-only GPU's way over NVLink is not the graph's shortest, which may lead over PCIe; an exchange is no
    // switch.
    if (drawn.fabric.kind == &fabrics::rail_only || drawn.fabric.kind == &fabrics::dragonfly) continue;
    if (drawn.node.kind != NodeSpec::Kind::nvswitch || drawn.fabric.nics > drawn.node.gpus) continue;
    const Cluster cluster = make(drawn.node, drawn.fabric, drawn.nodes);
    const Graph graph = cluster.graph();
    for (const auto& [from, to] : drawn.pairs) {
      if (cluster.node_of(from) == cluster.node_of(to)) continue;
      // From NIC to NIC: which NIC a GPU uses is not the graph's choice.
      const Cluster::Way way = cluster.way(from, to);
      const auto nic = [&](std::int64_t gpu) {
        const std::string name = fmt::format("n{} nic{}", cluster.node_of(gpu), cluster.nic_of(gpu));
        for (std::uint32_t v = 0; v < graph.vertices.size(); ++v) {
          if (graph.vertices[v].name == name) return v;
        }
        return kNoVertex;
      };
      CHECK(hops_from(graph, nic(from))[nic(to)] <= way.hops - 4);
      if (drawn.fabric.graph.attach.empty()) CHECK(hops_from(graph, nic(from))[nic(to)] == way.hops - 4);
    }
  }
}

TEST_CASE("Renaming hosts and switches of a graph changes no rate") {
  Random random(13);
  for (int round = 0; round < kCases / 3; ++round) {
    INFO("case " << round);
    Drawn drawn = draw_case(random);
    FabricSpec fabric = drawn.fabric;
    fabric.kind = &fabrics::graph;
    fabric.torus.dimensions.clear();
    fabric.graph.attach.clear();
    fabric.graph.switch_names.clear();
    fabric.graph.edges.clear();
    fabric.routes.policy = draw(random, 0, 1) == 0 ? FabricSpec::Routing::adaptive : FabricSpec::Routing::spray;
    random_graph(random, fabric, drawn.nodes);
    FabricSpec renamed = fabric;
    // Switch s becomes to[s], node n becomes host[n], links are listed in another order and from the other end.
    std::vector<std::uint32_t> to(fabric.graph.switch_names.size());
    std::iota(to.begin(), to.end(), 0U);
    std::shuffle(to.begin(), to.end(), random);
    std::vector<std::int64_t> host(static_cast<std::size_t>(drawn.nodes));
    std::iota(host.begin(), host.end(), 0);
    std::shuffle(host.begin(), host.end(), random);
    for (FabricSpec::Edges::Edge& edge : renamed.graph.edges) edge = {to[edge.b], to[edge.a], edge.lanes, edge.rate};
    std::shuffle(renamed.graph.edges.begin(), renamed.graph.edges.end(), random);
    for (std::size_t n = 0; n < host.size(); ++n) {
      std::vector<std::uint32_t> on;
      for (const std::uint32_t s : fabric.graph.attach[n]) on.push_back(to[s]);
      renamed.graph.attach[static_cast<std::size_t>(host[n])] = on;
    }
    const std::int64_t per_node = drawn.node.gpus;
    const auto moved = [&](std::int64_t gpu) {
      return host[static_cast<std::size_t>(gpu / per_node)] * per_node + gpu % per_node;
    };
    auto pairs = drawn.pairs;
    for (auto& [from, onto] : pairs) {
      from = moved(from);
      onto = moved(onto);
    }
    const Cluster before = make(drawn.node, fabric, drawn.nodes), after = make(drawn.node, renamed, drawn.nodes);
    const auto rates = checked_rates(before, paths_of(before, drawn.pairs));
    const auto again = checked_rates(after, paths_of(after, pairs));
    for (std::size_t f = 0; f < rates.size(); ++f) CHECK(again[f] == Approx(rates[f]).epsilon(1e-9));
    CHECK(after.describe().bisection.value() > 0);
  }
}

TEST_CASE("Nodes of one unit of a fat tree may change places") {
  Random random(14);
  for (int round = 0; round < 20; ++round) {
    FabricSpec fabric = ndr();
    fabric.tree.unit_nodes = 4;
    fabric.tree.oversubscription = static_cast<double>(draw(random, 1, 4));
    const Cluster cluster = make(h100_node(), fabric, 12);
    std::vector<std::int64_t> host(12);
    std::iota(host.begin(), host.end(), 0);
    for (int unit = 0; unit < 3; ++unit) std::shuffle(host.begin() + 4 * unit, host.begin() + 4 * unit + 4, random);
    std::vector<std::pair<std::int64_t, std::int64_t>> pairs, moved;
    for (int f = 0; f < 100; ++f) {
      const std::int64_t from = draw(random, 0, 95), to = draw(random, 0, 95);
      if (from == to) continue;
      pairs.emplace_back(from, to);
      const auto place = [&](std::int64_t gpu) { return host[static_cast<std::size_t>(gpu / 8)] * 8 + gpu % 8; };
      moved.emplace_back(place(from), place(to));
    }
    const auto rates = checked_rates(cluster, paths_of(cluster, pairs));
    const auto again = checked_rates(cluster, paths_of(cluster, moved));
    for (std::size_t f = 0; f < rates.size(); ++f) CHECK(again[f] == Approx(rates[f]).epsilon(1e-9));
  }
}

TEST_CASE("Faster links never take bandwidth from a transfer that is alone") {
  Random random(15);
  for (int round = 0; round < kCases; ++round) {
    INFO("case " << round);
    const Drawn drawn = draw_case(random);
    FabricSpec faster = drawn.fabric;
    faster.switches.uplink_rate = Bandwidth(faster.switches.uplink_rate.value() * 1.25);
    faster.dragonfly.local_rate = Bandwidth(faster.dragonfly.local_rate.value() * 1.5);
    for (FabricSpec::Edges::Edge& edge : faster.graph.edges) {
      if (draw(random, 0, 1) == 0) edge.rate = Bandwidth(edge.rate.value() * 3);
    }
    // As many lanes as before: fewer faster ones are another network (see the split of Tomahawk 4).
    faster.tree.oversubscription /= 1.25;
    const Cluster before = make(drawn.node, drawn.fabric, drawn.nodes), after = make(drawn.node, faster, drawn.nodes);
    const auto alone = [](const Cluster& cluster, const Path& path) {
      double rate = 1e300;
      for (const auto& [link, weight] : path.links)
        rate = std::min(rate, cluster.links()[link].capacity.value() / weight);
      return rate;
    };
    for (const auto& [from, to] : drawn.pairs) {
      CHECK(alone(after, after.path(from, to)) >= alone(before, before.path(from, to)) * (1 - 1e-9));
    }
  }
}

}  // namespace orrery::topology
