// What of a model a rank computes, and how: the same for every family.
//
// Sources: Megatron-LM (arXiv 1909.08053) for the tensor-parallel split; Korthikanti et al. (arXiv 2205.05198) for
// sequence parallelism and selective recompute.
#pragma once

#include "workloads/model/layer.h"

namespace orrery::workloads {

/// How the ranks of a context group see each other's keys and values: blocks sent round a ring beside the attention of
/// the block at hand (Liu et al., arXiv 2310.01889), or gathered before it (Llama 3, arXiv 2407.21783, section 3.3.2).
enum class ContextMethod : std::uint8_t { ring, all_gather, all_to_all };
using calibration::AttentionKind;

/// What of a model one rank computes at a time.
struct Split {
  std::int64_t tensor = 1, context = 1;
  std::int64_t expert = 1;         // ranks that share out the experts of a layer
  std::int64_t expert_tensor = 1;  // ranks that an expert is cut over
  bool sequence_parallel = false;
  ContextMethod context_method = ContextMethod::ring;
  std::int64_t micro_batch = 1;  // sequences
  /// Of the tensor ranks those that share out the inputs of column-parallel layers and the outputs of row-parallel ones
  /// (Singh et al., arXiv 2305.13525, algorithm 1); tensor / tensor_in share out the other side of both.
  std::int64_t tensor_in = 1;
  bool operator==(const Split&) const = default;
};

struct Precision {
  DataType matmul = DataType::bf16;        // operands of the linear layers' GEMMs
  DataType activations = DataType::bf16;   // what flows between kernels and over the network
  DataType gradients = DataType::fp32;     // of the data-parallel reduction
  DataType accumulation = DataType::fp32;  // of the buffers that gradients are added up in
  DataType parameters = DataType::bf16;    // of the parameter all-gather
  bool operator==(const Precision&) const = default;
};

/// Parts of a layer that the backward pass computes again under selective recomputation (Megatron-Core,
/// --recompute-modules).
struct RecomputedParts {
  bool core_attention = true;
  bool norms = false;
  bool qkv = false, attention_out = false;  // the products ahead of attention and behind it
  bool mlp = false;                         // of dense layers: up and activation
  bool mlp_down = false, activation = false;
  bool latent_up = false;  // queries, keys and values from the compressed ones
  bool experts = false;    // the whole half with experts
  bool expert_activation = false;
  bool router = false;                // of a layer of experts: scores, and what is made of them
  bool every_second_product = false;  // and all that is no product, attention or reduction (by_operation.h)
  bool operator==(const RecomputedParts&) const = default;
};

/// Low-rank adapters beside the products of attention, or of every layer, which alone are trained (LoRA, Hu et al.,
/// arXiv 2106.09685). See adapters.h.
struct Adapters {
  std::int64_t rank = 0;  // 0: none, everything is trained
  bool on_mlp = false;    // beside the products of the MLP too
  bool dropout = false;   // of an adapter's input
  /// The input of the MLP's activation is kept for the backward pass in fp8 (Megatron-Core,
  /// activation_func_fp8_input_store).
  bool fp8_activation_input = false;
  /// How frozen weights of linear layers are held: as their products read them, or in 4 bits, from which they are made
  /// anew for every product (QLoRA, arXiv 2305.14314).
  enum class Frozen : std::uint8_t { as_read, nf4 } frozen = Frozen::as_read;
  bool any() const { return rank > 0; }
  bool operator==(const Adapters&) const = default;
};

/// How layers are computed, as far as neither model nor split says.
struct Computation {
  Precision precision;
  Recompute recompute = Recompute::none;
  RecomputedParts recomputed;  // where that is selective
  /// Blocks of each part of a pipeline that are recomputed, or parts of them, the first so many; 0: all.
  std::int64_t recomputed_layers = 0;
  AttentionKind attention = AttentionKind::flash;
  bool overlaps_tensor = false;           // GEMMs are cut to overlap with the tensor-parallel exchange beside them
  bool ends_on_one_stage = true;          // embedding and head, so that tied weights are one tensor
  bool keeps_training_gradients = false;  // 16-bit gradients stay beside the accumulated ones
  calibration::LayerStyle style;
  calibration::AttentionStyle attention_style;
  ExpertStyle experts;
  Adapters adapters;

  /// Whether weight gradient GEMMs add into the accumulated gradients, which makes no gradient of one micro-batch.
  bool fuses_wgrad_accumulation() const {
    using calibration::WeightGradients;
    const WeightGradients made = style.linear.weight_gradients;
    return made == WeightGradients::fused_16bit ||
           (made == WeightGradients::fused && precision.gradients == DataType::fp32);
  }
  bool again(bool RecomputedParts::*part) const { return recompute == Recompute::selective && recomputed.*part; }
  bool operator==(const Computation&) const = default;
};

/// Vocabulary padded as Megatron-LM does: up to a multiple of 128 x tensor. Software that does not pad gives each
/// tensor rank an equal part and drops the rest.
std::int64_t padded_vocab(std::int64_t vocab, std::int64_t tensor, bool pads);

/// Whether what a block's last product makes is made again with what is recomputed: it adds to the residual stream, so
/// that no gradient inside the block needs it unless a norm reads it.
bool makes_last_product_again(const Model& model, const calibration::LinearStyle& style);
/// Whether a dense block that is recomputed as a whole stops ahead of its last product. Both halves of a parallel
/// block end together, and adapters beside that product need their part of it.
bool stops_ahead_of_last_product(const Model& model, const calibration::LinearStyle& style, const Adapters& adapters);

std::string_view name_of(ContextMethod method);

}  // namespace orrery::workloads
