// Which links transfers can contend for, told before the plan runs. A communicator has at most as many transfers in
// flight as one of its members has streams on which it issues them, because a member waits in each. If all the
// communicators that cross a link, each so often and at the highest rate that its caps and routes allow when alone,
// fill no more than its capacity, the link can stop nobody at any time, and no transfer need remember it. A transfer
// with no other links moves at the rate that it has when alone: its finish is known as soon as its start is, without
// an event. That is so for most groups inside a node, which have their ports for themselves.
//
// What is left out here FairSharing would have found slack at every instant, by the same test on a part of the same
// sum; so the times are the same to the picosecond.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/network.h"
#include "sim/plan.h"

namespace orrery::sim {

struct Contention {
  // By route, as in Network, but only the links that can be full. Routes that nothing in the plan uses have none.
  std::vector<std::uint32_t> route_begin;  // size routes + 1
  std::vector<WeightedLink> route_links;
  std::vector<double>
      route_rate;  // bytes/s that one transfer alone moves along the whole route; infinity without links

  std::span<const WeightedLink> links_of(RouteId r) const {
    return {route_links.data() + route_begin[index(r)], route_begin[index(r) + 1] - route_begin[index(r)]};
  }
  /// Bytes/s of a transfer with the cap `cap` (0 = none) that contends with nobody.
  double rate_alone(RouteId r, double cap) const;
};

/// For a plan and a network that have passed check(). Time and memory grow with the network's routes and the plan's
/// slots.
Contention find_contention(const Plan& plan, const Network& network);

/// As if nothing were moved but on these communicators, by their numbers.
Contention find_contention(const Plan& plan, const Network& network, const std::vector<bool>& communicators);

/// As if no link could be full.
Contention without_contention(const Network& network);

}  // namespace orrery::sim
