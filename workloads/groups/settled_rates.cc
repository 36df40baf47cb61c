// All groups of a kind begin at once and share links max-min fairly. See settled_rates.h.
#include "workloads/groups/settled_rates.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "sim/error.h"
#include "sim/fair_sharing.h"
#include "sim/max_min.h"

namespace orrery::workloads {

namespace {

using sim::Communicator;
using sim::CommunicatorId;
using sim::RouteId;

RouteId route_of(const Communicator& communicator, std::uint32_t pattern) {
  return RouteId{sim::index(communicator.first_route) + pattern};
}

/// Bytes/s that each of these makes on the whole when all begin at once with as many bytes: who is done leaves its
/// links to the others. Ends that come within `kTogether` of each other count as one.
std::vector<double> rates_begun_together(const std::vector<sim::Demand>& demands,
                                         const sim::Table<sim::LinkId, double>& capacity) {
  constexpr double kTogether = 0.01, kBytes = 1e9;
  sim::FairSharing sharing(capacity);
  std::vector<double> whole(demands.size(), std::numeric_limits<double>::infinity());
  std::vector<double> left(demands.size(), kBytes);
  std::vector<std::uint32_t> under_way;
  for (std::uint32_t d = 0; d < demands.size(); ++d) {
    if (demands[d].links.empty()) continue;
    sharing.add(d, demands[d].links, demands[d].cap);
    under_way.push_back(d);
  }
  for (double now = 0; !under_way.empty();) {
    sharing.solve();
    double next = std::numeric_limits<double>::infinity();
    for (const std::uint32_t d : under_way) next = std::min(next, left[d] / sharing.rate(d));
    const double step = next + kTogether * (now + next);
    std::erase_if(under_way, [&](std::uint32_t d) {
      const double end = left[d] / sharing.rate(d);
      left[d] -= step * sharing.rate(d);
      if (end > step) return false;
      whole[d] = kBytes / (now + end);
      sharing.remove(d);
      return true;
    });
    now += step;
  }
  return whole;
}

/// Bytes/s by communicator, all of its kind begun at once; infinity where its routes load nothing. Of a
/// communicator's patterns the first stands for all (weight_of).
std::vector<double> rates_by_kind(const sim::Plan& plan, std::span<const std::int64_t> kind_of,
                                  const sim::Network& network) {
  std::map<std::int64_t, std::vector<std::uint32_t>> kinds;
  for (std::uint32_t c = 0; c < plan.communicators.size(); ++c) kinds[kind_of[c]].push_back(c);
  std::vector<double> rates(plan.communicators.size());
  for (const auto& [kind, members] : kinds) {
    std::vector<sim::Demand> demands;
    for (const std::uint32_t c : members)
      demands.push_back({network.links_of(plan.communicators[CommunicatorId{c}].first_route), 0});
    const std::vector<double> shared = rates_begun_together(demands, network.capacity);
    for (std::size_t m = 0; m < members.size(); ++m) rates[members[m]] = shared[m];
  }
  return rates;
}

/// What a byte of this pattern weighs over one of the first: 1 where both load the same links.
double weight_of(const Communicator& communicator, std::uint32_t pattern, const sim::Network& network) {
  const double first = network.rate_alone(route_of(communicator, 0));
  const double own = network.rate_alone(route_of(communicator, pattern));
  return first == own ? 1.0 : first / own;
}

/// What communicators in step have in common.
struct GroupPace {
  double rate = std::numeric_limits<double>::infinity();
  std::vector<sim::Duration> latency;  // by pattern
};

}  // namespace

void settle_rates(const sim::Plan& plan, std::span<const std::int64_t> kind_of, std::span<const std::int64_t> alike,
                  sim::Network& network) {
  const std::vector<double> rates = rates_by_kind(plan, kind_of, network);
  std::map<std::pair<std::int64_t, std::int64_t>, GroupPace> paces;
  for (std::uint32_t c = 0; c < plan.communicators.size(); ++c) {
    const Communicator& communicator = plan.communicators[CommunicatorId{c}];
    GroupPace& pace = paces[{kind_of[c], alike[c]}];
    pace.rate = std::min(pace.rate, rates[c]);
    pace.latency.resize(std::max<std::size_t>(pace.latency.size(), communicator.patterns));
    for (std::uint32_t p = 0; p < communicator.patterns; ++p) {
      const sim::Duration latency = network.route_latency[sim::index(route_of(communicator, p))];
      pace.latency[p] = std::max(pace.latency[p], latency);
    }
  }
  sim::Network settled;
  for (std::uint32_t c = 0; c < plan.communicators.size(); ++c) {
    const Communicator& communicator = plan.communicators[CommunicatorId{c}];
    const GroupPace& pace = paces.at({kind_of[c], alike[c]});
    SIM_CHECK(sim::index(communicator.first_route) == settled.routes(), "communicator {} begins at route {} of {}", c,
              sim::index(communicator.first_route), settled.routes());
    std::vector<sim::WeightedLink> links;
    if (pace.rate < std::numeric_limits<double>::infinity())
      links.push_back({settled.add_link(sim::Bandwidth(pace.rate)), 1.0});
    for (std::uint32_t p = 0; p < communicator.patterns; ++p) {
      if (!links.empty()) links.front().weight = weight_of(communicator, p, network);
      settled.add_route(links, pace.latency[p]);
    }
  }
  network = std::move(settled);
}

}  // namespace orrery::workloads
