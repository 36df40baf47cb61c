// Parameters and floating-point operations of a model, as the contract's Metrics define them.
//
// For a plain GPT the sums below are the closed forms of Narayanan et al. (arXiv 2104.04473, equations 2 and 3):
// P = 12 l h^2 (1 + 13/12h + (V+s)/12lh) and F = 72 B s l h^2 (1 + s/6h + V/12lh), 96 B s l h^2 (1 + s/6h + V/16lh)
// with full recompute. They count the whole square of the attention matrix, causal or not. Written as sums over the
// parts so that grouped-query attention, gated MLPs, other feed-forward sizes and windows follow.
#include "workloads/step.h"

namespace orrery::workloads {

namespace {
double d(std::int64_t x) { return static_cast<double>(x); }

/// FLOPs of one forward pass over one sequence.
struct ForwardFlops {
  double linear = 0;          // the layers' GEMMs
  double attention_core = 0;  // QK^T and PV
  double head = 0;            // LM head
};

ForwardFlops forward_flops(const Model& model) {
  const double h = d(model.hidden), s = d(model.seq), layers = d(model.layers);
  const double kv = d(model.kv_heads * model.head_dim());
  const double mlp_projections = model.gated_mlp ? 3.0 : 2.0;
  const double span = model.attention_window > 0 ? std::min(s, d(model.attention_window)) : s;
  ForwardFlops flops;
  flops.linear = layers * 2 * s * (h * (h + 2 * kv) + h * h + mlp_projections * h * d(model.ffn_hidden));
  flops.attention_core = layers * 4 * s * span * h;
  flops.head = 2 * s * h * d(model.vocab);
  return flops;
}
}  // namespace

double parameter_count(const Model& model) {
  const double h = d(model.hidden), f = d(model.ffn_hidden), kv = d(model.kv_heads * model.head_dim());
  const double attention = h * (h + 2 * kv) + (h + 2 * kv) + h * h + h;
  const double up = model.gated_mlp ? 2 : 1;
  const double mlp = up * (h * f + f) + f * h + h;
  const double norms = model.parallel_block ? 2 * h : 4 * h;
  const double head = model.tied_embeddings ? 0 : d(model.vocab) * h;
  return d(model.layers) * (attention + mlp + norms) + d(model.vocab + model.seq) * h + head;
}

double model_flops(const Model& model, std::int64_t global_batch) {
  const ForwardFlops f = forward_flops(model);
  return 3 * d(global_batch) * (f.linear + f.attention_core + f.head);  // backward does twice the work of forward
}

double hardware_flops(const Model& model, std::int64_t global_batch, Recompute recompute) {
  const ForwardFlops f = forward_flops(model);
  double flops = model_flops(model, global_batch);
  if (recompute == Recompute::full) flops += d(global_batch) * (f.linear + f.attention_core);
  if (recompute == Recompute::selective) flops += d(global_batch) * f.attention_core;
  return flops;
}

}  // namespace orrery::workloads
