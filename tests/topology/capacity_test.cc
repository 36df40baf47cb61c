// Is the expected collision factor what hashing costs, and is never_binding true?
#include <cmath>
#include <map>
#include <random>

#include "sim/max_min.h"
#include "tests/catch.h"
#include "tests/topology/fixtures.h"

namespace orrery::topology {

namespace {

/// Average of max(1, flows on my lane x flow / lane) over flows, by throwing them.
double thrown(std::int64_t flows, std::int64_t lanes, double flow_rate, double lane_rate, std::mt19937_64& random) {
  constexpr int kThrows = 4000;
  double sum = 0;
  for (int t = 0; t < kThrows; ++t) {
    std::vector<double> on_lane(static_cast<std::size_t>(lanes), 0.0);
    for (std::int64_t f = 0; f < flows; ++f) on_lane[random() % on_lane.size()] += 1;
    for (const double n : on_lane) sum += n * std::max(1.0, n * flow_rate / lane_rate);
  }
  return sum / kThrows / static_cast<double>(flows);
}

struct Flow {
  std::vector<sim::WeightedLink> links, binding;
};

/// Rates with all links and without those that never bind, on random traffic between all NICs.
void check_never_binding(const Cluster& cluster, std::mt19937_64& random) {
  std::vector<Flow> flows;
  for (int round = 0; round < 3; ++round) {
    for (std::int64_t gpu = 0; gpu < cluster.gpus(); ++gpu) {
      const auto to = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(cluster.gpus()));
      if (cluster.node_of(to) == cluster.node_of(gpu)) continue;
      flows.push_back({cluster.path(gpu, to, random()).links, {}});
    }
  }
  sim::Table<LinkId, double> capacity;
  for (const LinkInfo& link : cluster.links()) capacity.push_back(link.capacity.value());
  std::vector<sim::Demand> all, some;
  for (Flow& flow : flows) {
    for (const sim::WeightedLink& link : flow.links) {
      if (!cluster.links()[link.link].never_binding) flow.binding.push_back(link);
    }
    all.push_back({flow.links, 0});
    some.push_back({flow.binding, 0});
  }
  const std::vector<double> rates = sim::max_min_rates(all, capacity), without = sim::max_min_rates(some, capacity);
  std::vector<double> load(capacity.size(), 0.0);
  for (std::size_t f = 0; f < flows.size(); ++f) {
    CHECK(without[f] == Approx(rates[f]).epsilon(1e-9));
    for (const auto& [link, weight] : flows[f].links) load[sim::index(link)] += weight * without[f];
  }
  for (std::uint32_t l = 0; l < capacity.size(); ++l) CHECK(load[l] <= capacity[LinkId{l}] * (1 + 1e-9));
}

}  // namespace

TEST_CASE("The expected collision factor is the mean of throwing flows onto lanes") {
  std::mt19937_64 random(1);
  struct Row {
    std::int64_t flows, lanes;
    double flow_rate, lane_rate;
  };
  for (const Row& row :
       {Row{64, 32, 25, 50}, Row{32, 32, 50, 50}, Row{16, 4, 25, 50}, Row{8, 32, 25, 50}, Row{1, 8, 25, 50}}) {
    const double even = std::max(
        1.0, static_cast<double>(row.flows) * row.flow_rate / (static_cast<double>(row.lanes) * row.lane_rate));
    const double expected = thrown(row.flows, row.lanes, row.flow_rate, row.lane_rate, random) / even;
    INFO(row.flows << " flows on " << row.lanes << " lanes");
    CHECK(expected_collision_factor(row.flows, row.lanes, Bandwidth(row.flow_rate), Bandwidth(row.lane_rate)) ==
          Approx(expected).epsilon(0.01));
  }
  // Two flows on two lanes that each fill: they meet half of the time and then take twice as long.
  CHECK(expected_collision_factor(2, 2, Bandwidth(1), Bandwidth(1)) == Approx(1.5));
  CHECK(expected_collision_factor(100, 1, Bandwidth(1), Bandwidth(1)) == 1.0);
  // Many small flows spread as well as packets.
  CHECK(expected_collision_factor(3'000'000, 32, Bandwidth(1e-5), Bandwidth(1)) == Approx(1.0).epsilon(0.01));
}

TEST_CASE("Unseeded ECMP divides a full leaf's uplinks by the factor; adaptive routing does not") {
  FabricSpec fabric = tomahawk();
  const auto uplink = [](const Cluster& cluster) { return cluster.links()[cluster.path(0, 64 * 8).links[3].link]; };
  const Cluster hashed = make(a100_node(), fabric, 128);
  const double factor = expected_collision_factor(64, 32, Bandwidth(25e9), Bandwidth(50e9));
  CHECK(uplink(hashed).capacity.value() == Approx(32 * 50e9 * 0.95 / factor));
  CHECK(hashed.describe().collision_factor == Approx(factor));
  fabric.routes.flows_per_nic = 16;
  const Cluster spread = make(a100_node(), fabric, 128);
  CHECK(spread.describe().collision_factor < factor);
  CHECK(spread.describe().collision_factor > 1.0);
  fabric.routes.policy = FabricSpec::Routing::adaptive;
  const Cluster adaptive = make(a100_node(), fabric, 128);
  CHECK(uplink(adaptive).capacity.value() == Approx(32 * 50e9 * 0.95));
  CHECK(adaptive.describe().collision_factor == 1.0);
}

TEST_CASE("Seeded ECMP collides as often as the expectation says") {
  FabricSpec fabric = tomahawk();
  double sum = 0;
  constexpr int kSeeds = 12;
  for (int seed = 0; seed < kSeeds; ++seed) {
    fabric.routes.ecmp_seed = static_cast<std::uint64_t>(seed);
    const Cluster cluster = make(a100_node(), fabric, 128);
    std::map<std::uint32_t, double> on_lane;
    for (std::int64_t gpu = 0; gpu < 64 * 8; ++gpu)
      ++on_lane[sim::index(cluster.path(gpu, gpu + 64 * 8).links[3].link)];
    for (const auto& [lane, n] : on_lane) sum += n * std::max(1.0, n * 0.5);
  }
  // 12 seeds x 8 leaves: the mean of a leaf's 64 flows varies by a tenth, the mean of 96 leaves by one percent.
  const double factor = expected_collision_factor(64, 32, Bandwidth(25e9), Bandwidth(50e9));
  CHECK(sum / (kSeeds * 64 * 8) == Approx(factor).epsilon(0.04));
}

TEST_CASE("Links that never bind never do") {
  std::mt19937_64 random(2);
  for (const double oversubscription : {1.0, 2.0}) {
    for (const double pcie : {8e9, 10e9 * 0.95, 32e9}) {
      for (const auto routing : {FabricSpec::Routing::adaptive, FabricSpec::Routing::ecmp}) {
        FabricSpec fabric = tiny();
        fabric.tree.oversubscription = oversubscription;
        fabric.routes.policy = routing;
        NodeSpec node = a100_node();
        node.pcie = Bandwidth(pcie);
        check_never_binding(make(node, fabric, oversubscription > 1 ? 4 : 8), random);
        fabric.routes.ecmp_seed = routing == FabricSpec::Routing::ecmp ? std::optional<std::uint64_t>(3) : std::nullopt;
        check_never_binding(make(node, fabric, 6), random);
      }
    }
  }
}

TEST_CASE("A non-blocking fabric binds only at its NICs, an oversubscribed one at its uplinks too") {
  const auto free_uplinks = [](const Cluster& cluster) {
    std::map<Tier, std::pair<int, int>> free_of_all;
    for (const LinkInfo& link : cluster.links()) {
      free_of_all[link.tier].first += link.never_binding;
      ++free_of_all[link.tier].second;
    }
    return free_of_all;
  };
  for (const auto& [tier, n] : free_uplinks(make(h100_node(), ndr(), 300))) {
    INFO(name_of(tier));
    const bool at_the_edge = tier == Tier::node || tier == Tier::leaf;
    CHECK(n.first == (at_the_edge ? 0 : n.second));
  }
  FabricSpec pruned = ndr();
  pruned.tree.oversubscription = 2;
  CHECK(free_uplinks(make(h100_node(), pruned, 64))[Tier::spine].first == 0);
  CHECK(free_uplinks(make(a100_node(), tomahawk(), 128))[Tier::spine].first == 0);
}

}  // namespace orrery::topology
