// Interleaved 1F1B (Narayanan et al., arXiv 2104.04473, section 2.2 and figure 4 bottom), in the order of Megatron-LM:
// the k-th forward pass of a stage takes chunk (k mod p v) / p and micro-batch (k / p v) p + k mod p; backward passes
// run through the chunks from the last to the first. Stage s warms up with 2 (p-1-s) + (v-1) p forward passes. Bubble
// (p-1)/(v m) of the ideal time.
#include <fmt/format.h>

#include <algorithm>

#include "sim/error.h"
#include "workloads/schedules/catalogue.h"
#include "workloads/schedules/in_turn.h"

namespace orrery::workloads {

namespace {
Pass nth_pass(PassKind kind, std::int64_t k, const PipelineShape& shape) {
  const std::int64_t stages = shape.stages, round = stages * shape.chunks;
  const auto chunk = static_cast<std::int32_t>(k % round / stages);
  const auto microbatch = static_cast<std::int32_t>(k / round * stages + k % stages);
  return {kind, kind == PassKind::backward ? shape.chunks - 1 - chunk : chunk, microbatch};
}

/// Forward passes of a stage ahead of its first backward pass but for the one right before that, if there are so many.
std::int64_t ahead_of_pairs(std::int32_t stage, const PipelineShape& shape) {
  return 2LL * (shape.stages - 1 - stage) + static_cast<std::int64_t>(shape.chunks - 1) * shape.stages;
}

std::vector<Pass> interleaved_1f1b_passes(std::int32_t stage, const PipelineShape& shape) {
  SIM_CHECK(shape.microbatches % shape.stages == 0, "{} micro-batches do not come in groups of {} stages",
            shape.microbatches, shape.stages);
  const std::int64_t total = static_cast<std::int64_t>(shape.microbatches) * shape.chunks;
  // With one group of micro-batches Megatron-LM ran every forward pass before the first backward pass until its commit
  // 4295be1a (November 2024, core_v0.10.0); PyTorch's ScheduleInterleaved1F1B never did.
  const bool all_forward = shape.one_group_forward_first && shape.microbatches == shape.stages;
  const std::int64_t warm_up = all_forward ? total : std::min(total, ahead_of_pairs(stage, shape));
  return in_turn(warm_up, total, [&](PassKind kind, std::int64_t k) { return nth_pass(kind, k, shape); });
}

/// As PyTorch fills time slots (pytorch/pytorch, torch/distributed/pipelining/schedules.py, _get_1f1b_rank_ops): stage
/// s warms up from slot s on; then forward passes have every second slot from v p + 2 (p-1-s) on and backward passes
/// those between, so that neighbours go forward in the same slots.
std::vector<std::int64_t> interleaved_1f1b_slots(std::int32_t stage, const PipelineShape& shape,
                                                 const std::vector<Pass>& order) {
  const std::int64_t warm_up = ahead_of_pairs(stage, shape);
  const std::int64_t begin = static_cast<std::int64_t>(shape.stages) * shape.chunks + 2LL * (shape.stages - 1 - stage);
  std::vector<std::int64_t> slots;
  std::int64_t forwards = 0, backwards = 0;
  for (const Pass& pass : order) {
    if (pass.kind != PassKind::forward)
      slots.push_back(begin + 2 * backwards++ + 1);
    else if (forwards < warm_up)
      slots.push_back(stage + forwards++);
    else
      slots.push_back(begin + 2 * (forwards++ - warm_up));
  }
  return slots;
}

/// (v - 1) p + 2 (p - 1) passes ahead, of which v p make p micro-batches: less than two such groups, which touch three.
Repetition interleaved_1f1b_repeats(std::int64_t stages) { return {.period = stages, .lead = 3 * stages}; }

std::optional<Misfit> interleaved_1f1b_misfit(const PipelineShape& shape) {
  if (shape.stages == 1)
    return Misfit{Misfit::Of::chunks, "with one pipeline stage, expected 1, or a pipeline of at least 2"};
  if (shape.microbatches % shape.stages != 0)
    return Misfit{Misfit::Of::microbatches, fmt::format("a multiple of pipeline {}", shape.stages)};
  return std::nullopt;
}
}  // namespace

constinit const Schedule schedules::interleaved_1f1b{
    .name = "interleaved_1f1b",
    .meaning = "1F1B with several chunks of layers per stage, micro-batches in groups of p",
    .paper = "Narayanan et al., arXiv 2104.04473, section 2.2",
    .passes = interleaved_1f1b_passes,
    .chunks = kAnyChunks,
    .with_one_chunk = &schedules::one_f_one_b,
    .nested = true,
    .runtimes = {.wait_in_warm_up = true, .with_megatron = true},
    .repeats = interleaved_1f1b_repeats,
    .slots = interleaved_1f1b_slots,
    .constraints = interleaved_1f1b_misfit,
};

}  // namespace orrery::workloads
