// What one call costs. See collective.h.
#include "workloads/collectives/collective.h"

#include <algorithm>
#include <cmath>

#include "sim/error.h"
#include "workloads/collectives/catalogue.h"

namespace orrery::workloads {

double wire_bytes(CollectiveOp op, std::int64_t ranks, double bytes) {
  if (ranks <= 1) return 0;
  const double share = static_cast<double>(ranks - 1) / static_cast<double>(ranks);
  switch (op) {
    case CollectiveOp::all_reduce:
      return 2 * share * bytes;
    case CollectiveOp::all_gather:
    case CollectiveOp::reduce_scatter:
    case CollectiveOp::all_to_all:
      return share * bytes;
    case CollectiveOp::broadcast:
    case CollectiveOp::send_receive:
      return bytes;
  }
  return bytes;
}

double least_bytes_between_nodes(CollectiveOp op, double bytes, const GroupShape& shape,
                                 const calibration::Software& software) {
  using enum calibration::CollectiveAlgorithm;
  const auto& allowed = software.library.collective_algorithms;
  double least = wire_bytes(op, shape.ranks, bytes);
  if (allowed.has(hierarchical_ring)) least = std::min(least, wire_bytes(op, shape.nodes, bytes));
  if (op == CollectiveOp::all_reduce && (allowed.has(sharp) || shape.nodes == 2)) least = std::min(least, bytes);
  return least;
}

namespace {

constexpr std::int64_t kLongBuffer = 1 << 30;  // bytes, whose rate no start-up holds back

/// Without a cluster: a call whose rates nobody asks for.
Call call_of(CollectiveOp op, double bytes, const GroupShape& shape, const calibration::DeviceProfile& device,
             const calibration::Software& software, const topology::Cluster* cluster) {
  Call call{op, bytes, shape, 1, 1, device, software};
  if (cluster == nullptr) return call;
  const topology::Cluster::NicRate nic = shape.nic.value_or(cluster->nic_rate(0));
  const double line = nic.line.value(), pcie = nic.pcie.value();
  call.rate = call.rails() * std::min(line * cluster->fabric_spec().efficiency, pcie);
  call.line_rate = call.rails() * std::min(line, pcie);
  return call;
}

/// What a chain of ranks in one node takes to fill before the last has its first chunk, at the `rate` of a long buffer:
/// a rank passes 512 KiB on per channel when all of it is there (NVIDIA/nccl 2.18, src/collectives/device/reduce.h and
/// broadcast.h: a chunk is one of eight steps of a buffer of 4 MiB). Behind an NVSwitch NCCL runs two channels per
/// link, 24 at most (log of an HGX A100 in NVIDIA/nccl-tests issue 100); elsewhere one pair of channels.
sim::Duration chain_fill(double bytes, const GroupShape& shape, sim::Bandwidth rate, const topology::NodeSpec& node) {
  constexpr double kChunk = 512 * 1024, kMostChannels = 24;
  const bool switched = node.kind == topology::NodeSpec::Kind::nvswitch;
  const double channels = switched ? std::min(kMostChannels, 2 * static_cast<double>(node.links)) : kChannelsPerRail;
  return sim::seconds(static_cast<double>(shape.ranks - 2) * std::min(kChunk * channels, bytes) / rate.value());
}

/// Of one GPU to the others of its node, all links; of a mesh those of its first GPU.
double line_rate(const topology::NodeSpec& node) {
  if (node.kind != topology::NodeSpec::Kind::mesh) return node.rate.value();
  double rate = 0;
  for (const topology::NodeSpec::MeshLink& link : node.mesh) rate += link.a == 0 ? link.rate.value() : 0;
  return rate;
}

/// The kernels of a library that sends tokens once, if it has any for this device and reach, put in the place of the
/// collective library's all-to-all. A layer dispatches and combines once in either pass, so that each call takes the
/// mean of the two kernels. In a domain the kernel reaches its share of the links; between nodes its SMs move rows
/// while links are shared as they are. Imbalance scales a row.
void take_kernels(CollectiveCost& cost, double bytes, const GroupShape& shape, const calibration::DeviceProfile& device,
                  const topology::Cluster& cluster) {
  using calibration::ExchangePass;
  const ExchangeStyle& style = shape.exchange;
  const calibration::TokenChoice& choice = style.choice;
  if (style.library.kernels == nullptr || style.tokens <= 0 || choice.experts < shape.ranks) return;
  const bool network = shape.nodes > 1;
  const double row = bytes / (style.tokens * static_cast<double>(choice.top_k));
  const auto ranks = static_cast<double>(shape.ranks), nodes = static_cast<double>(shape.nodes);
  calibration::TokenExchange exchange = calibration::even_exchange(style.tokens, row, static_cast<double>(choice.top_k),
                                                                   static_cast<double>(choice.experts), ranks, nodes);
  if (choice.groups > 1) {
    exchange.copies = ranks * calibration::reaches(choice, ranks);
    exchange.reached = nodes * calibration::reaches(choice, nodes);
  }
  exchange.processors = style.library.processors;
  double latency = 0, moving = 0;
  for (const ExchangePass pass : {ExchangePass::dispatch, ExchangePass::combine}) {
    const calibration::ExchangeKernel* kernel = style.library.kernels->kernel(device.name(), pass, network);
    if (kernel == nullptr) return;
    const double fixed = kernel->latency(exchange);
    latency += fixed / 2;
    moving += (network ? kernel->processor_seconds(exchange)
                       : kernel->alone(exchange, line_rate(cluster.node_spec())) - fixed) /
              2;
  }
  cost.latency = sim::seconds(latency);
  if (moving <= 0) return;
  const double cap = cost.work / moving;
  cost.rate_cap = network && cost.rate_cap > 0 ? std::min(cost.rate_cap, cap) : cap;
}

}  // namespace

std::vector<std::string_view> algorithms_of(CollectiveOp op, const GroupShape& shape,
                                            const calibration::DeviceProfile& device,
                                            const calibration::Software& software) {
  if (op == CollectiveOp::send_receive) return {"send"};
  if (shape.nodes == 1) return {"node"};
  std::vector<std::string_view> names;
  const auto add = [&](std::string_view name) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  };
  const Call call = call_of(op, 1, shape, device, software, nullptr);
  for (const Algorithm& a : algorithms()) {
    if (!a.fits(call)) continue;
    add(name_of(a.family));
    add(a.name);
  }
  return names;
}

CollectiveCost collective_cost(CollectiveOp op, double bytes, const GroupShape& shape,
                               const calibration::DeviceProfile& device, const calibration::Software& software,
                               const topology::Cluster& cluster, std::string_view algorithm) {
  CollectiveCost cost;
  if (shape.ranks <= 1) return cost;
  if (shape.nodes == 1) {
    SIM_CHECK(algorithm == kAuto || algorithm == "node" || algorithm == "send", "no algorithm '{}'", algorithm);
    // An exchange that sends tokens once is one of so many fewer bytes.
    const double equal = op == CollectiveOp::all_to_all && shape.exchange.once
                             ? exchange_load(shape).sum() / wire_bytes(op, shape.ranks, 1)
                             : 1;
    const auto timing =
        device.node_collective(op, shape.ranks, sim::Bytes(std::max<std::int64_t>(1, std::llround(bytes * equal))));
    cost.latency = timing.latency;
    if (op == CollectiveOp::broadcast) {
      const sim::Bandwidth rate = device.node_collective(op, shape.ranks, sim::Bytes(kLongBuffer)).rate;
      cost.latency += chain_fill(bytes, shape, rate, cluster.node_spec());
    }
    cost.work = timing.wire_bytes;
    cost.rate_cap = timing.rate.value();
    cost.algorithm = "node";
    if (op == CollectiveOp::all_to_all && shape.exchange.once) take_kernels(cost, bytes, shape, device, cluster);
    return cost;
  }
  const topology::FabricSpec& fabric = cluster.fabric_spec();
  if (op == CollectiveOp::send_receive) {  // around the ring; where it leaves a node, one message through one NIC
    cost = send_cost(bytes, false, device, software);
    cost.rate_cap = fabric.nic_rate.value() * fabric.efficiency;
    return cost;
  }
  const Call call = call_of(op, bytes, shape, device, software, &cluster);
  const Algorithm& chosen = choose(call, algorithm);
  const Estimate estimate = chosen.estimate(call, chosen.protocol);
  cost.pattern = pattern_of(chosen, estimate);
  cost.latency = sim::seconds(estimate.latency);
  cost.work = estimate.work;
  cost.rate_cap = estimate.rate_cap;
  cost.algorithm = chosen.name;
  if (op == CollectiveOp::all_to_all && shape.exchange.once) take_kernels(cost, bytes, shape, device, cluster);
  return cost;
}

CollectiveCost send_cost(double bytes, bool same_node, const calibration::DeviceProfile& device,
                         const calibration::Software& software) {
  CollectiveCost cost;
  cost.work = bytes;
  cost.algorithm = "send";
  if (same_node) {
    const auto timing = device.node_collective(CollectiveOp::send_receive, 2,
                                               sim::Bytes(std::max<std::int64_t>(1, std::llround(bytes))));
    cost.latency = timing.latency;
    cost.work = timing.wire_bytes;
    cost.rate_cap = timing.rate.value();
  } else {
    cost.latency = software.library.collective_base;
  }
  return cost;
}

}  // namespace orrery::workloads
