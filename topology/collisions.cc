// Balls into bins: what hashing flows onto parallel lanes costs on average. A flow shares its lane with X others, X
// binomial; when they want more than the lane carries, each gets an equal part. Averaged over flows this is how much
// longer a transfer takes whose every flow must finish at its own pace. The part that is no collision (more flows than
// all lanes together carry) is divided out. Thrown flows show besides that a collective waits for its slowest flow, and
// that a flow meets others on the way down as well. Left out: rehashing, flowlets.
#include <algorithm>
#include <cmath>

#include "sim/max_min.h"
#include "topology/state.h"

namespace orrery::topology {

double expected_collision_factor(std::int64_t flows, std::int64_t lanes, Bandwidth flow_rate, Bandwidth lane_rate) {
  SIM_CHECK(flows >= 1 && lanes >= 1, "{} flows on {} lanes", flows, lanes);
  const double ratio = flow_rate.value() / lane_rate.value();
  const double even = std::max(1.0, static_cast<double>(flows) * ratio / static_cast<double>(lanes));
  if (lanes == 1) return 1.0;
  const double n = static_cast<double>(flows - 1), p = 1.0 / static_cast<double>(lanes);
  // Terms further than this from the mean are below 1e-20 of the whole.
  const double mean = n * p, reach = 12 * std::sqrt(mean) + 40;
  const auto first = static_cast<std::int64_t>(std::max(0.0, std::floor(mean - reach)));
  const auto last = static_cast<std::int64_t>(std::min(n, std::ceil(mean + reach)));
  double sum = 0, weight = 0;
  for (std::int64_t j = first; j <= last; ++j) {
    const double x = static_cast<double>(j);
    const double log_term =
        std::lgamma(n + 1) - std::lgamma(x + 1) - std::lgamma(n - x + 1) + x * std::log(p) + (n - x) * std::log1p(-p);
    const double term = std::exp(log_term);
    weight += term;
    sum += term * std::max(1.0, (1 + x) * ratio);
  }
  return sum / weight / even;
}

namespace {

/// Max-min fair rates when NIC i of every node sends `flows` flows to NIC i of the node `distance` nodes on.
std::vector<double> rates_of_shift(const Cluster& cluster, std::int64_t distance, std::int64_t flows) {
  std::vector<Path> paths;
  const auto nics = cluster.nics_per_node();
  for (std::int64_t n = 0; n < cluster.nodes(); ++n) {
    for (std::int64_t i = 0; i < nics; ++i) {
      for (std::int64_t f = 0; f < flows; ++f) {
        paths.push_back(cluster.nic_path(n, i, (n + distance) % cluster.nodes(), i, static_cast<std::uint64_t>(f)));
      }
    }
  }
  sim::Table<LinkId, double> capacity;
  for (const LinkInfo& link : cluster.links()) capacity.push_back(link.capacity.value());
  std::vector<sim::Demand> demands;
  for (const Path& path : paths) demands.push_back({path.links, 0});
  return sim::max_min_rates(demands, capacity);
}

}  // namespace

Slowdown Cluster::throw_flows(std::int64_t seeds) const {
  const State& s = *state_;
  SIM_CHECK(s.fabric.routes.policy == FabricSpec::Routing::ecmp && s.outside.tree,
            "flows are hashed onto trees by ecmp");
  std::int64_t unit = 0;
  while (unit < s.nodes && s.leaf_of(unit, 0) == s.leaf_of(0, 0)) ++unit;
  if (unit >= s.nodes || seeds < 1) return {};
  const auto rates_by = [&](FabricSpec::Routing routing, std::optional<std::uint64_t> seed) {
    FabricSpec fabric = s.fabric;
    fabric.routes.policy = routing;
    fabric.routes.ecmp_seed = seed;
    fabric.routes.flows_per_nic = 1;  // thrown one by one
    const Cluster cluster(s.node, fabric, s.gpus, s.gpus_per_node, Settings(), s.faults, s.others);
    return rates_of_shift(cluster, unit, s.fabric.routes.flows_per_nic);
  };
  const std::vector<double> even = rates_by(FabricSpec::Routing::adaptive, std::nullopt);
  Slowdown sum{0, 0};
  for (std::int64_t seed = 0; seed < seeds; ++seed) {
    const std::vector<double> rates = rates_by(FabricSpec::Routing::ecmp, static_cast<std::uint64_t>(seed));
    double slowest = 0;
    for (std::size_t f = 0; f < rates.size(); ++f) {
      sum.mean += even[f] / rates[f] / static_cast<double>(rates.size());
      slowest = std::max(slowest, even[f] / rates[f]);
    }
    sum.slowest += slowest;
  }
  return {sum.mean / static_cast<double>(seeds), sum.slowest / static_cast<double>(seeds)};
}

}  // namespace orrery::topology
