// A forward pass of a model as an inference engine runs it: the kernels of each kind of layer on one rank, as values.
// Engines fuse what training does one by one (queries, keys and values in one product, the residual sum with the norm,
// rotation with the write into the cache), so the list is not that of layer.h. Kernels, bytes of weights and of the
// cache are folds over it. Blocks by pattern are lists of their own kinds. Of an encoder alone the first token's last
// state is an answer. Left out: vision encoders, decoders that read an encoder's output.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "calibration/device/serving_kernels.h"
#include "workloads/model/model.h"

namespace orrery::workloads {

using calibration::WeightType;

/// GPUs of a replica: tensor x attention_data x pipeline. Attention is cut over `tensor` ranks, and `attention_data`
/// such groups have sequences of their own; experts are dealt out to `expert` groups of the ranks of a stage, each
/// expert cut over those of a group. Or experts have GPUs of their own, and micro-batches travel between these and the
/// ones of attention (MegaScale-Infer, Zhu et al. 2025; Step-3, Wang et al. 2025); shared experts and blocks without
/// experts stay with attention.
struct ServedLayout {
  std::int64_t tensor = 1, pipeline = 1, expert = 1, attention_data = 1;
  std::int64_t redundant_experts = 0;  // copies of experts that are busy, beyond one of each
  std::int64_t expert_gpus = 0;        // of their own for routed experts; 0: they lie with attention
  std::int64_t micro_batches = 1;      // under way between the two
  bool experts_apart() const { return expert_gpus > 0; }
  std::int64_t stage_gpus() const { return tensor * attention_data; }
  std::int64_t gpus() const { return stage_gpus() * pipeline + expert_gpus; }
  std::int64_t expert_tensor() const { return (experts_apart() ? expert_gpus : stage_gpus()) / expert; }
  bool operator==(const ServedLayout&) const = default;
};

/// What a router multiplies in: 16 bits; or fp32, in which its weights and what it reads then are, as it is or rounded
/// to TF32 on the way into matrix units.
enum class RouterType : std::uint8_t { bf16, fp32, tf32 };
/// Queries and keys are normalised head by head; or all of them at once, for which tensor ranks add up their squares.
enum class QkNorm : std::uint8_t { of_heads, of_all };

/// Types, and what else an implementation of the model chooses.
struct ServedPrecision {
  WeightType weights = WeightType::bf16;    // of linear layers; embeddings and head have 16 bits
  WeightType attention = WeightType::bf16;  // of its projections
  WeightType experts = WeightType::bf16;
  double kv_bytes = 2;     // of an element of the cache
  double state_bytes = 4;  // of an element of a mixer's state
  RouterType router = RouterType::bf16;
  QkNorm qk_norm = QkNorm::of_heads;
  double routing_power = 0;  // exponent of the power law of experts' loads; 0: tokens come to them by chance
  bool operator==(const ServedPrecision&) const = default;
};

/// Which rows a kernel works on.
enum class Rows : std::uint8_t { all, sampled };

/// Which operations may run beside each other: shared experts and the routed ones.
enum class Branch : std::uint8_t { line, routed, shared };

/// A product with a weight [n, k] of this rank.
struct ProductOp {
  std::string_view name;
  WeightType type;
  double n, k;
  Rows rows = Rows::all;
  Branch branch = Branch::line;
  bool held = true;                  // its weights lie here; else those of a layer ahead are read again
  RouterType in = RouterType::bf16;  // of a router, whose type is bf16
};
/// A kernel bound by memory: bytes read and written for each row.
struct RowsOp {
  std::string_view name;
  double bytes_each;
  Rows rows = Rows::all;
  bool behind_sum = false;  // of what the all-reduce ahead of it gives
  Branch branch = Branch::line;
};
struct AttendOp {
  double heads, kv_heads, head_dim, window, kv_bytes;
  bool leaves_keys = true;  // for later tokens: not where a layer reads those of one ahead of it, nor in an encoder
  bool causal = true;
};
/// A whole attention block with latent keys; `weights`: its bytes on this rank.
struct LatentOp {
  calibration::LatentBlock block;
  double weights;
};
/// A mixer with a state between its products (served_mixers.h).
struct StateOp {
  calibration::ServedScan scan;  // of this rank, but for sequences and positions
  bool convolved = true;
  double sequence_bytes = 0;  // that a sequence leaves
  double weights = 0;         // bytes on this rank
};
/// A whole attention block to some of the keys.
struct SparseOp {
  calibration::SparseBlock block;              // but for sequences and tokens
  double weights = 0;                          // bytes on this rank
  double token_bytes = 0, sequence_bytes = 0;  // that a token leaves in the cache, and a sequence beside
};
struct ExpertsOp {
  calibration::ServedMixture mixture;  // but for its tokens
  double groups = 1;                   // attention groups whose tokens come together
  bool dispatched = false;             // a rank sees the rows alone that are sent to it
};
/// All-reduce of rows over the tensor ranks.
struct SumOp {
  double gpus, bytes_each;
  std::optional<ProductOp> product;  // that made the rows, where one did
};
/// Rows to experts of other ranks and back; where experts are cut over all ranks, all rows to all of them.
struct RouteOp {
  calibration::LowLatencyExchange exchange;  // but for its tokens
  bool gathers = false;
};
/// Weights that no product reads as a whole.
struct TableOp {
  std::string_view name;
  double weights;  // bytes on this rank
};
using ServedOp =
    std::variant<ProductOp, RowsOp, AttendOp, LatentOp, StateOp, SparseOp, ExpertsOp, SumOp, RouteOp, TableOp>;

/// Layers that are alike.
struct ServedStack {
  std::int64_t layers;
  std::vector<ServedOp> ops;
};
struct ServedPass {
  std::vector<ServedStack> stacks;  // all layers of the model
  std::vector<ServedOp> ends;       // embedding, last norm, head, the choice of tokens
  std::vector<ServedOp> draft;      // a layer that proposes tokens, where there is one
  ServedLayout layout;
};

/// `gpus_per_node`: a stage over several nodes exchanges between them. `drafts`: tokens that a further layer proposes.
ServedPass served_pass(const Model& model, const ServedLayout& layout, const ServedPrecision& precision,
                       std::int64_t gpus_per_node, std::int64_t drafts = 0);

/// Whether the model is an encoder alone, whose answer is a state, and not a token.
bool answers_with_states(const Model& model);

/// Bytes of weights on the fullest rank of those that attend, and of those that have experts alone (0: none does).
double weight_bytes(const ServedPass& pass);
double apart_weight_bytes(const ServedPass& pass);
/// Bytes that a token leaves in the cache of a rank of the stage with most layers.
double cache_bytes_per_token(const ServedPass& pass);
/// Bytes that a sequence leaves there beside, however long it is: states of mixers, windows ahead of compressed keys.
double cache_bytes_per_sequence(const ServedPass& pass);

}  // namespace orrery::workloads
