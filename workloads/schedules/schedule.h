// Pipeline schedules: in which order a stage runs the forward and backward passes of its micro-batches and chunks. A
// schedule is a row: a pure function that makes the order, and what else holds wherever it runs. Each row stands in a
// file of its own; catalogue.h lists them, and whoever wants to know something about a schedule asks its row.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "workloads/schedules/chunk_map.h"

namespace orrery::workloads {

/// What a pass computes. The backward pass comes whole, or cut in two (Qi et al., arXiv 2401.10241): the gradient of
/// the inputs, for which the stage before waits, and that of the weights, which can be put off.
enum class PassKind : std::uint8_t { forward, backward, input_gradient, weight_gradient };

/// Whether the pass hands a gradient to the stage before it.
constexpr bool sends_gradient(PassKind kind) { return kind == PassKind::backward || kind == PassKind::input_gradient; }
/// Whether the pass makes gradients of weights, after which its activations are needed no more.
constexpr bool ends_microbatch(PassKind kind) {
  return kind == PassKind::backward || kind == PassKind::weight_gradient;
}
/// F forward, B backward, b gradient of the inputs, W gradient of the weights.
char letter_of(PassKind kind);

/// One pass of one micro-batch through one chunk of a stage's layers.
struct Pass {
  PassKind kind = PassKind::forward;
  std::int32_t chunk = 0;  // 0 .. chunks per stage - 1, counted on the stage
  std::int32_t microbatch = 0;
  /// Runs as one with the next pass: both wait for the inputs of both and send when both are done.
  bool with_next = false;
  friend bool operator==(const Pass&, const Pass&) = default;
};

/// The passes of every stage, in order.
using StageOrders = std::vector<std::vector<Pass>>;

/// "F0 F1 B0 B1 " for one chunk, "F0.0 F0.1 B1.0 " (chunk.microbatch) for more, as papers draw schedules; F0B1 for a
/// pair.
std::string text(const std::vector<Pass>& passes, bool with_chunks = false);

/// Takes backward passes out of an order: an evaluation.
std::vector<Pass> forward_only(std::vector<Pass> passes);

/// The pipeline that a schedule orders the passes of.
struct PipelineShape {
  std::int32_t stages = 1;
  std::int32_t chunks = 1;  // per stage
  std::int32_t microbatches = 1;
  /// Interleaved, with as many micro-batches as stages: no backward pass before the last forward pass.
  bool one_group_forward_first = true;
};

/// Why a schedule cannot run on a pipeline.
struct Misfit {
  enum class Of : std::uint8_t { stages, chunks, microbatches };
  Of of = Of::stages;
  /// Of stages and chunks: what follows "got N " and says what was expected. Of micro-batches: what is needed.
  std::string why;
};

/// How the order of passes repeats on every stage, away from both ends of the step (workloads/step/steady_state.h).
struct Repetition {
  std::int64_t period = 1;  // in micro-batches
  std::int64_t lead = 1;    // micro-batches that forward passes are ahead of backward passes, at most
};

/// How backward passes come: whole, cut in two, or some of each.
enum class BackwardPasses : std::uint8_t { whole, cut, mixed };

/// Chunks per stage of a schedule that runs with as many as the scenario says.
inline constexpr std::int64_t kAnyChunks = 0;

struct Schedule {
  std::string_view name;     // as scenarios spell it
  std::string_view meaning;  // one line for lists
  std::string_view paper;    // who describes it, and where
  /// The passes of one stage in the order of the paper.
  std::vector<Pass> (*passes)(std::int32_t stage, const PipelineShape& shape);
  /// How the blocks of the model lie on stages and chunks.
  ChunkOrder order = ChunkOrder::loop;
  std::int64_t chunks = 1;  // per stage, or kAnyChunks
  /// What a schedule of any number of chunks is with one; null: itself.
  const Schedule* with_one_chunk = nullptr;
  BackwardPasses backward = BackwardPasses::whole;
  /// Every stage holds the activations of all micro-batches, however many there are.
  bool holds_all = false;
  /// Every stage begins with the forward pass of its first chunk and ends with the whole backward pass of the same
  /// chunk, so that its work lies between passes of the stages before it.
  bool nested = false;
  /// What those do that run it.
  struct Runtimes {
    /// They post all messages ahead and wait for them on the device: the orders of two stages may cross, and a host
    /// that waited would lock up.
    bool post_ahead = false;
    /// They may wait for a message between two passes of a kind, in warm-up and cool-down; others could lock up.
    bool wait_in_warm_up = false;
    /// The authors place the weight gradients for the pass times that they profile (best_orders).
    bool place_by_times = false;
    /// They step the optimizer of each stage as it finishes (parallelism.optimizer_post_validation).
    bool step_apart = false;
    /// Megatron-LM is one of them.
    bool with_megatron = false;
  } runtimes = {};
  /// Micro-batches that the search of its authors may hold; null: as many as the paper's order does.
  std::int64_t (*held_when_searched)(std::int64_t stages) = nullptr;
  /// How the order repeats; null: never, or with different shifts forward and backward.
  Repetition (*repeats)(std::int64_t stages) = nullptr;
  /// The slot of each pass of a stage, where a runtime gives every pass one (a generation's message_phases: slots);
  /// null: none is known that does. `order`: of the stage.
  std::vector<std::int64_t> (*slots)(std::int32_t stage, const PipelineShape& shape,
                                     const std::vector<Pass>& order) = nullptr;
  /// What the schedule asks of a pipeline beside its number of chunks; null: nothing.
  std::optional<Misfit> (*constraints)(const PipelineShape& shape) = nullptr;

  /// Whether some backward passes are cut in two.
  bool splits_backward() const { return backward != BackwardPasses::whole; }
  /// Copies of the model, of which each sees its share of the micro-batches.
  std::int64_t copies() const { return order == ChunkOrder::both_ways ? 2 : 1; }
  ChunkMap map(std::int64_t stages, std::int64_t chunks_per_stage) const { return {order, stages, chunks_per_stage}; }
  std::optional<Misfit> misfit(const PipelineShape& shape) const {
    return constraints == nullptr ? std::nullopt : constraints(shape);
  }
};

/// What frameworks run that name no schedule: 1F1B, interleaved with more than one chunk per stage.
const Schedule& usual_schedule(std::int64_t chunks);

/// The passes of every stage in the order of the schedule's paper.
StageOrders paper_orders(const Schedule& schedule, const PipelineShape& shape);

}  // namespace orrery::workloads
