// Two levels (Mikami et al., arXiv 1811.05233; BlueConnect, Cho et al., MLSys 2019): a reduce-scatter inside each node,
// then every rail all-reduces its part over the nodes, then an all-gather inside; an all-gather or a reduce-scatter
// takes the half of it. With R = reduce-scatter, G = all-gather inside a node, m nodes, L = ceil(log2 m):
//   ring: R + G + base + 2 m (net + path) + 2 (m-1)/m bytes / rate    (once round and R or G alone for the halves)
//   tree: R + G + base + 2 L (net + path) + 2 bytes / rate
// bytes over all rails of a node. The levels follow each other. Not modelled: chunks that overlap them, nor the load on
// NVLink beside other traffic. NCCL has neither; they run where named.
#include "workloads/collectives/algorithm.h"

namespace orrery::workloads {

namespace {

double inside_of(const Call& call) {
  double seconds = 0;
  if (call.op != CollectiveOp::all_gather) seconds += call.inside(CollectiveOp::reduce_scatter, call.bytes);
  if (call.op != CollectiveOp::reduce_scatter) seconds += call.inside(CollectiveOp::all_gather, call.bytes);
  return seconds;
}

}  // namespace

Estimate hierarchical_ring(const Call& call, const Protocol&) {
  const double passes = call.all_reduces() ? 2 : 1;
  Estimate out;
  out.latency = inside_of(call) + sim::to_seconds(call.software.library.collective_base) +
                passes * call.nodes() * sim::to_seconds(call.software.library.collective_step_ring);
  out.work = passes * call.bytes * (call.nodes() - 1) / call.nodes();
  out.pattern = call.all_reduces() ? Pattern::twice : Pattern::around;
  return out;
}

Estimate hierarchical_tree(const Call& call, const Protocol&) {
  const double stages = 2 * call.levels();
  Estimate out;
  out.latency = inside_of(call) + sim::to_seconds(call.software.library.collective_base) +
                stages * sim::to_seconds(call.software.library.collective_step_tree) + (stages - 1) * call.hop();
  out.work = tree_bytes(call.bytes, call.shape.nodes);
  out.pattern = Pattern::across;
  return out;
}

}  // namespace orrery::workloads
