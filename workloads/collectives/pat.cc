// NCCL's parallel aggregated trees (Jeaugey, arXiv 2506.20252; NCCL 2.23 on): all-gathers and reduce-scatters of one
// GPU per node, in as many rounds as a binomial tree has levels, a tree for each part. The farthest ranks come first,
// while a rank has its own part alone, and the nearest last, with half of all parts: what crosses the upper switches is
// little, unlike Bruck's rounds. Of n ranks each sends floor((n - 1 + d) / 2d) parts over the distances d = 1, 2, 4,
// ... (as many offsets below n have d as their lowest bit), n - 1 in all:
//   time = base + R net / 3.5 + n 2.8 us + sum over rounds (longest path) + (n-1)/n bytes / (0.75 rate), R = ceil(log2
//   n)
// 3.5, 2.8 us and 0.75 are how NCCL itself rates it (NVIDIA/nccl, src/graph/tuning.cc, 2.30); there is no measurement
// here to check them by. A reduce-scatter goes the same ways backwards.
//
// Left out: buffers that hold less than half of all parts, of which NCCL makes further rounds near the end.
#include <cmath>

#include "workloads/collectives/catalogue.h"

namespace orrery::workloads {

namespace {

constexpr double kNetShare = 1 / 3.5, kPart = 2.8e-6, kRateShare = 0.75;

}  // namespace

Estimate pat(const Call& call, const Protocol&) {
  const auto& library = call.software.library;
  Estimate out;
  out.own_paths = call.levels();
  out.latency = sim::to_seconds(library.collective_base) +
                out.own_paths * kNetShare * sim::to_seconds(library.collective_step_ring) + kPart * call.ranks();
  out.work = wire_bytes(call.op, call.shape.ranks, call.bytes);
  out.rate_cap = kRateShare * call.rate;
  out.pattern = Pattern::own;
  return out;
}

/// NVIDIA/nccl, src/graph/tuning.cc, as believed_ring.
double believed_pat(const Call& call, const Protocol& protocol) {
  constexpr double kBase = 8e-6, kNicLatency = 0.6e-6;
  const double net = protocol.tree_net + 2 * kNicLatency;
  return kBase + std::floor(std::log2(call.nodes())) * kNetShare * net + kPart * call.ranks() +
         call.bytes * (call.ranks() - 1) / call.ranks() / (kRateShare * call.line_rate);
}

OwnRoute pat_route(std::span<const std::int64_t> gpus, const topology::Cluster& cluster) {
  return route_of_rounds(gpus, cluster, Towards::above,
                         [](std::size_t n, std::size_t distance) { return (n - 1 + distance) / (2 * distance); });
}

}  // namespace orrery::workloads
