// A decoder whose blocks follow a pattern: attention, mixers with a state, MLPs and experts in an order of their own,
// put together from the halves that families share. Halves read attention and MLP off a model, so a block is written
// from a copy of the model with its own in place; a pattern of attention and MLP, or of attention and experts, gives
// the lists of gpt.cc and mixture.cc to the last kernel.
//
// Sources: Nemotron-H (arXiv 2504.03624), whose blocks are each a mixer or a channel; Jamba (arXiv 2403.19887), Granite
// 4, Qwen3-Next and Kimi Linear (arXiv 2510.26692), whose blocks are a mixer and a channel; Falcon-H1 (arXiv
// 2507.22448), with two mixers side by side.
#include <algorithm>
#include <utility>

#include "sim/real.h"
#include "workloads/model/compressed_half.h"
#include "workloads/model/cross_half.h"
#include "workloads/model/expert_half.h"
#include "workloads/model/families/families.h"
#include "workloads/model/latent_attention.h"
#include "workloads/model/operator_half.h"
#include "workloads/model/predictions.h"
#include "workloads/model/state_half.h"

namespace orrery::workloads {

namespace {

using calibration::Streaming;
using Channel = Model::Block::Channel;
using sim::real;

std::int64_t window_of(const Model& model) { return model.attention.window < model.seq ? model.attention.window : 0; }

/// Both read one norm; what they make is added up ahead of the residual sum.
void write_mixers_side_by_side(LayerWriter& writer, AttentionHalf& attention, StateHalf& state, Layer& layer) {
  const std::size_t readers = attention.products().size() + state.products().size();
  writer.half_norm(readers);
  writer.cast_input();
  if (!writer.norm_adds_gradients())
    writer.backward("add input gradients", Streaming::accumulate, writer.sizes().outside, 3 * writer.element());
  state.mix();
  attention.mix(window_of(writer.model()));
  writer.forward("add mixers", Streaming::accumulate, writer.sizes().outside, 3 * writer.element());
  writer.bias_dropout_residual();
  attention.keep(layer);
  state.keep(layer, Reads::norm_of_other_half);
  attention.weigh(layer);
  state.weigh(layer, Reads::norm_of_other_half);
}

void write_mixer(LayerWriter& writer, const Model::Block& block, Layer& layer) {
  if (block.attends && block.attention.sparse.compressed()) {
    CompressedHalf half(writer);
    half.write();
    half.keep(layer);
    half.weigh(layer);
  } else if (block.attends && block.attention.latent.any()) {
    LatentAttentionHalf half(writer);
    half.write(window_of(writer.model()));
    half.keep(layer);
    half.weigh(layer);
  } else if (block.attends) {
    AttentionHalf half(writer);
    if (block.state.any()) {
      StateHalf state(writer, block.state);
      return write_mixers_side_by_side(writer, half, state, layer);
    }
    half.write(window_of(writer.model()));
    half.keep(layer);
    half.weigh(layer);
  } else if (block.state.any()) {
    StateHalf half(writer, block.state);
    half.write();
    half.keep(layer, Reads::own_norm);
    half.weigh(layer, Reads::own_norm);
  }
}

void write_channel(LayerWriter& writer, Channel channel, Layer& layer) {
  if (channel == Channel::experts) {
    ExpertHalf half(writer);
    half.write();
    half.keep(layer);
    half.weigh(layer);
  } else if (channel == Channel::mlp) {
    FeedForwardHalf half(writer);
    half.write();
    half.keep(layer, Reads::own_norm);
    half.weigh(layer);
    const Computation& computation = writer.computation();
    if (stops_ahead_of_last_product(writer.model(), computation.style.linear, computation.adapters))
      layer.needed_again = half.ahead_of_down();
  }
}

void write_operators(LayerWriter& writer, const Operators& operators, Half place, Layer& layer) {
  if (!operators.any()) return;
  OperatorHalf half(writer, operators, place);
  half.write();
  half.keep(layer);
  half.weigh(layer);
}

/// Its channel then runs, and is freed, as a third part.
void write_cross(LayerWriter& writer, const Model::Block& block, Layer& layer) {
  Model seen = writer.model();
  seen.attention = block.cross;
  CrossHalf half(writer, seen);
  half.write();
  half.keep(layer);
  half.weigh(layer);
}
void put_behind(Layer& layer, std::size_t kept, std::size_t working) {
  for (std::size_t i = kept; i < layer.kept.size(); ++i) layer.kept[i].half += 1;
  for (std::size_t i = working; i < layer.working.size(); ++i) layer.working[i].half += 1;
}

/// A block without a mixer begins with its channel, whose input is then the block's.
void input_is_of_channel(Layer& layer) {
  const auto input = std::find_if(layer.kept.begin(), layer.kept.end(),
                                  [](const Kept& kept) { return std::string_view(kept.name) == "norm input"; });
  if (input != layer.kept.end()) input->as = KeptAs::input;
}

Layer block_of(const Model::Block& block, const Model& seen, const Split& split, const Computation& computation) {
  LayerWriter writer(seen, split, computation);
  Layer layer;
  layer.kind = LayerKind::block;
  layer.recomputed = computation.recompute == Recompute::full;
  write_mixer(writer, block, layer);
  if (block.crosses) write_cross(writer, block, layer);
  write_operators(writer, block.operators, block.attends || block.state.any() ? kFeedForward : kAttention, layer);
  const std::size_t kept = layer.kept.size(), working = layer.working.size();
  write_channel(writer, block.channel, layer);
  if (block.crosses) put_behind(layer, kept, working);
  write_operators(writer, block.behind, kFeedForward, layer);
  if (!block.mixes()) input_is_of_channel(layer);
  layer.ops = writer.take();
  writer.copied_unit(layer, layer.recomputed);
  return layer;
}

/// Elements of a token that context ranks gather of keys which are chosen, of all tensor ranks.
std::int64_t sparse_width(const Model& seen, const Sizes& sizes) {
  const LatentAttention& latent = seen.attention.latent;
  if (latent.any()) return (latent.kv_rank + latent.rope_dim) * sizes.tensor;
  return seen.attention.sparse.compressed() ? seen.head_dim() * sizes.tensor : 2 * sizes.kv * sizes.tensor;
}

/// The head sees the decoder's tokens; it keeps what the encoder made, which all blocks of the decoder read.
void end_with_head_of_target(Network& out, const Model& model, const Split& split, const Computation& computation) {
  Model target = as_seen_by(model, {}), source = target;
  target.seq = model.target();
  source.seq = model.source;
  LayerWriter writer(target, split, computation);
  const LayerWriter read(source, split, computation);
  end_with_head(out, writer);
  out.kinds.back().kept.push_back({"encoder output", read.sizes().outside, read.element(), 0});
}

}  // namespace

Model as_seen_by(const Model& model, const Model::Block& block) {
  Model seen = model;
  seen.pattern = {};
  seen.seq = model.tokens_of(block);
  if (block.attends) seen.attention = block.attention;
  if (block.channel != Channel::none) seen.mlp = block.mlp;
  return seen;
}

Network hybrid(const Model& model, const Split& split, const Computation& computation) {
  Model ends = as_seen_by(model, {});
  ends.seq = model.seq;
  LayerWriter writer(ends, split, computation);
  const Sizes& sizes = writer.sizes();
  Network out;
  out.kinds = {embedding_layer(writer)};
  out.layers = {0};
  const bool repeats = computation.attention_style.repeats_keys();
  for (const Model::Block& block : model.pattern.kinds) {
    const Model seen = as_seen_by(model, block);
    out.kinds.push_back(block_of(block, seen, split, computation));
    if (!block.attends) continue;
    const LatentAttention& latent = seen.attention.latent;
    const Sizes own(seen, split, computation.style);
    const std::int64_t whole = seen.attention.heads * (latent.qk_dim() + latent.v_dim);
    const double kv =
        real(seen.attention.sparse.any() ? sparse_width(seen, own)
             : latent.any()              ? whole
                            : 2 * (repeats ? seen.attention.heads : own.kv_heads * own.tensor) * seen.mean_head_dim());
    out.kv_elements = std::max(out.kv_elements, real(own.tokens) * kv / own.parts());
    const std::int64_t queries =
        latent.any() ? seen.attention.heads * latent.qk_dim() : seen.attention.heads * seen.mean_head_dim();
    out.query_elements = std::max(out.query_elements, real(own.tokens) * real(queries) / own.parts());
  }
  for (const std::uint8_t kind : model.pattern.blocks) out.layers.push_back(static_cast<std::uint8_t>(kind + 1));
  if (model.experts.mtp_layers > 0) {
    const Model::Block& block = model.pattern.kinds[model.pattern.predicts];
    predict_further(out, writer, block_of(block, as_seen_by(model, block), split, computation));
  } else if (model.source > 0) {
    end_with_head_of_target(out, model, split, computation);
  } else {
    end_with_head(out, writer);
  }
  out.hidden_elements = sizes.hidden;
  out.residual_elements =
      sizes.outside + sizes.outside / real(sizes.width) * real(model.layer_inputs.width * model.layers);
  out.tied_elements = model.tied_embeddings ? real(sizes.vocab) * real(model.hidden) : 0;
  return out;
}

}  // namespace orrery::workloads
