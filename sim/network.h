// The network as the engine sees it: link capacities, and routes. A route is the weighted set of links that one
// transfer loads: moving at rate x bytes/s it takes weight * x from each link. A ring over 336 nodes is one route, not
// 113,000 flows. Who made the routes, and what the links are made of, the engine does not know.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "sim/id.h"
#include "sim/units.h"

namespace orrery::sim {

struct WeightedLink {
  LinkId link{};
  double weight = 1.0;  // bytes on this link per byte of the transfer
  friend bool operator==(const WeightedLink&, const WeightedLink&) = default;
};

struct Network {
  Table<LinkId, double> capacity;  // bytes/s, positive and finite

  // Routes, as compressed rows. A route may be empty: then only its latency and the operation's rate cap count.
  std::vector<std::uint32_t> route_begin{0};  // size routes + 1
  std::vector<WeightedLink> route_links;
  std::vector<Duration> route_latency;  // added to the operation's own latency

  std::size_t routes() const { return route_latency.size(); }
  std::span<const WeightedLink> links_of(RouteId r) const {
    return {route_links.data() + route_begin[index(r)], route_begin[index(r) + 1] - route_begin[index(r)]};
  }
  /// Bytes/s of a transfer over this route with no cap of its own and no other beside it; infinity without links.
  double rate_alone(RouteId r) const;
  LinkId add_link(Bandwidth rate);  // checks that the rate is positive and finite
  /// Appends a route; links named twice are merged by adding their weights. Weights are positive and finite. Where
  /// there are no links yet, they follow; a plan's check finds out whether all have come.
  RouteId add_route(std::span<const WeightedLink> links, Duration latency);
};

}  // namespace orrery::sim
