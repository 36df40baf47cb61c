// What the mask leaves out, taken off the count of the whole square: a query at position i sees min(i, window) keys, so
// s queries see w (s - w / 2) pairs for a window of w, s^2 / 2 without one; of chunks half of each. Left out: the
// diagonal, half of which this counts, as the kernels' own benchmarks do.
#include "workloads/model/causal_flops.h"

#include <algorithm>
#include <variant>
#include <vector>

#include "workloads/model/families/families.h"

namespace orrery::workloads {

namespace {

/// FLOPs of a layer's attention in a forward pass over one sequence that the mask leaves out.
double masked_flops(const Layer& layer) {
  double flops = 0;
  for (const LayerOp& op : layer.ops) {
    if (const auto* mixer = std::get_if<MixerOp>(&op)) flops += mixer->masked;
    const auto* attention = std::get_if<AttentionOp>(&op);
    if (attention == nullptr || !attention->causal) continue;
    const auto seq = static_cast<double>(attention->seq);
    const double span = keys_reached(*attention);
    const double counted = seq * span, seen = attention->window.chunked ? counted / 2 : span * (seq - span / 2);
    const double width = static_cast<double>(attention->heads) * static_cast<double>(attention->head_dim);
    flops += 4 * static_cast<double>(attention->batch) * width * (counted - seen);
  }
  return flops;
}

}  // namespace

double causal_model_flops(const Model& model, std::int64_t global_batch) {
  Computation computation;
  computation.style.head.pads_vocabulary = false;
  const Network whole = network(model, {}, computation);
  std::vector<double> kinds;
  for (const Layer& layer : whole.kinds) kinds.push_back(masked_flops(layer));
  double masked = 0;
  for (const std::uint8_t kind : whole.layers) masked += kinds[kind];
  // Backward does twice the work of forward.
  return model_flops(model, global_batch) - 3 * static_cast<double>(global_batch) * masked;
}

}  // namespace orrery::workloads
