// Pipeline schedules: in which order a stage runs the forward and backward passes of its micro-batches and chunks. Each
// schedule is a pure function in a file of its own; the catalogue lists them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "workloads/job.h"

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
  std::int32_t chunk = 0;  // 0 .. virtual_pipeline - 1, counted on the stage
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

/// GPipe (Huang et al., arXiv 1811.06965): all forward passes, then all backward passes in reverse order.
std::vector<Pass> gpipe(std::int32_t microbatches);

/// 1F1B (PipeDream-flush; Narayanan et al., arXiv 2104.04473): stage s runs p - 1 - s forward passes ahead, then one
/// forward and one backward in turn.
std::vector<Pass> one_f_one_b(std::int32_t stage, std::int32_t stages, std::int32_t microbatches);

/// Interleaved 1F1B (arXiv 2104.04473, section 2.2): the stage's layers are cut into chunks; micro-batches go through
/// in groups of p, chunk by chunk. microbatches must be a multiple of stages.
std::vector<Pass> interleaved_1f1b(std::int32_t stage, std::int32_t stages, std::int32_t chunks,
                                   std::int32_t microbatches);

/// ZB-H1 (Qi et al., arXiv 2401.10241, figure 3 top): 1F1B whose weight gradients wait, on stage s for s micro-batches,
/// so that every stage holds p micro-batches.
std::vector<Pass> zb_h1(std::int32_t stage, std::int32_t stages, std::int32_t microbatches);

/// ZB-H2 (the same, figure 3 bottom): up to 2p - 1 micro-batches held, which fills the wait for the first gradient too.
std::vector<Pass> zb_h2(std::int32_t stage, std::int32_t stages, std::int32_t microbatches);

/// ZB-V (Qi et al., arXiv 2405.15362, figure 4): two chunks per stage laid as a V; holds what 1F1B holds (2p halves).
std::vector<Pass> zb_v(std::int32_t stage, std::int32_t stages, std::int32_t microbatches);

/// V-Half and V-Min (arXiv 2405.15362, section 4): the same V, with about a half and a third of 1F1B's activations.
std::vector<Pass> v_half(std::int32_t stage, std::int32_t stages, std::int32_t microbatches);
std::vector<Pass> v_min(std::int32_t stage, std::int32_t stages, std::int32_t microbatches);

/// DualPipe (DeepSeek-V3, arXiv 2412.19437, figure 5): micro-batches enter from both ends, so every stage holds two
/// blocks. `stages` even, `microbatches` even and at least 2 stages.
std::vector<Pass> dualpipe(std::int32_t stage, std::int32_t stages, std::int32_t microbatches);

/// The passes of one stage under the schedule of that name, in the order of its paper; the catalogue of schedules.
std::vector<Pass> passes_of(ScheduleKind schedule, std::int32_t stage, std::int32_t stages, std::int32_t chunks,
                            std::int32_t microbatches);

/// Whether some backward passes are cut in two.
bool splits_backward(ScheduleKind schedule);
/// Chunks per stage that the schedule asks for; 0: as many as the scenario says.
std::int64_t chunks_of(ScheduleKind schedule);
/// Takes backward passes out of an order: an evaluation.
std::vector<Pass> forward_only(std::vector<Pass> passes);

}  // namespace orrery::workloads
