// Layers of a mixture of experts, put together from the parts that families share. See moe.h. Left out: whatever tells
// the routers of two layers apart; layers with the same parts are one kind.
#include "workloads/model/moe.h"

#include <algorithm>
#include <vector>

#include "sim/real.h"
#include "workloads/model/adapters.h"
#include "workloads/model/dlrm.h"
#include "workloads/model/expert_half.h"
#include "workloads/model/hybrid.h"
#include "workloads/model/latent_attention.h"
#include "workloads/model/predictions.h"
#include "workloads/model/residual_streams.h"

namespace orrery::workloads {

namespace {

using calibration::Streaming;

using sim::real;

/// What tells blocks apart.
struct BlockKind {
  bool experts = false;
  std::int64_t window = 0;  // keys that a query sees; 0: all
  bool operator==(const BlockKind&) const = default;
};

BlockKind kind_of(const Model& model, std::int64_t layer) {
  const bool windowed = model.attention.window > 0 && model.attention.window < model.seq;
  const std::int64_t every = model.attention.window_every;
  const bool all = every > 0 && (layer + 1) % every == 0;
  return {model.experts.in_layer(layer), windowed && !all ? model.attention.window : 0};
}

template <class Half>
void write_attention(Half half, std::int64_t window, Layer& layer) {
  half.write(window);
  half.keep(layer);
  half.weigh(layer);
}

Layer mixture_block(LayerWriter& writer, const BlockKind& kind) {
  Layer layer;
  layer.kind = LayerKind::block;
  layer.recomputed = writer.computation().recompute == Recompute::full;
  if (writer.model().attention.latent.any())
    write_attention(LatentAttentionHalf(writer), kind.window, layer);
  else
    write_attention(AttentionHalf(writer), kind.window, layer);
  if (kind.experts) {
    ExpertHalf half(writer);
    half.write();
    half.keep(layer);
    half.weigh(layer);
  } else {
    FeedForwardHalf half(writer);
    half.write();
    half.keep(layer, Reads::own_norm);
    half.weigh(layer);
  }
  layer.ops = writer.take();
  writer.copied_unit(layer, layer.recomputed);
  return layer;
}

}  // namespace

Network moe(const Model& model, const Split& split, const Computation& computation) {
  LayerWriter writer(model, split, computation);
  const Sizes& sizes = writer.sizes();
  Network out;
  out.kinds = {embedding_layer(writer)};
  out.layers = {0};
  std::vector<BlockKind> known;
  for (std::int64_t i = 0; i < model.layers; ++i) {
    const BlockKind kind = kind_of(model, i);
    auto found = std::find(known.begin(), known.end(), kind);
    if (found == known.end()) {
      found = known.insert(known.end(), kind);
      out.kinds.push_back(mixture_block(writer, kind));
    }
    out.layers.push_back(static_cast<std::uint8_t>(1 + (found - known.begin())));
  }
  if (model.experts.mtp_layers > 0)
    predict_further(out, writer, mixture_block(writer, kind_of(model, model.layers - 1)));
  else
    end_with_head(out, writer);
  out.hidden_elements = sizes.hidden;
  out.residual_elements = sizes.outside;
  const LatentAttention& latent = model.attention.latent;
  const std::int64_t whole = model.attention.heads * (latent.qk_dim() + latent.v_dim);
  const bool repeats = computation.attention_style.repeats_keys;
  const double kv = real(latent.any() ? whole : 2 * (repeats ? model.attention_width() : sizes.kv * sizes.tensor));
  out.kv_elements = real(sizes.tokens) * kv / sizes.parts();
  const std::int64_t queries = latent.any() ? model.attention.heads * latent.qk_dim() : model.attention_width();
  out.query_elements = real(sizes.tokens) * real(queries) / sizes.parts();
  out.tied_elements = model.tied_embeddings ? real(sizes.vocab) * real(model.hidden) : 0;
  return out;
}

namespace {
/// Every kind twice, as it is and recomputed; split_network says which blocks are of the second.
Network network_in_part_again(const Model& model, const Split& split, const Computation& computation) {
  Computation kept = computation, again = computation;
  kept.recompute = Recompute::none;
  again.recomputed_layers = kept.recomputed_layers = 0;
  Network out = network(model, split, kept);
  const Network all = network(model, split, again);
  out.again = {computation.recomputed_layers, static_cast<std::uint8_t>(out.kinds.size())};
  out.kinds.insert(out.kinds.end(), all.kinds.begin(), all.kinds.end());
  return out;
}
}  // namespace

Network network(const Model& model, const Split& split, const Computation& computation) {
  if (computation.recompute == Recompute::full && computation.recomputed_layers > 0)
    return network_in_part_again(model, split, computation);
  if (model.recommender.any()) return dlrm(model, split, computation);
  // Layers that predict further tokens stand behind a mixture's, or behind a dense model's of the same blocks.
  const bool mixture = model.experts.any() || model.experts.mtp_layers > 0;
  Network layers = model.pattern.any() ? hybrid(model, split, computation)
                   : mixture           ? moe(model, split, computation)
                                       : gpt(model, split, computation);
  if (model.residual_streams > 1) widen(layers, LayerWriter(model, split, computation));
  if (computation.adapters.any()) adapt(layers, LayerWriter(model, split, computation));
  layers.recipes = computation.style.recipes;
  return layers;
}

}  // namespace orrery::workloads
