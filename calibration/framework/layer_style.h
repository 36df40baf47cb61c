// How a layer's kernels are cut, as a model's operations are made from it: recipes of its parts and what these cannot
// say, namely what products take along, which kernels attention is, and how the optimizer's step runs. No framework and
// no machine: whoever follows these values, a generation (software.h) is what fills them in.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "calibration/device/kernel.h"
#include "calibration/framework/recipe.h"
#include "sim/units.h"

namespace orrery::calibration {

/// What the backward pass computes again: nothing, the core of attention, or whole layers.
enum class Recompute : std::uint8_t { none, selective, full };
/// Attention in one kernel, or as matrix products and a softmax.
enum class AttentionKind : std::uint8_t { flash, unfused };
/// Gradients of weights: by their GEMM into a tensor of its own, or added onto the accumulated ones, in fp32 alone or
/// in 16 bit too.
enum class WeightGradients : std::uint8_t { apart, fused, fused_16bit };
/// Queries, keys and values: one product, one whose parts are copied out of its tensor, or three.
enum class QueryLayers : std::uint8_t { joint, parted, separate };
/// When operands of 8 bits are cast: by kernels of their own; by those that make the tensor, whatever they are, or
/// norms alone, or norms and activations; or, where all of it shares a scale, behind a pass that looks for its largest
/// magnitude, which norms may have looked for.
enum class Casts : std::uint8_t { apart, fused, by_norms, by_norms_and_activations, scaled, scaled_by_makers };
/// Columns of what nvfp4's weight gradients multiply, which are rotated (a random Hadamard transform): cast beside the
/// rows, or by a kernel of their own.
enum class RotatedColumns : std::uint8_t { with_rows, apart };
/// The optimizer's states: fp32; with moments of 16 bits; or all in the type of the weights, which are updated as they
/// are.
enum class OptimizerStates : std::uint8_t { fp32, moments_16bit, as_weights };
/// With states in the host's memory, gradients leave behind the last backward pass; with each, those of several being
/// added up by the device; or by the host, which clips them too.
enum class OffloadedGradients : std::uint8_t { behind_passes, in_passes, added_by_host };
/// Whole gradients stay and are set to zero at a step's begin; or backward passes make them, those of a chunk living
/// from its first backward pass to its last.
enum class GradientBuffers : std::uint8_t { held, on_demand };
/// Copies of keys and values ahead of attention: none; out of a tensor that queries share with them, which stays; or to
/// as many heads as queries have.
enum class KeyCopies : std::uint8_t { none, apart, repeated };
/// Units of sharded parameters are used in the buffer of their gather; copied out of it, and their gradients into that
/// of the reduction; or so out of memory of another stream's pool.
enum class UnitGathers : std::uint8_t { in_place, copied, own_pool };
/// The output of attention, into the layout of the projection: a copy that is kept, or that the backward pass makes
/// again.
enum class OutputCopy : std::uint8_t { none, kept, made_again };
/// What the host replays as CUDA graphs: nothing; of a layer of experts its router, up to the counts of tokens; all
/// that lies ahead of these, attention among it; or beside that attention and mixers of layers without experts.
enum class Graphs : std::uint8_t { none, router, ahead_of_counts, mixers };

std::string_view name_of(Recompute recompute);
std::string_view name_of(AttentionKind attention);
std::string_view name_of(WeightGradients gradients);
std::string_view name_of(QueryLayers layers);
std::string_view name_of(Casts casts);
std::string_view name_of(RotatedColumns columns);
std::string_view name_of(OptimizerStates states);
std::string_view name_of(OffloadedGradients gradients);
std::string_view name_of(GradientBuffers buffers);
std::string_view name_of(KeyCopies copies);
std::string_view name_of(UnitGathers gathers);
std::string_view name_of(OutputCopy copy);
std::string_view name_of(Graphs graphs);

/// Rates of linear layers' GEMMs.
struct GemmRates {
  double misaligned = 1;   // of a 16-bit one whose rows do not begin at 16 bytes, over an aligned one
  double of_library = 1;   // of any 16-bit one, over that with the library that the device was measured with
  double rows_scaled = 1;  // of a forward one with scales of rows and long sums, over one with one scale
  bool operator==(const GemmRates&) const = default;
};

/// Linear layers: what their GEMMs take along.
struct LinearStyle {
  WeightGradients weight_gradients = WeightGradients::fused;
  bool bias_in_gemm = false;  // the GEMM adds the bias
  struct Queries {
    QueryLayers layers = QueryLayers::joint;  // three have a reduction of the input's gradient each
    bool separate() const { return layers == QueryLayers::separate; }
    bool shares_heads = false;  // tensor ranks that are more than the heads of keys share these, of a gathered tensor
    bool operator==(const Queries&) const = default;
  } queries;
  bool separate_gate = false;  // a gated MLP's two up projections are two products
  GemmRates rates;
  double column_cast_traffic = 1;      // bytes of an operand's cast with scales of columns, over one with those of rows
  bool async_tensor_backward = false;  // input-gradient reductions run beside the weight-gradient GEMMs
  bool keeps_gathered_inputs = false;  // of column-parallel layers, for their weight gradients
  bool fp8_activation_input = false;   // what the activation between two reads is kept in fp8
  bool gathers_quantised = false;      // the tensor group gathers what is cast, where all of it shares a scale
  bool sequence_behind_batch = false;  // what a tensor group exchanges is copied into, or out of, the order of ranks
  bool recomputes_needed_only = false;  // of recomputed parts, no product whose result no gradient needs
  bool exchanges_fused = false;         // one that overlaps does so with a product of its own, and nothing else
  UnitGathers unit_gathers = UnitGathers::in_place;
  bool copies_units() const { return unit_gathers != UnitGathers::in_place; }
  bool operator==(const LinearStyle&) const = default;
};

/// The head and the loss.
struct HeadStyle {
  bool pads_vocabulary = true;   // up to a multiple of 128 per tensor rank, so that the head's GEMMs are aligned
  double training_metrics = 0;   // losses computed once more per micro-batch, for the log
  bool z_loss = false;           // the logits' log-sum-exp, squared, is part of the loss
  bool gathers_logits = false;   // of all shards of the vocabulary, ahead of a loss that every rank computes
  bool whole_embedding = false;  // every tensor rank holds all of the embedding
  bool operator==(const HeadStyle&) const = default;
};

/// What is done around the products of experts.
struct ExpertHabits {
  double spare_processors = 0;  // SMs that fused products leave free where exchanges run beside another micro-batch
  bool operator==(const ExpertHabits&) const = default;
};

/// How the kernels of a layer are cut: what is fused with what, and what is computed beside it.
struct LayerStyle {
  Recipes recipes;
  Casts casts = Casts::apart;
  RotatedColumns rotated_columns = RotatedColumns::with_rows;
  /// Of fp8: a scale of each tensor, found by a pass of its own, or by whatever kernel.
  bool looks_for_scales() const { return casts == Casts::scaled; }
  bool has_tensor_scales() const { return casts == Casts::scaled || casts == Casts::scaled_by_makers; }
  bool dropout = true;           // of hidden states and attention probabilities
  bool compiled_blocks = false;  // a compiler fuses what lies between the products of a block, and nothing outside
  double extra_kernels_per_layer = 0;  // small kernels per layer and direction beyond those modelled (views, copies)
  LinearStyle linear;
  HeadStyle head;
  ExpertHabits experts;
  bool operator==(const LayerStyle&) const = default;
};

/// Which kernels attention is, and what is moved about for them.
struct AttentionStyle {
  double qkv_copies = 0;  // times that q, k and v are copied on the way to the attention kernel, beyond its recipe
  double qkv_gradient_copies = 0;  // and their gradients on the way back
  KeyCopies key_copies = KeyCopies::none;
  bool repeats_keys() const { return key_copies == KeyCopies::repeated; }
  OutputCopy output_copy = OutputCopy::none;
  bool gathered_in_blocks = false;      // gathered keys are attended to block by block, gradients sent on in fp32
  double fused_softmax_matrices = 1;    // unfused attention: score matrices that the softmax kernel takes at a time
  bool fused_softmax_by_heads = false;  // whether that kernel may run is judged by the heads of a rank, by mistake
  AttentionKernel attention_kernel = AttentionKernel::fused;
  double score_operations = 0;  // in fp32, of each score beyond those of that kernel
  sim::Duration host_reads{};   // in which the device idles in a forward pass, while the host reads numbers from it
  bool operator==(const AttentionStyle&) const = default;
};

/// How the optimizer step is cut into kernels.
struct OptimizerStyle {
  std::shared_ptr<const Recipe> recipe;  // of the update; null: nothing runs
  OptimizerStates states = OptimizerStates::fp32;
  bool follows_weights() const { return states == OptimizerStates::as_weights; }
  GradientBuffers gradient_buffers = GradientBuffers::held;
  bool clears_gradients() const { return gradient_buffers == GradientBuffers::held; }
  // With states in the host's memory (offload.optimizer).
  OffloadedGradients offloaded_gradients = OffloadedGradients::behind_passes;
  bool leaves_in_passes() const { return offloaded_gradients != OffloadedGradients::behind_passes; }
  bool host_adds() const { return offloaded_gradients == OffloadedGradients::added_by_host; }
  double host_update_share = 0.45;  // of its memory's bandwidth; assumed: no step with it was measured
  bool operator==(const OptimizerStyle&) const = default;
};

}  // namespace orrery::calibration
