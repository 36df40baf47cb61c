// Does a torus have the cables of its dimensions, the distances of its coordinates, and traffic on all shortest paths?
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "tests/catch.h"
#include "tests/topology/fixtures.h"

namespace orrery::topology {

namespace {

FabricSpec torus_spec(std::vector<std::int64_t> dimensions) {
  FabricSpec fabric = fat_tree_spec();
  fabric.kind = &fabrics::torus;
  fabric.torus.dimensions = std::move(dimensions);
  fabric.nics = 2;
  fabric.torus.nodes_per_switch = 1;
  fabric.efficiency = 1.0;
  return fabric;
}

std::int64_t around(std::int64_t a, std::int64_t b, std::int64_t size) {
  const std::int64_t d = std::abs(a - b);
  return std::min(d, size - d);
}

double choose(std::int64_t n, std::int64_t k) {
  return std::round(std::exp(std::lgamma(static_cast<double>(n + 1)) - std::lgamma(static_cast<double>(k + 1)) -
                             std::lgamma(static_cast<double>(n - k + 1))));
}

}  // namespace

TEST_CASE("A torus has a cable per switch and dimension, and a single one between two neighbours of a pair") {
  CHECK(links(make(a100_node(), torus_spec({4, 4, 4}), 64).describe(), Tier::spine) == 3 * 64);
  CHECK(links(make(a100_node(), torus_spec({5, 3}), 15).describe(), Tier::spine) == 2 * 15);
  CHECK(links(make(a100_node(), torus_spec({2, 2}), 4).describe(), Tier::spine) == 4);
  CHECK(links(make(a100_node(), torus_spec({1, 6}), 6).describe(), Tier::spine) == 6);
  // Cut in two across its longest dimension, each row along it is cut twice.
  const auto d = make(a100_node(), torus_spec({3, 8}), 24).describe();
  CHECK(d.bisection.value() == Approx(2 * 3 * 50e9));
}

TEST_CASE("Distances of a torus are those of its coordinates") {
  const std::int64_t x = 5, y = 4, z = 3;
  const Cluster cluster = make(a100_node(), torus_spec({x, y, z}), x * y * z);
  const FabricSpec& fabric = cluster.fabric_spec();
  for (std::int64_t node = 1; node < cluster.nodes(); ++node) {
    const std::int64_t steps = around(0, node % x, x) + around(0, node / x % y, y) + around(0, node / (x * y), z);
    const Cluster::Way way = cluster.way(0, node * 8);
    CHECK(way.hops == 2 + 1 + steps + 1 + 2);  // GPU - PCIe - NIC - switches - NIC - PCIe - GPU
    CHECK(way.latency == fabric.message.latency + fabric.switches.latency * (steps + 1));
    const Path path = cluster.path(0, node * 8);
    CHECK(path.hops == way.hops);
    CHECK(path.latency == way.latency);
  }
}

TEST_CASE("Adaptive routing loads every shortest path of a torus alike") {
  // From (0, 0) to (a, b), both less than half way: choose(a + b, a) paths; the link from (i, j) to (i + 1, j) lies on
  // choose(i + j, i) choose(a - i - 1 + b - j, b - j) of them.
  const std::int64_t size = 9, a = 3, b = 2;
  const Cluster cluster = make(a100_node(), torus_spec({size, size}), size * size);
  std::map<std::string, double> loads;
  for (const auto& [link, weight] : cluster.path(0, (b * size + a) * 8).links) {
    if (cluster.links()[link].tier == Tier::spine) loads[cluster.link_name(link)] += weight;
  }
  const double all = choose(a + b, a);
  double seen = 0;
  for (std::int64_t i = 0; i < a; ++i) {
    for (std::int64_t j = 0; j <= b; ++j) {
      const double paths = choose(i + j, i) * choose(a - i - 1 + b - j, b - j);
      const std::string name = fmt::format("switch {} {} -> switch {} {}", i, j, i + 1, j);
      CHECK(loads[name] == Approx(paths / all));
      seen += paths / all;
    }
  }
  CHECK(seen == Approx(static_cast<double>(a)));  // every byte takes `a` steps along the first dimension
}

TEST_CASE("Ways to a node are the same whether near or far ones were asked for first") {
  // The search from a destination ends where it was asked to, and is made again for whoever is farther.
  const std::int64_t nodes = 5 * 4 * 3;
  const Cluster near_first = make(a100_node(), torus_spec({5, 4, 3}), nodes);
  const Cluster far_first = make(a100_node(), torus_spec({5, 4, 3}), nodes);
  std::vector<std::int64_t> sources(nodes - 1);
  std::iota(sources.begin(), sources.end(), 1);
  std::stable_sort(sources.begin(), sources.end(), [&](std::int64_t a, std::int64_t b) {
    return near_first.way(0, a * 8).hops < near_first.way(0, b * 8).hops;
  });
  for (std::size_t n = 0; n < sources.size(); ++n) static_cast<void>(near_first.path(sources[n] * 8, 0));
  for (std::size_t n = sources.size(); n-- > 0;) {
    const Path far = far_first.path(sources[n] * 8, 0), near = near_first.path(sources[n] * 8, 0);
    INFO("from node " << sources[n]);
    CHECK(far.hops == near.hops);
    REQUIRE(far.links.size() == near.links.size());
    double carried = 0;
    for (std::size_t l = 0; l < far.links.size(); ++l) {
      CHECK(far.links[l].link == near.links[l].link);
      CHECK(far.links[l].weight == near.links[l].weight);
      carried += near_first.links()[far.links[l].link].tier == Tier::spine ? far.links[l].weight : 0;
    }
    // Whatever its ways, a byte crosses as many cables between switches as the way has.
    CHECK(carried == Approx(near.hops - 6));
  }
}

TEST_CASE("Spraying deals evenly at every switch, not over paths") {
  FabricSpec fabric = torus_spec({9, 9});
  fabric.routes.policy = FabricSpec::Routing::spray;
  const Cluster cluster = make(a100_node(), fabric, 81);
  std::map<std::string, double> loads;
  for (const auto& [link, weight] : cluster.path(0, (9 * 1 + 3) * 8).links) loads[cluster.link_name(link)] += weight;
  // At (0, 0), (1, 0), (2, 0) half turns off each time; with three steps to go along the first dimension and one along
  // the second, equal paths would be a quarter each.
  CHECK(loads["switch 0 0 -> switch 0 1"] == Approx(0.5));
  CHECK(loads["switch 1 0 -> switch 1 1"] == Approx(0.25));
  CHECK(loads["switch 3 0 -> switch 3 1"] == Approx(0.125));
  const Cluster even = make(a100_node(), torus_spec({9, 9}), 81);
  loads.clear();
  for (const auto& [link, weight] : even.path(0, (9 * 1 + 3) * 8).links) loads[even.link_name(link)] += weight;
  for (int i = 0; i <= 3; ++i) CHECK(loads[fmt::format("switch {} 0 -> switch {} 1", i, i)] == Approx(0.25));
}

TEST_CASE("A torus refuses what it cannot hold") {
  CHECK_THROWS_AS(make(a100_node(), torus_spec({2, 2}), 5), sim::UserError);
  FabricSpec fabric = torus_spec({4, 4});
  fabric.switches.radix = 5;  // two NICs and four neighbours need six ports
  CHECK_THROWS_AS(make(a100_node(), fabric, 4), sim::UserError);
}

}  // namespace orrery::topology
