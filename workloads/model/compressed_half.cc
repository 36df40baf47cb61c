// See compressed_half.h. Queries come by way of compressed ones, every head normalised; one head of the hidden state is
// key and value of all; a compressor makes a key of `ratio` tokens out of two products of the hidden state, values and
// gates, by a softmax over the tokens (of few tokens also over those of the key before, hence twice the width); the
// output is cut into groups of heads, each multiplied down, and projected (deepseek-ai/DeepSeek-V4-Pro, inference/
// model.py; NVIDIA/Megatron-LM, megatron/core/transformer/experimental_attention_variant/csa.py and
// deepseek_v4_hybrid_attention.py, which knows one tensor rank alone).
//
// Left out: rotating the output back, a sink's number of each head in the kernels, and hyper-connections, which are no
// part of attention.
#include "workloads/model/compressed_half.h"

#include "sim/real.h"

namespace orrery::workloads {

namespace {
using calibration::Streaming;
using sim::real;
}  // namespace

CompressedHalf::CompressedHalf(LayerWriter& writer)
    : w_(writer),
      m_(writer.model()),
      s_(m_.attention.sparse),
      z_(writer.sizes()),
      keys_(writer, {m_.attention.heads, m_.head_dim(), m_.head_dim(), m_.head_dim()}),
      e_(writer.element()),
      width_(m_.head_dim()) {}

void CompressedHalf::norm(const char* name, const char* name_backward, double elements) {
  w_.backward(name_backward, Streaming::layer_norm_backward, elements, 3 * e_);
  w_.forward(name, Streaming::layer_norm, elements, 2 * e_ + w_.fused_cast(LayerWriter::Maker::norm));
}

void CompressedHalf::compress() {
  if (s_.ratio == 0) return;
  const std::int64_t made = 2 * s_.copies() * width_;
  w_.column({w_.product("compressor", made, m_.hidden)}, {});
  const double read = z_.of_token(made), written = z_.of_token(width_) / real(s_.ratio);
  w_.backward("compress backward", Streaming::softmax_backward, read, 2 * e_ + e_ * written / read);
  w_.forward("compress", Streaming::softmax, read, e_ + e_ * written / read);
}

void CompressedHalf::write() {
  const std::int64_t heads = m_.attention.heads * width_;
  w_.half_norm();
  w_.cast(z_.outside, "cast input", Direction::forward, LayerWriter::Maker::norm);
  w_.column({w_.product("query down", s_.q_rank, m_.hidden), w_.product("key and value", width_, m_.hidden)}, {});
  w_.backward("add input gradients", Streaming::accumulate, z_.outside, 3 * e_);
  norm("query norm", "query norm backward", z_.of_token(s_.q_rank));
  w_.cast(z_.of_token(s_.q_rank), "cast compressed", Direction::forward, LayerWriter::Maker::norm);
  w_.column({w_.product("query up", heads, s_.q_rank)}, {});
  w_.cast_gradient(z_.of_token(heads));
  norm("norms of heads", "norms of heads backward", z_.of_token(heads + width_));
  w_.backward("rotate gradients", Streaming::copy, z_.of_token(heads + width_), 2 * e_);
  w_.forward("rotate", Streaming::copy, z_.of_token(heads + width_), 2 * e_);
  compress();
  keys_.choose(s_.q_rank);
  keys_.attend();
  w_.cast(z_.of_token(heads), "cast attention output", Direction::forward);
  // Groups multiply their own part of the heads: a product of all of them, over a part of its width each.
  w_.column({w_.product("output down", s_.out_groups * s_.out_rank, heads / s_.out_groups)}, {});
  w_.row("attention projection", s_.out_groups * s_.out_rank);
  w_.bias_dropout_residual();
}

void CompressedHalf::keep(Layer& layer) const {
  const double outside = z_.outside, heads = z_.of_token(m_.attention.heads * width_), one = z_.of_token(width_);
  const double down = z_.of_token(s_.out_groups * s_.out_rank), queries = z_.of_token(s_.q_rank);
  layer.kept.push_back({"norm input", outside, e_, kAttention, KeptAs::input});
  const bool norm_again = w_.computation().again(&RecomputedParts::norms);
  layer.kept.push_back({"linear input", outside, e_, kAttention, norm_again ? KeptAs::recomputed : KeptAs::tensor});
  layer.kept.push_back({"dropout mask", outside, w_.style().dropout ? 1.0 : 0.0, kAttention});
  layer.kept.push_back({"compressed queries", 2 * queries, e_, kAttention});  // and their norm's
  layer.kept.push_back({"queries", 2 * heads, e_, kAttention});               // and the input of their norms
  layer.kept.push_back({"keys and values", 2 * one, e_, kAttention});
  if (s_.ratio > 0) {
    layer.kept.push_back({"what the compressor's product made", 2 * real(s_.copies()) * one, e_, kAttention});
    layer.kept.push_back({"compressed keys", one / real(s_.ratio), e_, kAttention});
  }
  layer.kept.push_back({"attention output", heads, e_, kAttention});
  layer.kept.push_back({"output of groups", down, e_, kAttention});
  keys_.keep(layer);
  layer.working.push_back({"residual gradients", 2 * outside, e_, kAttention});
  layer.working.push_back({"gradients of queries and output", 2 * heads, e_, kAttention});
  layer.working.push_back({"key gradients in fp32", one, 4, kAttention});
  layer.between.push_back({"attention's linear inputs", outside + queries + heads + down, kept_input(w_)});
  layer.between.push_back({"attention's linear output gradients", outside + queries + heads + down, kept_input(w_)});
}

void CompressedHalf::weigh(Layer& layer) const {
  const double h = real(m_.hidden), heads = real(m_.attention.heads * width_), one = real(width_);
  const double rank = real(s_.q_rank), down = real(s_.out_groups * s_.out_rank), group = heads / real(s_.out_groups);
  layer.weights.push_back({"query down", rank * h, h});
  layer.weights.push_back({"key and value", one * h, h});
  layer.weights.push_back({"query up", heads * rank, rank});
  if (s_.ratio > 0) {
    const double made = real(s_.copies()) * one;
    layer.weights.push_back({"compressor", 2 * made * h, h});
    layer.weights.push_back({"compressor's places and norm", real(s_.ratio) * made + one});
  }
  layer.weights.push_back({"output down", down * group, group});
  layer.weights.push_back({"attention projection", down * h, down});
  layer.weights.push_back({"compressed norms and sinks", rank + one + real(m_.attention.heads)});
  layer.weights.push_back({"attention norms", real(m_.norm_parameters())});
  keys_.weigh(layer, s_.q_rank);
}

}  // namespace orrery::workloads
