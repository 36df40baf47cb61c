// A decoder whose MLPs are mixtures of experts in all layers or some, as layers of one rank, put together from the
// parts that families share. Left out: whatever tells the routers of two layers apart; layers with the same parts are
// one kind.
//
// Sources: Mixtral (arXiv 2401.04088); DeepSeek-V2 and V3 (arXiv 2405.04434, 2412.19437) for shared experts, dense
// first layers, latent attention and the prediction of further tokens; Qwen 3 (arXiv 2505.09388); gpt-oss (arXiv
// 2508.10925) for windows in turn.
#include <algorithm>
#include <vector>

#include "sim/real.h"
#include "workloads/model/expert_half.h"
#include "workloads/model/families/families.h"
#include "workloads/model/latent_attention.h"
#include "workloads/model/predictions.h"

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
  const bool repeats = computation.attention_style.repeats_keys();
  const double kv = real(latent.any() ? whole : 2 * (repeats ? model.attention_width() : sizes.kv * sizes.tensor));
  out.kv_elements = real(sizes.tokens) * kv / sizes.parts();
  const std::int64_t queries = latent.any() ? model.attention.heads * latent.qk_dim() : model.attention_width();
  out.query_elements = real(sizes.tokens) * real(queries) / sizes.parts();
  out.tied_elements = model.tied_embeddings ? real(sizes.vocab) * real(model.hidden) : 0;
  return out;
}

}  // namespace orrery::workloads
