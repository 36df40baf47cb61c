// 1F1B with flush (Narayanan et al., arXiv 2104.04473, figure 4 top; PipeDream-flush): stage s of p warms up with
// min(m, p-1-s) forward passes, then alternates one forward and one backward, then drains. At most p - s micro-batches
// are in flight. Bubble (p-1)/m of the ideal time, as GPipe.
#include <algorithm>

#include "workloads/schedules/catalogue.h"
#include "workloads/schedules/in_turn.h"

namespace orrery::workloads {

namespace {
std::vector<Pass> one_f_one_b_passes(std::int32_t stage, const PipelineShape& shape) {
  return in_turn(std::min(shape.microbatches, shape.stages - 1 - stage), shape.microbatches);
}

/// The first stage runs p - 1 micro-batches ahead, and one more under way.
Repetition one_f_one_b_repeats(std::int64_t stages) { return {.period = 1, .lead = stages}; }
}  // namespace

constinit const Schedule schedules::one_f_one_b{
    .name = "1f1b",
    .meaning = "one forward and one backward pass in turn; holds p - s micro-batches",
    .paper = "Narayanan et al., arXiv 2104.04473, figure 4 top",
    .passes = one_f_one_b_passes,
    .nested = true,
    .runtimes = {.with_megatron = true},
    .repeats = one_f_one_b_repeats,
};

}  // namespace orrery::workloads
