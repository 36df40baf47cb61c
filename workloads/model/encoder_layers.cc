// See encoder_layers.h. Blocks are those of a decoder of the encoder's widths over the patches of a sequence's images,
// in which every image attends to itself, all of it; a merger is a norm, two products with a GeLU between and the copy
// into the decoder's sequence (huggingface/transformers, models/qwen3_vl, Qwen3VLVisionModel and
// Qwen3VLVisionPatchMerger).
//
// Left out: images of several sizes, which go by their mean; tensor and context ranks; recomputing it as a whole;
// encoders that are frozen; adding what DeepStack makes to later layers' hidden states, a copy of image tokens each.
#include "workloads/model/encoder_layers.h"

#include <algorithm>
#include <iterator>

#include "sim/real.h"
#include "workloads/model/halves.h"

namespace orrery::workloads {

namespace {

using calibration::Streaming;
using sim::real;

Model model_of_patches(const Model& decoder) {
  const Encoder& e = decoder.encoder;
  Model model = decoder;
  model.encoder = {};
  model.experts = {};
  model.pattern = {};
  model.attention = {};
  model.layers = e.layers;
  model.hidden = e.hidden;
  model.seq = e.patches;
  model.attention.heads = model.attention.kv_heads = e.heads;
  model.mlp = {e.ffn_hidden, e.gated, e.gated ? Activation::swiglu : Activation::gelu};
  model.parallel_block = model.post_norm = false;
  model.positions = Positions::rotary;
  model.norm = e.gated ? Norm::rms_norm : Norm::layer_norm;
  model.biases = e.gated ? Biases::qkv : Biases::all;
  return model;
}

Split alone(const Split& split) {
  Split one = split;
  one.tensor = one.tensor_in = one.context = 1;
  one.sequence_parallel = false;
  return one;
}

Computation kept(const Computation& computation) {
  Computation own = computation;
  if (own.recompute == Recompute::full) own.recompute = Recompute::none;
  return own;
}

class EncoderWriter {
 public:
  explicit EncoderWriter(const LayerWriter& decoder)
      : decoder_(decoder.model()),
        x_(decoder_.encoder),
        model_(model_of_patches(decoder_)),
        split_(alone(decoder.split())),
        computation_(kept(decoder.computation())),
        w_(model_, split_, computation_),
        e_(w_.element()),
        patches_(w_.sizes().hidden),
        tokens_(w_.sizes().tokens / x_.merge) {}

  void write(Layer& layer) {
    embed(layer);
    AttentionHalf attention(w_);
    FeedForwardHalf mlp(w_);
    for (std::int64_t i = 0; i < x_.layers; ++i) {
      attention.write(0);
      mlp.write();
    }
    Layer block;
    attention.keep(block);
    mlp.keep(block, Reads::own_norm);
    attention.weigh(block);
    mlp.weigh(block);
    take_blocks(block, layer);
    for (std::int64_t i = 0; i < x_.mergers; ++i) merge(i == 0, layer);
    std::vector<LayerOp> ops = w_.take();
    for (LayerOp& op : ops) {
      auto* a = std::get_if<AttentionOp>(&op);
      if (a == nullptr) continue;
      a->causal = false;
      a->batch *= a->seq / x_.image;
      a->seq = x_.image;
    }
    ops.insert(ops.end(), std::make_move_iterator(layer.ops.begin()), std::make_move_iterator(layer.ops.end()));
    layer.ops = std::move(ops);
  }

 private:
  /// Pixels have no gradient.
  void embed(Layer& layer) {
    LinearOp op;
    op.products = {w_.product("patches", x_.hidden, x_.patch)};
    op.detached = true;
    w_.add(std::move(op));
    layer.kept.push_back({"pixels", real(w_.sizes().tokens) * real(x_.patch), e_, kAttention});
    layer.weights.push_back({"patches", real(x_.hidden * x_.patch), real(x_.patch)});
    layer.weights.push_back({"patch bias", real(x_.hidden)});
    if (x_.positions == 0) return;
    w_.backward("patch position gradients", Streaming::accumulate, patches_, 2 * e_);
    w_.forward("add patch positions", Streaming::accumulate, patches_, 3 * e_);
    layer.weights.push_back({"patch positions", real(x_.hidden * x_.positions)});
  }

  void take_blocks(const Layer& block, Layer& layer) const {
    const double blocks = real(x_.layers);
    for (Kept one : block.kept) {
      one.elements *= blocks;
      layer.kept.push_back(one);
    }
    layer.working.insert(layer.working.end(), block.working.begin(), block.working.end());
    for (Between one : block.between) {
      one.elements *= blocks;
      layer.between.push_back(one);
    }
    for (Weights one : block.weights) {
      one.elements *= blocks;
      one.copies *= blocks;
      one.tensors *= static_cast<std::int32_t>(x_.layers);
      layer.weights.push_back(one);
    }
  }

  /// The first normalises patches, those of blocks in between what is side by side already.
  void merge(bool last, Layer& layer) {
    const std::int64_t wide = x_.merge * x_.hidden, rows = tokens_;
    const double made = real(rows) * real(wide), out = real(rows) * real(decoder_.hidden);
    w_.backward("merger norm backward", Streaming::layer_norm_backward, patches_, 3 * e_);
    w_.forward("merger norm", Streaming::layer_norm, patches_, 2 * e_);
    const auto product = [&](const char* name, std::int64_t to) {
      MatMul p = w_.product(name, to, wide);
      p.tokens = rows;
      w_.column({p}, {});
      layer.weights.push_back({name, real(to * wide), real(wide)});
      layer.weights.push_back({"merger bias", real(to)});
    };
    product("merger up", wide);
    w_.backward("merger gelu backward", Streaming::gelu_backward, made, 3 * e_);
    w_.forward("merger gelu", Streaming::gelu, made, 2 * e_);
    product("merger down", decoder_.hidden);
    w_.backward("take image gradients", Streaming::copy, out, 2 * e_);
    w_.forward("put images in their places", Streaming::copy, out, 2 * e_);
    layer.weights.push_back({"merger norm", 2 * real(last ? x_.hidden : wide)});
    layer.weights.back().tensors = 2;
    layer.kept.push_back({"merger norm input", patches_, e_, kFeedForward});
    layer.kept.push_back({"merger inputs and activation", 3 * made, e_, kFeedForward});
  }

  const Model& decoder_;
  const Encoder& x_;
  Model model_;  // of patches, as the halves of a block see it
  Split split_;
  Computation computation_;
  LayerWriter w_;
  double e_, patches_;   // bytes of an activation; elements of all patches
  std::int64_t tokens_;  // of the decoder that they become
};

}  // namespace

void put_encoder_ahead(const LayerWriter& writer, Layer& embedding) { EncoderWriter(writer).write(embedding); }

}  // namespace orrery::workloads
