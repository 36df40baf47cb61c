// Picks the ranks and counts who is left of their communicators. See lone_replica.h.
#include "workloads/groups/lone_replica.h"

#include <algorithm>
#include <limits>
#include <vector>

namespace orrery::workloads {

namespace {

using sim::CommunicatorId;
using sim::InstanceId;
using sim::RouteId;

/// How many communicators two classes of ranks have in common.
std::size_t in_common(const sim::Plan& plan, InstanceId a, InstanceId b) {
  const auto of_a = plan.slots_of(a);
  const auto of_b = plan.slots_of(b);
  return static_cast<std::size_t>(std::count_if(of_a.begin(), of_a.end(), [&](CommunicatorId c) {
    return std::find(of_b.begin(), of_b.end(), c) != of_b.end();
  }));
}

/// By stage: a class of its ranks, each the one that shares most with that of the stage before, its own messages among
/// them.
std::vector<InstanceId> pipeline_of(const sim::Plan& plan) {
  std::vector<std::vector<InstanceId>> of_stage(plan.programs.size());
  for (std::uint32_t i = 0; i < plan.instances.size(); ++i)
    of_stage[sim::index(plan.instances[InstanceId{i}].program)].push_back(InstanceId{i});
  std::vector<InstanceId> chain;
  for (const std::vector<InstanceId>& ranks : of_stage) {
    if (ranks.empty()) continue;
    InstanceId next = ranks.front();
    for (const InstanceId rank : ranks) {
      if (!chain.empty() && in_common(plan, chain.back(), rank) > in_common(plan, chain.back(), next)) next = rank;
    }
    chain.push_back(next);
  }
  return chain;
}

/// What the fastest tensor collective of these ranks finds on its route; whoever crosses no links is not held up.
void look_at_tensor_routes(const Groups& groups, const std::vector<InstanceId>& ranks, WholePasses& passes) {
  const sim::Plan& plan = groups.folded.plan;
  const sim::Network& network = groups.folded.network;
  double most = 0;
  sim::Duration latency(std::numeric_limits<std::int64_t>::max());
  for (const InstanceId rank : ranks) {
    const auto& slots = groups.slots[sim::index(plan.instances[rank].program)];
    const auto communicators = plan.slots_of(rank);
    for (std::size_t s = 0; s < slots.size(); ++s) {
      if (!(slots[s].group == CommGroup::tensor)) continue;
      const sim::Communicator& communicator = plan.communicators[communicators[s]];
      for (std::uint32_t p = 0; p < communicator.patterns; ++p) {
        const RouteId route{sim::index(communicator.first_route) + p};
        most = std::max(most, network.rate_alone(route));
        latency = std::min(latency, network.route_latency[sim::index(route)]);
      }
    }
  }
  if (most == 0) return;
  passes.most_rate = most;
  passes.least_latency = latency;
}

}  // namespace

std::shared_ptr<const Groups> lone_replica(const Groups& groups) {
  const auto made = std::make_shared<Groups>();
  Groups& out = *made;
  out.shapes = groups.shapes;
  out.slots = groups.slots;
  out.alone = true;
  out.whole_passes.alone = true;
  const sim::Plan& plan = groups.folded.plan;
  const std::vector<InstanceId> ranks = pipeline_of(plan);
  look_at_tensor_routes(groups, ranks, out.whole_passes);

  sim::Plan& lone = out.folded.plan;
  lone.streams = plan.streams;
  lone.programs = plan.programs;
  std::vector<CommunicatorId> number(plan.communicators.size(), CommunicatorId{});
  std::vector<bool> known(plan.communicators.size(), false);
  std::vector<CommunicatorId> slots;
  for (const InstanceId rank : ranks) {
    slots.clear();
    for (const CommunicatorId c : plan.slots_of(rank)) {
      const std::uint32_t n = sim::index(c);
      if (!known[n]) {
        known[n] = true;
        const sim::Communicator& communicator = plan.communicators[c];
        const RouteId first{static_cast<std::uint32_t>(out.folded.network.routes())};
        for (std::uint32_t p = 0; p < communicator.patterns; ++p) {
          const RouteId route{sim::index(communicator.first_route) + p};
          for (const sim::WeightedLink& l : groups.folded.network.links_of(route)) {
            const auto link = out.folded.network.capacity.push_back(groups.folded.network.capacity[l.link]);
            out.folded.network.route_links.push_back({link, l.weight});
          }
          out.folded.network.route_begin.push_back(static_cast<std::uint32_t>(out.folded.network.route_links.size()));
          out.folded.network.route_latency.push_back(groups.folded.network.route_latency[sim::index(route)]);
        }
        number[n] = lone.communicators.push_back({0, first, communicator.patterns, communicator.noise_key});
      }
      slots.push_back(number[n]);
      ++lone.communicators[number[n]].members;
    }
    out.folded.representative.push_back(InstanceId{static_cast<std::uint32_t>(lone.instances.size())});
    out.folded.class_size.push_back(1);
    lone.add_instance(plan.instances[rank], slots);
  }
  return made;
}

}  // namespace orrery::workloads
