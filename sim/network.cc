// Links and routes. Weights are kept to 38 significant bits (a relative change below 2e-12): then the sum of up to
// 32,768 equal weights is exact in a double, and a folded link carries bit for bit what the full one does.
#include "sim/network.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/error.h"
#include "sim/hash.h"

namespace orrery::sim {

double Network::rate_alone(RouteId r) const {
  double rate = std::numeric_limits<double>::infinity();
  for (const WeightedLink& link : links_of(r)) rate = std::min(rate, capacity[link.link] / link.weight);
  return rate;
}

LinkId Network::add_link(Bandwidth rate) {
  SIM_CHECK(std::isfinite(rate.value()) && rate.value() > 0, "link capacity {}", rate.value());
  return capacity.push_back(rate.value());
}

RouteId Network::add_route(std::span<const WeightedLink> links, Duration latency) {
  SIM_CHECK(latency.value() >= 0, "route latency {} ps", latency.value());
  const std::size_t begin = route_links.size();
  for (const WeightedLink& link : links) {
    SIM_CHECK(capacity.empty() || index(link.link) < capacity.size(), "route over unknown link {}", index(link.link));
    SIM_CHECK(std::isfinite(link.weight) && link.weight > 0, "weight {} on link {}", link.weight, index(link.link));
    route_links.push_back(link);
  }
  const auto first = route_links.begin() + static_cast<std::ptrdiff_t>(begin);
  // Stable, so that weights are added in the order given; a path of ten links is sorted in place, without the buffer
  // that std::stable_sort allocates.
  const auto by_link = [](const WeightedLink& a, const WeightedLink& b) { return a.link < b.link; };
  constexpr std::size_t kShort = 32;
  if (links.size() <= kShort) {
    for (auto next = first; next != route_links.end(); ++next) {
      const WeightedLink moved = *next;
      auto hole = next;
      for (; hole != first && moved.link < (hole - 1)->link; --hole) *hole = *(hole - 1);
      *hole = moved;
    }
  } else {
    std::stable_sort(first, route_links.end(), by_link);
  }
  auto last = first;
  for (auto next = first; next != route_links.end(); ++next) {
    if (last != first && (last - 1)->link == next->link) {
      (last - 1)->weight += next->weight;
    } else {
      *last++ = *next;
    }
  }
  route_links.erase(last, route_links.end());
  for (auto link = first; link != route_links.end(); ++link) link->weight = round_significant<38>(link->weight);
  route_begin.push_back(static_cast<std::uint32_t>(route_links.size()));
  route_latency.push_back(latency);
  return RouteId{static_cast<std::uint32_t>(routes() - 1)};
}

}  // namespace orrery::sim
