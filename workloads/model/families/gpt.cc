// A GPT decoder as layers of one rank, put together from the parts that families share.
// Sources: Vaswani et al.; the parallel block of GPT-J and PaLM as MegaScale uses it (arXiv 2402.15627, section 3.1).
#include "sim/real.h"
#include "workloads/model/by_operation.h"
#include "workloads/model/families/families.h"
#include "workloads/model/halves.h"

namespace orrery::workloads {

namespace {

using sim::real;

/// Attention and MLP read one norm; the second row-parallel product adds onto the first one's result (beta = 1).
void write_side_by_side(LayerWriter& writer, AttentionHalf& attention, FeedForwardHalf& mlp, std::int64_t window) {
  std::vector<MatMul> products = attention.products();
  if (attention.adds_bias()) products.front().after.push_back(attention.bias());
  products.push_back(mlp.up());
  writer.half_norm(products.size());
  writer.cast_input();
  writer.column(std::move(products), writer.enter());
  attention.bias_gradient();
  writer.views(1.0, Direction::forward);
  writer.views(1.0, Direction::backward);
  attention.cast_gradients();
  mlp.cast_gradients();
  attention.norm_queries_and_keys();
  attention.rotate();
  attention.attention(window);
  mlp.activation();
  attention.cast_output();
  mlp.cast_activation();
  attention.project();
  mlp.down();
  writer.leave();
  writer.bias_dropout_residual();
}

/// `window`: keys that a query sees; 0: all.
Layer dense_block(LayerWriter& writer, std::int64_t window) {
  const bool side_by_side = writer.model().parallel_block;
  AttentionHalf attention(writer);
  FeedForwardHalf mlp(writer);
  if (side_by_side) {
    write_side_by_side(writer, attention, mlp, window);
  } else {
    attention.write(window);
    mlp.write();
  }
  Layer layer;
  layer.kind = LayerKind::block;
  layer.recomputed = writer.computation().recompute == Recompute::full;
  const Computation& computation = writer.computation();
  if (stops_ahead_of_last_product(writer.model(), computation.style.linear, computation.adapters))
    layer.needed_again = mlp.ahead_of_down();
  layer.ops = writer.take();
  attention.keep(layer);
  mlp.keep(layer, side_by_side ? Reads::norm_of_other_half : Reads::own_norm);
  attention.weigh(layer);
  mlp.weigh(layer);
  if (writer.computation().again(&RecomputedParts::every_second_product)) recompute_by_operation(writer, layer);
  writer.copied_unit(layer, layer.recomputed || layer.recomputed_by_operation);
  return layer;
}

}  // namespace

Network gpt(const Model& model, const Split& split, const Computation& computation) {
  LayerWriter writer(model, split, computation);
  const Sizes& sizes = writer.sizes();
  Network out;
  const std::int64_t window = model.attention.window < model.seq ? model.attention.window : 0;
  out.kinds = {embedding_layer(writer), dense_block(writer, window), head_layer(writer)};
  out.layers.assign(static_cast<std::size_t>(model.layers) + 2, 1);
  out.layers.front() = 0;
  out.layers.back() = 2;
  if (const auto every = static_cast<std::size_t>(model.attention.window_every); every > 0 && window > 0) {
    out.kinds.push_back(dense_block(writer, 0));
    for (std::size_t i = every; i + 1 < out.layers.size(); i += every) out.layers[i] = 3;
  }
  out.hidden_elements = sizes.hidden;
  out.residual_elements = sizes.outside;
  const bool repeats = computation.attention_style.repeats_keys();
  const double kv_width = real(repeats ? model.attention_width() : sizes.kv * sizes.tensor);
  out.kv_elements = 2 * sizes.hidden * (kv_width / real(model.hidden)) / real(split.tensor);
  out.query_elements = sizes.hidden * (real(model.attention_width()) / real(model.hidden)) / real(split.tensor);
  out.tied_elements = model.tied_embeddings ? real(sizes.vocab) * real(model.hidden) : 0;
  return out;
}

}  // namespace orrery::workloads
