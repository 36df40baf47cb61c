// The halves of a transformer block, attention and the part behind it, and what each keeps, needs and weighs: what
// families of models put together to blocks of their own.
#pragma once

#include <utility>

#include "workloads/model/chosen_keys.h"

namespace orrery::workloads {

/// The halves of a block in the order in which they run and free what they keep (Kept::half).
enum Half : std::int32_t { kAttention, kFeedForward };

/// A half of a block that begins with a norm, or reads the other half's.
enum class Reads : std::uint8_t { own_norm, norm_of_other_half };

/// Rotary embedding of so many elements of queries and of keys, by the software's recipe; and whether that one takes
/// packed documents one by one, as what is not fused does.
void rotate(LayerWriter& writer, double queries, double keys);
bool rotates_by_document(const LayerWriter& writer);

/// Attention of `heads` heads over `kv_heads`, of `head_dim` elements each, over the writer's micro-batch.
AttentionOp attention_op(const LayerWriter& writer, std::int64_t heads, std::int64_t kv_heads, std::int64_t head_dim,
                         std::int64_t window);
/// Bytes of one element of what a linear layer keeps of its input: of its operand's type where that is cast
/// (Transformer Engine saves the cast input, transformer_engine/pytorch/module/linear.py, grouped_linear.py).
double kept_input(const LayerWriter& writer);
/// Of what the activation of an MLP keeps of its input.
double kept_activation_input(const LayerWriter& writer);
/// Kernels of what an MLP applies inside: forward, backward.
std::pair<const char*, const char*> activation_names(const Model& model);

/// Queries, keys and values, attention and its projection.
class AttentionHalf {
 public:
  explicit AttentionHalf(LayerWriter& writer)
      : w_(writer), m_(writer.model()), z_(writer.sizes()), style_(writer.style()), e_(writer.element()) {}

  /// All of it, from norm to residual sum. `window`: keys that a query sees; 0: all.
  void write(std::int64_t window);
  /// Between norm and residual sum.
  void mix(std::int64_t window);

  // Its parts, for blocks that run something else between them.
  /// Queries, keys and values as one product or as three; a parallel block keeps one.
  std::vector<MatMul> products() const;
  bool adds_bias() const;  // of queries, keys and values, in a kernel behind their product
  StreamingOp bias() const;
  void bias_gradient();
  void cast_gradients() {
    w_.cast_gradient(qkv_elements());
    w_.find_scales(Direction::backward, true, products().size());
  }
  /// Copies them out of the tensor of all three.
  void part_queries();
  /// A norm over every head's queries and keys, a kernel for each of the two (Megatron-Core's q_layernorm,
  /// k_layernorm), where the model has it.
  void norm_queries_and_keys();
  void rotate();
  /// Whether keys and values are copied out to the heads of queries ahead of attention.
  bool repeats_keys() const;
  /// Whether attention's output is copied into another layout for the projection.
  bool copies_output() const;
  void repeat_keys();
  void gather_heads();
  void attention(std::int64_t window);
  /// Of the output, by a sigmoid that the queries' product makes too.
  void gate_output();
  void cast_output();
  void project() { w_.row("attention projection", z_.out, LinearOp::Part::attention_out); }

  void keep(Layer& layer) const;
  void weigh(Layer& layer) const;

 private:
  ChosenKeys chosen_keys() const;
  std::int64_t keys_made() const { return m_.attention.shares_keys ? 0 : z_.kv; }
  double qkv_elements() const { return z_.of_token(z_.q + z_.gate + z_.kv_made + z_.values_made); }

  LayerWriter& w_;
  const Model& m_;
  const Sizes& z_;
  const calibration::LayerStyle& style_;
  double e_;  // bytes of an activation
};

/// The dense MLP.
class FeedForwardHalf {
 public:
  explicit FeedForwardHalf(LayerWriter& writer)
      : w_(writer), m_(writer.model()), z_(writer.sizes()), style_(writer.style()), e_(writer.element()) {}

  /// All of it, from norm to residual sum.
  void write();

  // Its parts.
  /// One product, or two where software keeps the gate apart; a parallel block has one.
  std::vector<MatMul> up_products() const;
  MatMul up() const { return w_.product("mlp up", m_.mlp.gated ? 2 * z_.ffn : z_.ffn, z_.width); }
  void cast_gradients() {
    w_.cast_gradient((m_.mlp.gated ? 2 : 1) * z_.shared(m_.mlp.hidden), LayerWriter::Maker::activation);
    w_.find_scales(Direction::backward, true, m_.parallel_block ? 1 : up_products().size());
  }
  void activation();
  calibration::RecipeSizes activation_sizes() const;
  void cast_activation();
  void down() { w_.row("mlp down", z_.ffn, LinearOp::Part::mlp_out); }
  /// How many of the layer's operations write() has put ahead of it.
  std::size_t ahead_of_down() const { return ahead_of_down_; }

  /// `reads`: whose norm, and with it whose input and dropout, it has.
  void keep(Layer& layer, Reads reads) const;
  void weigh(Layer& layer) const;

 private:
  LayerWriter& w_;
  const Model& m_;
  const Sizes& z_;
  const calibration::LayerStyle& style_;
  double e_;
  std::size_t ahead_of_down_ = 0;
};

/// The layer in front of the blocks and the one behind them: norm, LM head and loss.
Layer embedding_layer(LayerWriter& writer);
Layer head_layer(LayerWriter& writer);

}  // namespace orrery::workloads
