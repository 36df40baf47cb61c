// See weight_traffic.h.
#include "workloads/traffic/weight_traffic.h"

#include <array>
#include <numeric>

#include "sim/real.h"
#include "workloads/traffic/closed_form_parameters.h"

namespace orrery::workloads {

namespace {

using sim::real;

/// Queries, keys and values; attention's projection; up; down.
using Matrices = std::vector<double>;

Matrices matrices_of(const Model& m, std::int64_t tensor) {
  const double t = real(tensor), h = real(m.hidden), a = real(m.attention_width()), f = real(m.mlp.hidden);
  const double kv = real(m.attention.kv_heads * m.head_dim()), up = m.mlp.gated ? 2 : 1;
  return {(a + 2 * kv) * h / t, a * h / t, up * f * h / t, f * h / t};
}

/// Elements gathered where these are used in turn and stay for `distance`.
double gathered_in_turn(const std::vector<std::size_t>& turns, const Matrices& matrices, double distance) {
  double sum = 0;
  for (std::size_t i = 0; i < turns.size(); ++i) {
    double between = 0;
    std::size_t before = i;
    while (before > 0 && turns[before - 1] != turns[i]) between += matrices[turns[--before]];
    const bool here = before > 0 && between <= distance;
    if (!here) sum += matrices[turns[i]];
  }
  return sum;
}

/// What a layer's backward pass uses, in order.
std::vector<std::size_t> backward_turns(const Method& method, bool down_again) {
  if (method.recompute == Recompute::full && !down_again) return {0, 1, 2, 3, 2, 1, 0};
  if (method.recompute == Recompute::full) return {0, 1, 2, 3, 3, 2, 1, 0};
  if (method.recompute == Recompute::none) return {3, 2, 1, 0};
  // A part that runs again does so right ahead of its own backward pass.
  const RecomputedParts& parts = method.recomputed;
  const std::array<bool, 4> again{parts.qkv, parts.attention_out, parts.mlp, parts.mlp_down && down_again};
  std::vector<std::size_t> turns;
  for (std::size_t matrix = 4; matrix-- > 0;) turns.insert(turns.end(), again[matrix] ? 2 : 1, matrix);
  return turns;
}

}  // namespace

bool WeightTraffic::goes_by_weight() const {
  const calibration::FetchStyle& style = software.fetches;
  const bool apart = layout.inside.weights > 0 || layout.inside.gradients > 0 || layout.inside.secondary > 0 ||
                     style.quantised_fetches() || style.quantised_reductions();
  const bool in_part = method.recomputed_layers > 0 ||
                       (method.recompute == Recompute::selective && method.recomputed.every_second_product);
  return style.by_weight() && !apart && !method.adapters.any() && !model.experts.any() && !model.pattern.any() &&
         !model.parallel_block && !in_part;
}

GatheredElements WeightTraffic::of(double whole) const {
  if (!goes_by_weight()) return {whole, whole, 0};
  const bool pads = software.layers.head.pads_vocabulary;
  const ShardParameters shard =
      shard_parameters(model, layout.tensor, pads, true, layout.inside.tensor_in, software.layers.head.whole_embedding);
  const Matrices matrices = matrices_of(model, layout.tensor);
  const double layers = real(model.layers), layer = std::accumulate(matrices.begin(), matrices.end(), 0.0);
  const double head = real(padded_vocab(model.vocab, layout.tensor, pads)) / real(layout.tensor) * real(model.hidden);
  const calibration::LinearStyle& linear = software.layers.linear;
  const bool down_again = method.recompute == Recompute::full
                              ? !stops_ahead_of_last_product(model, linear, method.adapters)
                              : makes_last_product_again(model, linear);
  GatheredElements out;
  out.forward = layers * layer + shard.embedding + head;
  out.backward =
      layers * gathered_in_turn(backward_turns(method, down_again), matrices, software.fetches.reuse_distance) +
      shard.embedding + head;
  out.after_step = layers * (shard.layer - layer) + real(model.norm_parameters()) / real(layout.inside.tensor_in);
  return out;
}

}  // namespace orrery::workloads
