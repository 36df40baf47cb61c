// The protocols, and what the algorithms share. Stage latencies: NVIDIA/nccl, src/graph/tuning.cc (2.30), but for one:
// a tree's network stage under LL, there 5.0 us, is 6.8 us, so that the all-reduces of 1 to 8 KB on 2 to 16 nodes of
// A100 come out (nccl-tests log of Azure NDv4, in NetX-lab/Echo): they take 15.2 us + 9.6 us x stages to 1 %, 2.8 us of
// which are the path.
#include <algorithm>
#include <cmath>

#include "workloads/collectives/algorithm.h"

namespace orrery::workloads {

const std::array<Protocol, 3>& protocols() {
  using enum Protocol::Kind;
  static const std::array<Protocol, 3> table{{{ll, 6.6e-6, 6.8e-6, 0.6e-6, 0.6e-6, 2.7e-6, 6.8e-6, 0.5},
                                              {ll128, 14e-6, 14e-6, 1.9e-6, 1.25e-6, 4e-6, 8.5e-6, 0.9375},
                                              {simple, 8.4e-6, 8.4e-6, 3.4e-6, 4e-6, 14e-6, 14e-6, 1.0}}};
  return table;
}

double Call::levels() const {
  std::int64_t levels = 0;
  for (std::int64_t reach = 1; reach < shape.nodes; reach *= 2) ++levels;
  return static_cast<double>(levels);
}

double Call::node_rate() const {
  constexpr std::int64_t kLong = 1 << 30;
  return device.node_collective(CollectiveOp::all_gather, shape.per_node, sim::Bytes(kLong)).rate.value();
}

double Call::inside(CollectiveOp what, double size) const {
  const auto whole = sim::Bytes(std::max<std::int64_t>(1, std::llround(size)));
  return sim::to_seconds(device.node_collective(what, shape.per_node, whole).total());
}

double seconds_of(const Estimate& estimate, const Call& call) {
  double path = call.hop();
  if (estimate.pattern == Pattern::around) path *= call.nodes();
  if (estimate.pattern == Pattern::twice) path *= 2 * call.nodes();
  if (estimate.pattern == Pattern::own) path *= estimate.own_paths;
  const double rate = estimate.rate_cap > 0 ? std::min(estimate.rate_cap, call.rate) : call.rate;
  return estimate.latency + path + estimate.work / rate;
}

double in_switch_cap(const Call& call, double work) {
  if (!call.device.reduces_in_switch(call.shape.per_node)) return 0;
  constexpr std::int64_t kLong = 1 << 30;
  const auto inside = call.device.node_collective(CollectiveOp::all_reduce, call.shape.per_node, sim::Bytes(kLong));
  const double buffer_rate = static_cast<double>(kLong) * inside.rate.value() / inside.wire_bytes;
  const double cap = buffer_rate * work / std::max(1.0, call.bytes);
  return cap < call.rate ? cap : 0;
}

}  // namespace orrery::workloads
