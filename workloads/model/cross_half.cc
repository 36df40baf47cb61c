// See cross_half.h. One product makes queries, one keys and values of the encoder's output, whose gradients the blocks
// of the decoder add up (NVIDIA/Megatron-LM, megatron/core/transformer/attention.py, CrossAttention: linear_q,
// linear_kv; models/T5/t5_spec.py). Tensor ranks cut both by heads; where they cut sequences too, each gathers the
// encoder's output for its own heads.
//
// Left out: that the encoder's output is kept once for all blocks, which the head does (hybrid.cc).
#include "workloads/model/cross_half.h"

#include <utility>

#include "sim/real.h"

namespace orrery::workloads {

namespace {

using calibration::Streaming;
using sim::real;

/// The model whose tokens are those that the encoder read.
Model read_by(const Model& seen) {
  Model source = seen;
  source.seq = seen.source;
  return source;
}

}  // namespace

CrossHalf::CrossHalf(LayerWriter& block, const Model& seen)
    : block_(block),
      m_(seen),
      read_(read_by(seen)),
      w_(m_, block.split(), block.computation()),
      source_(read_, block.split(), block.computation()),
      z_(w_.sizes()),
      e_(w_.element()) {}

void CrossHalf::bias(const LayerWriter& writer, const char* name, double elements) {
  if (m_.biases == Biases::none || writer.style().linear.bias_in_gemm) return;
  w_.backward("cross bias gradient", Streaming::accumulate, elements, e_);
  w_.forward(name, Streaming::accumulate, elements, 2 * e_);
}

void CrossHalf::write() {
  const Sizes& read = source_.sizes();
  w_.half_norm();
  w_.cast_input();
  w_.column({w_.product("cross query", z_.q, z_.width)}, w_.enter(), LinearOp::Part::attention_in);
  bias(w_, "add cross query bias", z_.of_token(z_.q));
  w_.cast_gradient(z_.of_token(z_.q));
  w_.backward("add encoder output gradients", Streaming::accumulate, read.outside, 3 * e_);
  w_.cast(read.outside, "cast encoder output", Direction::forward);
  w_.column({source_.product("cross keys and values", z_.kv_made + z_.values_made, z_.width)}, source_.enter(),
            LinearOp::Part::attention_in);
  const double made = read.of_token(z_.kv_made + z_.values_made);
  bias(source_, "add cross key and value bias", made);
  w_.cast_gradient(made);
  AttentionOp attention = attention_op(w_, z_.heads, z_.kv_heads, m_.mean_head_dim(), 0);
  attention.other_keys = m_.source;
  attention.causal = attention.position_bias = false;
  w_.add(attention);
  w_.cast(z_.shared(m_.output_width()), "cast attention output", Direction::forward);
  w_.row("cross projection", z_.out, LinearOp::Part::attention_out);
  w_.leave();
  w_.bias_dropout_residual();
  for (LayerOp& op : w_.take()) block_.add(std::move(op));
}

void CrossHalf::keep(Layer& layer) const {
  const double outside = z_.outside, q = z_.of_token(z_.q), out = z_.of_token(z_.out);
  const double kv = source_.sizes().of_token(z_.kv + z_.values), rows = z_.of_token(z_.heads);
  const Computation& computation = w_.computation();
  const bool fused = computation.attention == AttentionKind::flash, dropout = w_.style().dropout;
  const bool core_again = computation.again(&RecomputedParts::core_attention);
  const KeptAs core = core_again ? KeptAs::recomputed : KeptAs::tensor;
  const auto kept = [&](const char* name, double elements, double bytes, KeptAs as = KeptAs::tensor) {
    layer.kept.push_back({name, elements, bytes, kFeedForward, as});
  };
  kept("norm input", outside, e_);
  kept("linear input", w_.style().linear.keeps_gathered_inputs ? z_.hidden : outside, kept_input(w_),
       computation.again(&RecomputedParts::norms) ? KeptAs::recomputed : KeptAs::tensor);
  if (dropout) kept("dropout mask", outside, 1);
  kept("queries", q, e_);
  kept("keys and values of the encoder's output", kv, e_);
  kept("attention output", out, kept_input(w_), core);
  if (fused)
    kept("log-sum-exp of scores", rows, 4, core);
  else
    kept("scores", rows * real(m_.source), dropout ? 2 * e_ + 1 : e_, core);
  layer.working.push_back({"residual gradients", 2 * outside, e_, kFeedForward});
  layer.working.push_back({"gradients of queries and output", q + out, e_, kFeedForward});
  layer.working.push_back({"gradients of keys and values", kv, e_, kFeedForward});
  layer.working.push_back(fused ? Working{"query gradient in fp32", q, 4, kFeedForward}
                                : Working{"gradients of scores", 2 * rows * real(m_.source), e_, kFeedForward});
  const double read = source_.sizes().outside;
  layer.between.push_back({"cross attention's linear inputs", outside + read + out, kept_input(w_)});
  layer.between.push_back({"cross attention's linear output gradients", outside + q + kv, kept_input(w_)});
}

void CrossHalf::weigh(Layer& layer) const {
  const double t = z_.parts(), h = real(z_.width), q = real(m_.attention_width()), out = real(m_.output_width());
  layer.weights.push_back({"cross query", q * h / t, h});
  layer.weights.push_back({"cross keys and values", real(m_.kv_made()) * h / t, h});
  layer.weights.push_back({"cross projection", out * h / t, out / t});
  if (m_.biases != Biases::none) layer.weights.push_back({"cross biases", (q + real(m_.kv_made())) / t});
  if (w_.has_biases()) layer.weights.push_back({"cross projection bias", h});
  layer.weights.push_back({"cross norm", real(m_.norm_parameters())});
  layer.weights.back().tensors = static_cast<std::int32_t>(m_.norm_parameters() / m_.hidden);
}

}  // namespace orrery::workloads
