// Latent attention with what it keeps, needs and weighs. See latent_attention.h. A head's queries and keys are longer
// than its values: its two products count as one of the mean of both widths, which has their FLOPs and their bytes.
//
// Where keys are chosen, the up projection of keys multiplies queries and that of values attention's output, head by
// head: their FLOPs and weights are those of keys and values made whole, which they are counted as.
#include "workloads/model/latent_attention.h"

#include "sim/real.h"

namespace orrery::workloads {

namespace {
using calibration::Streaming;
using sim::real;
}  // namespace

LatentAttentionHalf::LatentAttentionHalf(LayerWriter& writer)
    : w_(writer),
      m_(writer.model()),
      latent_(m_.attention.latent),
      z_(writer.sizes()),
      e_(writer.element()),
      heads_(z_.heads),
      own_(z_.sequence_parallel ? z_.tokens / z_.tensor : z_.tokens),
      keys_(writer, {heads_, latent_.kv_rank + latent_.rope_dim, latent_.kv_rank, latent_.kv_rank + latent_.rope_dim}) {
}

/// Adapters stand beside it where all blocks are alike.
LinearOp::Part LatentAttentionHalf::part(LinearOp::Part of_all) const {
  return m_.pattern.any() ? LinearOp::Part::other : of_all;
}

/// What every token is compressed to: keys and values with the shared part of the keys that is rotated, and queries.
void LatentAttentionHalf::compress() {
  LinearOp op;
  op.part = part(LinearOp::Part::latent_down);
  const auto down = [&](const char* name, std::int64_t width) {
    MatMul p = w_.product(name, width, m_.hidden);
    p.tokens = own_;
    op.products.push_back(std::move(p));
  };
  if (latent_.q_rank > 0) {
    down("query down", latent_.q_rank);
    op.sums = {{"add input gradients", Streaming::accumulate, z_.outside, 3 * e_}};
  }
  down("key and value down", latent_.kv_rank + latent_.rope_dim);
  w_.add(std::move(op));
}

void LatentAttentionHalf::norm(const char* name, const char* name_backward, std::int64_t width) {
  const double elements = real(own_) * real(width);
  w_.backward(name_backward, Streaming::layer_norm_backward, elements, 3 * e_);
  w_.forward(name, Streaming::layer_norm, elements, 2 * e_ + w_.fused_cast(LayerWriter::Maker::norm));
}

/// `gathered`: elements of a token that the tensor group gathers for it.
void LatentAttentionHalf::expand(const char* name, std::int64_t width_per_head, std::int64_t rank,
                                 std::int64_t gathered) {
  w_.cast(real(own_) * real(rank), "cast compressed", Direction::forward, LayerWriter::Maker::norm);
  std::optional<InputExchange> input = w_.enter();
  if (input) input->elements = z_.of_token(gathered);
  w_.column({w_.product(name, heads_ * width_per_head, rank)}, input, part(LinearOp::Part::latent_up));
  w_.cast_gradient(of_heads(width_per_head));
}

/// Queries in place; keys are put together of the rotated part, which all heads share, and their own (one kernel each,
/// megatron/core/fusions/fused_mla_yarn_rope_apply.py). Where that is off, both parts are rotated ahead of it.
void LatentAttentionHalf::rotate() {
  if (m_.attention.sparse.any()) {
    const double queries = of_heads(latent_.kv_rank + latent_.rope_dim);
    w_.backward("take query gradients apart", Streaming::copy, queries, 2 * e_);
    return w_.forward("rotate and put queries together", Streaming::copy, queries, 2 * e_);
  }
  const double kv = of_heads(latent_.nope_dim + latent_.v_dim), made = of_heads(latent_.qk_dim() + latent_.v_dim);
  const bool apart = rotates_by_document(w_);
  if (apart) workloads::rotate(w_, of_heads(latent_.rope_dim), z_.of_token(latent_.rope_dim));
  w_.backward("take key and value gradients apart", Streaming::copy, made + kv, e_);
  w_.forward("rotate and put keys together", Streaming::copy, made + kv, e_);
  if (apart) return;
  w_.backward("rotate query gradients", Streaming::copy, of_heads(latent_.rope_dim), 2 * e_);
  w_.forward("rotate queries", Streaming::copy, of_heads(latent_.rope_dim), 2 * e_);
}

void LatentAttentionHalf::write(std::int64_t window) {
  w_.half_norm(1, LayerWriter::NormReader::others);  // a norm of its own (Megatron-Core, gpt_layer_specs.py)
  w_.cast(z_.outside, "cast input", Direction::forward);
  if (latent_.q_rank == 0)
    w_.column({w_.product("query", heads_ * latent_.qk_dim(), m_.hidden)}, w_.enter(), part(LinearOp::Part::latent_up));
  compress();
  const bool again = w_.computation().again(&RecomputedParts::latent_up);
  if (again) w_.add(Recomputed{true});
  if (latent_.q_rank > 0) {
    norm("query norm", "query norm backward", latent_.q_rank);
    expand("query up", latent_.qk_dim(), latent_.q_rank, latent_.q_rank);
  }
  norm("key and value norm", "key and value norm backward", latent_.kv_rank);
  expand("key and value up", latent_.nope_dim + latent_.v_dim, latent_.kv_rank, latent_.kv_rank + latent_.rope_dim);
  w_.views(0.5, Direction::forward);
  w_.views(0.5, Direction::backward);
  rotate();
  if (again) w_.add(Recomputed{false});
  if (m_.attention.sparse.any()) {
    keys_.choose(latent_.q_rank);
    keys_.attend();
  } else {
    w_.add(attention_op(w_, heads_, heads_, (latent_.qk_dim() + latent_.v_dim) / 2, window));
  }
  w_.cast(of_heads(latent_.v_dim), "cast attention output", Direction::forward);
  w_.row("attention projection", heads_ * latent_.v_dim, part(LinearOp::Part::latent_out));
  w_.leave();
  w_.bias_dropout_residual();
}

/// What attention reads and makes. To chosen keys: queries as the compressed vectors see them, these for all heads, and
/// an output of their width ahead of the values' own.
void LatentAttentionHalf::keep_attention(Layer& layer) const {
  const double q = of_heads(latent_.qk_dim()), v = of_heads(latent_.v_dim), rows = real(heads_) * real(z_.tokens);
  const bool fused = w_.computation().attention == AttentionKind::flash;
  const bool up_again = w_.computation().again(&RecomputedParts::latent_up);
  const KeptAs made = up_again ? KeptAs::recomputed : KeptAs::tensor;
  if (m_.attention.sparse.any()) {
    const std::int64_t wide = latent_.kv_rank + latent_.rope_dim;
    layer.kept.push_back({"queries", q + of_heads(wide), e_, kAttention, made});
    layer.kept.push_back({"compressed keys and values of all", z_.of_token(wide), e_, kAttention, made});
    layer.kept.push_back({"attention output", v + of_heads(latent_.kv_rank), e_, kAttention});
    keys_.keep(layer);
    layer.working.push_back({"gradients of queries", q + of_heads(wide), e_, kAttention});
    layer.working.push_back({"gradients of the output", v + of_heads(latent_.kv_rank), e_, kAttention});
    return layer.working.push_back({"key gradients in fp32", z_.of_token(wide), 4, kAttention});
  }
  layer.kept.push_back({"queries, keys and values", 2 * q + v, e_, kAttention, made});
  layer.kept.push_back({"attention output", v, e_, kAttention});
  if (fused) {
    layer.kept.push_back({"log-sum-exp of scores", rows, 4, kAttention});
  } else {
    const bool again = w_.computation().again(&RecomputedParts::core_attention);
    layer.kept.push_back({"scores", rows * real(m_.seq), w_.style().dropout ? 2 * e_ + 1 : e_, kAttention,
                          again ? KeptAs::recomputed : KeptAs::tensor});
  }
  layer.working.push_back({"gradients of queries, keys and values", 2 * q + v, e_, kAttention});
  layer.working.push_back({"gradients of the output", v, e_, kAttention});
  layer.working.push_back(fused ? Working{"query gradient in fp32", q, 4, kAttention}
                                : Working{"gradients of scores", 2 * rows * real(m_.seq), e_, kAttention});
}

void LatentAttentionHalf::keep(Layer& layer) const {
  const double outside = z_.outside, q = of_heads(latent_.qk_dim()), v = of_heads(latent_.v_dim);
  const double compressed = real(own_) * real(latent_.q_rank + latent_.kv_rank);
  layer.kept.push_back({"norm input", outside, e_, kAttention, KeptAs::input});
  const bool norm_again = w_.computation().again(&RecomputedParts::norms);
  layer.kept.push_back({"linear input", outside, e_, kAttention, norm_again ? KeptAs::recomputed : KeptAs::tensor});
  layer.kept.push_back({"dropout mask", outside, w_.style().dropout ? 1.0 : 0.0, kAttention});
  layer.kept.push_back({"compressed queries, keys and values", 2 * compressed, e_, kAttention});  // and their norms'
  keep_attention(layer);
  if (calibration::is_quantised(w_.computation().precision.matmul))
    layer.kept.push_back({"cast attention output", v, kept_input(w_), kAttention, KeptAs::tensor, true});
  layer.working.push_back({"residual gradients", 2 * outside, e_, kAttention});
  layer.between.push_back({"attention's linear inputs", outside + compressed + v, kept_input(w_)});
  layer.between.push_back({"attention's linear output gradients", outside + 2 * q + v, kept_input(w_)});
}

void LatentAttentionHalf::weigh(Layer& layer) const {
  const double h = real(m_.hidden), q = real(heads_) * real(latent_.qk_dim());
  const double kv = real(heads_) * real(latent_.nope_dim + latent_.v_dim);
  if (latent_.q_rank > 0) {
    layer.weights.push_back({"query down", real(latent_.q_rank) * h, h});
    layer.weights.push_back({"query up", q * real(latent_.q_rank), real(latent_.q_rank)});
  } else {
    layer.weights.push_back({"query", q * h, h});
  }
  layer.weights.push_back({"key and value down", real(latent_.kv_rank + latent_.rope_dim) * h, h});
  layer.weights.push_back({"key and value up", kv * real(latent_.kv_rank), real(latent_.kv_rank)});
  layer.weights.push_back(
      {"attention projection", real(heads_) * real(latent_.v_dim) * h, real(heads_) * real(latent_.v_dim)});
  layer.weights.push_back({"attention norms", real(m_.norm_parameters())});
  layer.weights.push_back({"compressed norms", real(latent_.q_rank + latent_.kv_rank)});
  keys_.weigh(layer, latent_.q_rank);
}

}  // namespace orrery::workloads
