// Double binary tree all-reduce (Sanders, Speck & Träff, Parallel Computing 2009; NCCL 2.4): two trees, each carrying
// half of the buffer, every node an inner node of one and a leaf of the other, so that a node sends 2 x bytes in all.
// Inside a node the ranks form a chain. Latency: up and down log2(nodes) network levels and the chain.
#include <cmath>
#include <limits>

#include "workloads/collectives/collective.h"

namespace orrery::workloads {

Estimate double_binary_tree(double bytes, const GroupShape& shape, double rate, const calibration::Software& software) {
  const double levels = 2 * std::ceil(std::log2(static_cast<double>(shape.nodes)));
  const double chain = 2 * static_cast<double>(shape.per_node - 1);
  const double wire = 2 * bytes;
  Estimate best;
  double best_s = std::numeric_limits<double>::infinity();
  for (const Protocol& protocol : protocols()) {
    const bool simple = protocol.bandwidth_share == 1.0;
    const double base = simple ? sim::to_seconds(software.collective_base) : protocol.base_us * 1e-6;
    const double net = simple ? sim::to_seconds(software.collective_step_tree) : protocol.tree_net_us * 1e-6;
    const double node = simple ? sim::to_seconds(software.collective_step_node) : protocol.node_us * 1e-6;
    const double latency = base + levels * net + chain * node;
    const double total = latency + wire / (rate * protocol.bandwidth_share);
    if (total < best_s) {
      best_s = total;
      best = {sim::seconds(latency), wire, protocol.bandwidth_share, "tree"};
    }
  }
  return best;
}

}  // namespace orrery::workloads
