// One collective alone on a cluster, size after size, as benchmarks measure it. All members would arrive at the same
// time, so one instance stands for the group: what the group loads on the network is in its route.
#include <algorithm>
#include <array>

#include "sim/engine.h"
#include "sim/error.h"
#include "workloads/collectives/catalogue.h"
#include "workloads/collectives/collective.h"

namespace orrery::workloads {

namespace {

/// Every GPU to the next, round in a circle, all at once.
sim::RouteId add_circle_route(sim::Network& network, std::span<const std::int64_t> gpus,
                              const topology::Cluster& cluster) {
  std::vector<sim::WeightedLink> links;
  sim::Duration latency{};
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    const topology::Path path = cluster.path(gpus[i], gpus[(i + 1) % gpus.size()], i);
    append_links(links, path.links, 1.0, cluster);
    latency = std::max(latency, path.latency);
  }
  return network.add_route(links, latency);
}

/// The slower of the messages inside nodes and between them holds the circle back.
CollectiveCost circle_cost(double bytes, const GroupShape& shape, const calibration::DeviceProfile& device,
                           const calibration::Software& software) {
  CollectiveCost cost = send_cost(bytes, shape.nodes == 1, device, software);
  if (shape.nodes > 1 && shape.per_node > 1) {
    const CollectiveCost inside = send_cost(bytes, true, device, software);
    cost.latency = std::max(cost.latency, inside.latency);
    cost.rate_cap = inside.rate_cap;
  }
  return cost;
}

/// Those that the software may choose, and the one that was asked for.
calibration::CollectiveAlgorithms own_routes(const calibration::Software& software, std::string_view asked) {
  calibration::CollectiveAlgorithms used = software.library.collective_algorithms;
  for (const Algorithm& a : algorithms()) {
    if (asked == a.name || asked == name_of(a.family)) used.add(a.family);
  }
  return with_own_routes(used);
}

}  // namespace

std::vector<TimedCollective> time_collective(CollectiveOp op, std::span<const double> sizes,
                                             std::span<const std::int64_t> gpus, const topology::Cluster& cluster,
                                             const calibration::DeviceProfile& device,
                                             const calibration::Software& software, std::string_view algorithm) {
  SIM_CHECK(gpus.size() >= 2, "a collective of {} GPUs", gpus.size());
  sim::Plan plan;
  sim::Network network;
  for (const auto& link : cluster.links()) network.add_link(link.capacity);
  const GroupShape shape = shape_of(gpus, cluster);
  const bool reduces = op == CollectiveOp::all_reduce, circle = op == CollectiveOp::send_receive;
  const bool exchange = op == CollectiveOp::all_to_all;
  GroupCalls calls;
  if (!circle && !exchange) calls = {reduces, own_routes(software, algorithm)};
  const sim::RouteId first = circle     ? add_circle_route(network, gpus, cluster)
                             : exchange ? add_exchange_route(network, gpus, cluster, shape.exchange)
                                        : add_group_routes(network, gpus, shape, calls, cluster);
  const std::array<sim::CommunicatorId, 1> group{plan.communicators.push_back({1, first, patterns_of(shape, calls)})};
  std::vector<TimedCollective> out;
  sim::Program program;
  for (const double bytes : sizes) {
    const CollectiveCost cost = circle ? circle_cost(bytes, shape, device, software)
                                       : collective_cost(op, bytes, shape, device, software, cluster, algorithm);
    sim::Op call;
    call.kind = sim::OpKind::transfer;
    call.slot = 0;
    call.duration = cost.latency;
    call.work = cost.work;
    call.rate_cap = cost.rate_cap;
    call.pattern = static_cast<std::uint32_t>(cost.pattern);
    program.add(call);
    out.push_back({bytes, {}, cost.algorithm});
  }
  const sim::InstanceId instance = plan.add_instance({plan.programs.push_back(std::move(program)), 1.0, 0}, group);
  const sim::Result result = sim::run(plan, network, {{instance}});
  SIM_CHECK(result.outcome == sim::Outcome::finished, "a collective alone is stuck");
  const sim::Record& record = result.records.front();
  for (std::size_t i = 0; i < out.size(); ++i) out[i].time = record.finish[i] - record.start[i];
  return out;
}

}  // namespace orrery::workloads
