// Models as their papers describe them, before any split: sizes and kinds. What they weigh and compute follows from
// their layers (layer.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "calibration/framework/layer_style.h"
#include "workloads/model/encoder.h"
#include "workloads/model/experts.h"
#include "workloads/model/operators.h"
#include "workloads/model/recommender.h"
#include "workloads/model/sparse_attention.h"
#include "workloads/model/state_mixer.h"

namespace orrery::workloads {

using calibration::Recompute;

/// How a model tells positions apart: a learned table of one row per position, queries and keys rotated in every layer
/// (Su et al., arXiv 2104.09864), a bias on the scores, free inside fused attention (ALiBi, arXiv 2108.12409; by
/// learned buckets of distances, once for all layers of a stack: T5, arXiv 1910.10683, section 2.1), or nothing that
/// costs parameters or a kernel of its own.
enum class Positions : std::uint8_t { learned, rotary, none, alibi, relative };
inline constexpr std::int64_t kDistanceBuckets = 32;      // relative_attention_num_buckets of T5
enum class Norm : std::uint8_t { layer_norm, rms_norm };  // scale and shift, or scale alone (arXiv 1910.07467)
enum class Biases : std::uint8_t { all, qkv, none };      // which linear layers have one
/// What the MLP applies inside. With mlp.gated it is applied to one of two up projections, which multiplies the other:
/// swiglu is always so (arXiv 2002.05202), gelu may be (GeGLU, there). squared_relu: arXiv 2109.08668.
enum class Activation : std::uint8_t { gelu, swiglu, squared_relu, relu };
inline constexpr int kActivations = 4;

/// Inputs of every layer's own, beside the hidden state (Gemma 3n, Gemma 4 E2B): a second embedding of so many elements
/// a layer, and a product of the first one added to it; what a layer does with its own is operators of its block.
struct LayerInputs {
  std::int64_t width = 0, vocab = 0;  // of a layer; 0: there are none
  bool any() const { return width > 0; }
  bool operator==(const LayerInputs&) const = default;
};

/// A transformer, or a recommender. Sizes are counts of elements.
struct Model {
  std::string name;  // of the file, or the label
  std::int64_t layers = 1, hidden = 1, vocab = 1, seq = 1;
  /// Of a sequence's tokens those that an encoder reads, in blocks of bidirectional attention ahead of those of a
  /// decoder, which has the rest (T5, arXiv 1910.10683); 0: there are no two such stacks.
  std::int64_t source = 0;
  LayerInputs layer_inputs;
  struct Attention {
    std::int64_t heads = 1;        // of queries
    std::int64_t kv_heads = 1;     // of keys and values
    std::int64_t head_width = 0;   // of one head, where heads need not add up to hidden; 0: hidden / heads
    std::int64_t value_width = 0;  // of one head's value; 0: as wide as its key
    bool key_is_value = false;     // values are what the keys' product makes, ahead of norm and rotation (Gemma 4)
    bool qk_norm = false;     // every head's queries and keys are normalised ahead of the rotation (arXiv 2302.05442)
    std::int64_t window = 0;  // positions that a token sees; 0: full causal attention
    /// Of so many layers in turn the last sees everything, the others the window (Gemma 2, arXiv 2408.00118: 2; Gemma
    /// 3, arXiv 2503.19786: 6); 0: every layer has the window.
    std::int64_t window_every = 0;
    /// The window is no span behind each token but its chunk: positions are cut at multiples of it, and nothing looks
    /// into the chunk before (Llama 4, huggingface/transformers, models/llama4, attention_chunk_size).
    bool chunked = false;
    /// Tokens of each document that a sequence is packed with, which attends to itself alone; 0: a sequence is one.
    std::int64_t document = 0;
    /// Factor on queries and keys beside their rotation (YaRN, arXiv 2309.00071, section 3.4: 0.1 ln s + 1); 1: none.
    double rotary_factor = 1;
    LatentAttention latent;      // in place of the usual queries, keys and values
    SparseAttention sparse;      // sees some of the keys, or keys that stand for many tokens
    bool output_gate = false;    // its output is scaled by a sigmoid that the query's product makes too (Qwen3-Next)
    bool bidirectional = false;  // queries see what comes behind them too
    bool shares_keys = false;    // it reads keys and values of a layer ahead, and makes none (Gemma 3n)
    bool operator==(const Attention&) const = default;
  } attention;
  struct Mlp {
    std::int64_t hidden = 4;
    bool gated = false;  // two up projections
    Activation activation = Activation::gelu;
    bool operator==(const Mlp&) const = default;
  } mlp;
  bool parallel_block = false;        // attention and MLP side by side: one layer norm, one reduction
  std::int64_t residual_streams = 1;  // that blocks read and write through maps (residual_streams.h)
  bool post_norm = false;             // attention and MLP normalise their output too, ahead of the residual sum
  bool tied_embeddings = true;
  Positions positions = Positions::learned;
  Norm norm = Norm::layer_norm;
  Biases biases = Biases::all;
  Experts experts;
  Encoder encoder;          // of images, ahead of the first layer
  Recommender recommender;  // in place of all the rest
  /// A block of a pattern: attention or a mixer with a state, both side by side behind one norm (Falcon-H1, arXiv
  /// 2507.22448), or none; behind these attention to what an encoder made, or operators of a graph; and an MLP, experts
  /// (those of the model), or nothing, behind which operators may stand too.
  struct Block {
    bool attends = false;
    Attention attention;
    bool crosses = false;  // attends to an encoder's output too, behind its own attention
    Attention cross;
    StateMixer state;
    Operators operators;
    Operators behind;  // the channel
    enum class Channel : std::uint8_t { none, mlp, experts } channel = Channel::none;
    Mlp mlp;
    bool mixes() const { return attends || state.any() || operators.any(); }
    /// Whether it is of an encoder, in a model that has one of text.
    bool encodes() const { return attends && attention.bidirectional; }
    bool operator==(const Block&) const = default;
  };
  /// Blocks in an order of their own, in place of layers that are all alike or alternate.
  struct Pattern {
    std::vector<Block> kinds;
    std::vector<std::uint8_t> blocks;  // rows of `kinds`, one a layer
    std::uint8_t predicts = 0;         // the row of layers that predict further tokens (Experts::mtp_layers)
    bool any() const { return !blocks.empty(); }
    /// Layers behind the last predict further tokens.
    const Block& at(std::int64_t layer) const {
      return kinds[layer < static_cast<std::int64_t>(blocks.size()) ? blocks[static_cast<std::size_t>(layer)]
                                                                    : predicts];
    }
    bool operator==(const Pattern&) const = default;
  } pattern;
  /// Tokens of a sequence that a block runs on.
  std::int64_t tokens_of(const Block& block) const {
    return source == 0 ? seq : block.encodes() ? source : seq - source;
  }
  std::int64_t stacks() const { return source > 0 ? 2 : 1; }
  /// Of these, what the head predicts from.
  std::int64_t target() const { return seq - source; }
  std::int64_t head_dim() const { return attention.head_width > 0 ? attention.head_width : hidden / attention.heads; }
  std::int64_t value_dim() const { return attention.value_width > 0 ? attention.value_width : head_dim(); }
  /// Elements of a token that a stage of a pipeline hands on: its streams, and the inputs of all layers.
  std::int64_t handed_on() const { return hidden * residual_streams + layer_inputs.width * layers; }
  /// Elements of a token's queries, and of the attention output.
  std::int64_t attention_width() const { return attention.heads * head_dim(); }
  std::int64_t output_width() const { return attention.heads * value_dim(); }
  /// Elements of a token's keys, of its values, and of both as products make them.
  std::int64_t kv_width() const { return attention.kv_heads * head_dim(); }
  std::int64_t values_width() const { return attention.kv_heads * value_dim(); }
  std::int64_t kv_made() const {
    return attention.shares_keys ? 0 : kv_width() + (attention.key_is_value ? 0 : values_width());
  }
  /// Of a head's key and value in the mean, which the products of attention go by.
  std::int64_t mean_head_dim() const { return (head_dim() + value_dim()) / 2; }
  /// Parameters of one norm.
  std::int64_t norm_parameters() const { return norm == Norm::layer_norm ? 2 * hidden : hidden; }
  /// Of the norms of queries and keys of a layer, which all heads share.
  std::int64_t qk_norm_parameters() const {
    const std::int64_t norms = attention.shares_keys ? 1 : 2;
    return attention.qk_norm ? norms * (norm == Norm::layer_norm ? 2 : 1) * head_dim() : 0;
  }
  bool operator==(const Model&) const = default;
};

std::string_view name_of(Positions positions);
std::string_view name_of(Norm norm);
std::string_view name_of(Biases biases);
std::string_view name_of(Activation activation);

/// Parameters of the model, in elements: P of the contract, which leaves out the final norm.
double parameter_count(const Model& model);
/// Of these, those that one token meets: all, but for routed experts that it does not go to.
double active_parameter_count(const Model& model);
/// What a step trains: the whole model, or low-rank adapters beside frozen weights, which have no gradient (2 FLOPs a
/// parameter and token in the backward pass, not 4; the adapters' own are left out, as MLPerf's reckoning does).
enum class Trained : std::uint8_t { all, adapters };
/// Model FLOPs of one step (contract, Metrics), window and gated MLP taken into account.
double model_flops(const Model& model, std::int64_t global_batch, Trained trained = Trained::all);
/// Full recomputation: of which share of the blocks, and whether it stops ahead of the last product of each.
struct BlocksAgain {
  double share = 1;
  bool stops_early = false;
};
/// What the device computes, recomputed forward passes included (the scores that fused attention rebuilds are not
/// counted).
double hardware_flops(const Model& model, std::int64_t global_batch, Recompute recompute,
                      Trained trained = Trained::all, const BlocksAgain& again = {});

}  // namespace orrery::workloads
