// All-reduce in the network's switches (SHARP: Graham et al., COMHPC 2016; NCCL's CollNet): a rank adds its part up
// over the node, sends it to the switches, which add up all nodes' and send the sum back. Every node sends the buffer
// once, whatever the number of nodes:
//   time = 2 (3.7 us + 0.4 us (g-1)) + 31 us + path + bytes / rate     (g > 1 ranks per node)
// Latencies: NVIDIA/nccl, src/graph/tuning.cc (2.30), CollNetDirect. Not modelled: the latency of the switches' tree
// beyond one path, and switches that cannot hold all reductions at once.
#include "workloads/collectives/algorithm.h"

namespace orrery::workloads {

Estimate sharp(const Call& call, const Protocol&) {
  constexpr double kNode = 3.7e-6, kEach = 0.4e-6, kNet = 31e-6;
  Estimate out;
  out.latency = kNet + (call.shape.per_node > 1 ? 2 * (kNode + kEach * (call.per_node() - 1)) : 0.0);
  out.work = call.bytes;
  out.rate_cap = in_switch_cap(call, out.work);
  out.pattern = Pattern::across;
  return out;
}

}  // namespace orrery::workloads
