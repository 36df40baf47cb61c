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
  const double h = d(model.hidden), s = d(model.seq), layers = d(model.layers), a = d(model.attention_width());
  const double kv = d(model.kv_heads * model.head_dim());
  const double mlp_projections = model.gated_mlp ? 3.0 : 2.0;
  const double span = model.attention_window > 0 ? std::min(s, d(model.attention_window)) : s;
  ForwardFlops flops;
  flops.linear = layers * 2 * s * (h * (a + 2 * kv) + a * h + mlp_projections * h * d(model.ffn_hidden));
  flops.attention_core = layers * 4 * s * span * a;
  flops.head = 2 * s * h * d(model.vocab);
  return flops;
}
}  // namespace

double parameter_count(const Model& model) {
  const double h = d(model.hidden), f = d(model.ffn_hidden), kv = d(model.kv_heads * model.head_dim());
  const double a = d(model.attention_width()), qkv_bias = model.biases == Biases::none ? 0 : 1;
  const double bias = model.biases == Biases::all ? 1 : 0;
  const double attention = (h + qkv_bias) * (a + 2 * kv) + a * h + bias * h;
  const double up = model.gated_mlp ? 2 : 1;
  const double mlp = up * (h + bias) * f + f * h + bias * h;
  const double norms = (model.parallel_block ? 1 : 2) * d(model.norm_parameters());
  const double head = model.tied_embeddings ? 0 : d(model.vocab) * h;
  const double positions = model.positions == Positions::learned ? d(model.seq) : 0;
  return d(model.layers) * (attention + mlp + norms) + (d(model.vocab) + positions) * h + head;
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
