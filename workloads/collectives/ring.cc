// Ring collectives (Patarasuk & Yuan, JPDC 2009; as NCCL runs them): all-gather and reduce-scatter send (n-1)/n of the
// buffer in n - 1 steps, all-reduce twice that. A part of the buffer passes `nodes` network stages and n - nodes stages
// inside nodes on its way round:
//   time = base + p nodes (net + path) + p (n - nodes) node + p (n - 1) gap + p (n-1)/n bytes / rate,
// p = 2 for all-reduce, else 1: latencies add up along a part's way, the gap over the parts that one link carries.
// Not modelled: the reduction's arithmetic.
#include <algorithm>

#include "workloads/collectives/algorithm.h"

namespace orrery::workloads {

namespace {

double share_capped(const Call& call, const Protocol& protocol) {
  return protocol.share < 1.0 ? call.rate * protocol.share : 0.0;
}

}  // namespace

Estimate ring(const Call& call, const Protocol& protocol) {
  const bool simple = protocol.kind == Protocol::Kind::simple;
  const double base = simple ? sim::to_seconds(call.software.library.collective_base) : protocol.ring_base;
  const double net = simple ? sim::to_seconds(call.software.library.collective_step_ring) : protocol.ring_net;
  const double node = simple ? sim::to_seconds(call.software.library.collective_step_node) : protocol.ring_node;
  const double passes = call.all_reduces() ? 2 : 1;
  Estimate out;
  out.latency = base + passes * (call.nodes() * net + (call.ranks() - call.nodes()) * node) +
                passes * (call.ranks() - 1) * sim::to_seconds(call.shape.gap);
  out.work = passes * call.bytes * (call.ranks() - 1) / call.ranks();
  out.rate_cap = share_capped(call, protocol);
  out.pattern = call.all_reduces() ? Pattern::twice : Pattern::around;
  return out;
}

/// NVIDIA/nccl, src/graph/tuning.cc: ncclTopoTuneModel and ncclTopoGetAlgoTime, for rings on machines with a NIC
/// latency of 0.6 us and a cost of 1 us to post a message, and what the fabric's gap adds (choice.cc).
double believed_ring(const Call& call, const Protocol& protocol) {
  constexpr double kNicLatency = 0.6e-6, kPost = 1e-6;
  const bool simple = protocol.kind == Protocol::Kind::simple, ll = protocol.kind == Protocol::Kind::ll;
  const double passes = call.all_reduces() ? 2 : 1;
  const double steps = passes * (call.ranks() - 1), between = passes * (call.nodes() - 1);
  const double net =
      (call.shape.per_node == 1 ? protocol.tree_net : protocol.ring_net) + (simple ? 2 : 1) * kNicLatency;
  const double node = std::max(protocol.ring_node, (simple ? 3 : 1) * kPost);
  double latency = protocol.ring_base + (steps - between) * node + between * net;
  if (simple && call.all_reduces()) latency *= 1.4;  // "plateau effect of ring"
  const double rate =
      ll ? std::min(0.5 * call.line_rate, call.shape.nodes <= 2 ? 22.5e9 : 19e9) : (simple ? 1 : 0.92) * call.line_rate;
  return latency + steps * sim::to_seconds(call.shape.gap) + call.bytes * steps / call.ranks() / rate;
}

/// The root's chunks follow each other along a chain of all ranks; a stage passes a chunk of 512 KiB on per channel:
///   time = base + (nodes - 1) (net + path) + (n - nodes) node + (bytes + (stages - 1) chunk) / rate
Estimate broadcast(const Call& call, const Protocol& protocol) {
  const bool simple = protocol.kind == Protocol::Kind::simple;
  const double base = simple ? sim::to_seconds(call.software.library.collective_base) : protocol.ring_base;
  const double net = simple ? sim::to_seconds(call.software.library.collective_step_ring) : protocol.ring_net;
  const double node = simple ? sim::to_seconds(call.software.library.collective_step_node) : protocol.ring_node;
  constexpr double kChunk = 512 * 1024;
  const double in_flight = std::min(kChunk * call.channels(), call.bytes);
  const double inside = call.ranks() - call.nodes();
  Estimate out;
  out.latency =
      base + (call.nodes() - 1) * net + inside * node + (call.nodes() - 2) * in_flight / (call.rate * protocol.share);
  if (inside > 0) out.latency += inside * in_flight / (call.node_rate() * protocol.share);
  out.work = call.bytes;
  out.rate_cap = share_capped(call, protocol);
  out.pattern = Pattern::around;
  return out;
}

}  // namespace orrery::workloads
