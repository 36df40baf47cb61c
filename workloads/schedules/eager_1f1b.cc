// Eager 1F1B (Zhuang et al., On Optimizing the Communication of Model Parallelism, MLSys 2023, arXiv 2211.05322; the
// order is that of its code: alpa/pipeline_parallel/schedules.py, OverlapFriendlyPipeDreamSchedule). Stage s of p runs
// 2(p-s) - 1 forward passes before its first backward pass, where 1F1B runs p - s: what a stage sends forward is needed
// a forward and a backward pass later, not at once, so messages cost no time while two of them take no longer than
// F + B. Up to 2(p-s) - 1 micro-batches are held. Bubble as 1F1B where communication is free and B takes no less than
// F.
#include <algorithm>

#include "workloads/schedules/catalogue.h"
#include "workloads/schedules/in_turn.h"

namespace orrery::workloads {

namespace {
std::vector<Pass> eager_1f1b_passes(std::int32_t stage, const PipelineShape& shape) {
  return in_turn(std::min(shape.microbatches, 2 * (shape.stages - 1 - stage)), shape.microbatches);
}

/// The first stage runs 2(p - 1) micro-batches ahead, and one more under way.
Repetition eager_1f1b_repeats(std::int64_t stages) { return {.period = 1, .lead = 2 * stages - 1}; }
}  // namespace

constinit const Schedule schedules::eager_1f1b{
    .name = "eager_1f1b",
    .meaning = "1F1B whose forward passes run ahead of their messages; holds 2(p - s) - 1 micro-batches",
    .paper = "Zhuang et al., arXiv 2211.05322",
    .passes = eager_1f1b_passes,
    .nested = true,
    .runtimes = {.post_ahead = true},
    .repeats = eager_1f1b_repeats,
};

}  // namespace orrery::workloads
