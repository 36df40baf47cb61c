// What is left of the tensor groups' links when every other communicator takes all it can. See tensor_rate_limit.h and
// WholePasses::sure_rate. In step: every class of ranks meets only itself on its tensor communicator, at its own pace.
#include "workloads/groups/tensor_rate_limit.h"

#include <algorithm>
#include <limits>
#include <vector>

namespace orrery::workloads {

namespace {

using sim::CommunicatorId;
using sim::RouteId;

/// The highest rate of any transfer of the communicator: what its links leave it alone.
double highest_rate(const sim::Network& network, const sim::Communicator& communicator) {
  double highest = 0;
  for (std::uint32_t p = 0; p < communicator.patterns; ++p) {
    const RouteId route{sim::index(communicator.first_route) + p};
    if (!network.links_of(route).empty()) highest = std::max(highest, network.rate_alone(route));
  }
  return highest;
}

}  // namespace

bool runs_in_step(const Perturbation& perturbed, const Groups& groups) {
  if (!perturbed.slow_gpus.empty() || perturbed.jitter_sigma > 0 || perturbed.message_sigma > 0) return false;
  if (perturbed.routing.skew > 0) return false;
  const sim::Plan& plan = groups.folded.plan;
  for (std::uint32_t i = 0; i < plan.instances.size(); ++i) {
    const auto& stage = groups.slots[sim::index(plan.instances[sim::InstanceId{i}].program)];
    const auto slots = plan.slots_of(sim::InstanceId{i});
    for (std::size_t s = 0; s < slots.size(); ++s) {
      if (stage[s].group == CommGroup::tensor && plan.communicators[slots[s]].members != 1) return false;
    }
  }
  return true;
}

double tensor_rate_limit(const Perturbation& perturbed, const Groups& groups) {
  if (!runs_in_step(perturbed, groups)) return 0;
  return tensor_rate_limit(groups.folded.plan, groups.folded.network, groups.slots, true);
}

double tensor_rate_limit(const sim::Plan& plan, const sim::Network& network,
                         const std::vector<std::vector<GroupSlot>>& slots_of_stage, bool in_step) {
  std::vector<bool> is_tensor(plan.communicators.size(), false);
  for (std::uint32_t i = 0; i < plan.instances.size(); ++i) {
    const auto& stage = slots_of_stage[sim::index(plan.instances[sim::InstanceId{i}].program)];
    const auto slots = plan.slots_of(sim::InstanceId{i});
    for (std::size_t s = 0; s < slots.size(); ++s) {
      if (!(stage[s].group == CommGroup::tensor)) continue;
      if (in_step && plan.communicators[slots[s]].members != 1) return 0;
      is_tensor[sim::index(slots[s])] = true;
    }
  }
  std::vector<double> taken(network.capacity.size(), 0);
  std::vector<std::uint32_t> tensor_groups(network.capacity.size(), 0);
  const auto for_links = [&](std::uint32_t c, const auto& visit) {
    const sim::Communicator& communicator = plan.communicators[CommunicatorId{c}];
    for (std::uint32_t p = 0; p < communicator.patterns; ++p) {
      for (const auto& link : network.links_of(RouteId{sim::index(communicator.first_route) + p})) visit(link);
    }
  };
  for (std::uint32_t c = 0; c < is_tensor.size(); ++c) {
    const double rate = highest_rate(network, plan.communicators[CommunicatorId{c}]);
    for_links(c, [&](const sim::WeightedLink& link) {
      if (is_tensor[c])
        ++tensor_groups[sim::index(link.link)];
      else
        taken[sim::index(link.link)] += rate * link.weight;
    });
  }
  double limit = std::numeric_limits<double>::infinity();
  for (std::uint32_t c = 0; c < is_tensor.size(); ++c) {
    if (!is_tensor[c]) continue;
    for_links(c, [&](const sim::WeightedLink& link) {
      const std::size_t l = sim::index(link.link);
      const double left = tensor_groups[l] > 1 ? 0 : network.capacity[link.link] - taken[l];
      limit = std::min(limit, std::max(0.0, left) / link.weight);
    });
    const sim::Communicator& communicator = plan.communicators[CommunicatorId{c}];
    if (network.route_latency[sim::index(communicator.first_route)].value() != 0) return 0;  // it spans nodes
  }
  return limit;
}

}  // namespace orrery::workloads
