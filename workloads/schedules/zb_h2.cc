// ZB-H2 (Qi et al., arXiv 2401.10241, section 2 and figure 3 bottom). Stage s runs 2(p - s) - 1 forward passes before
// its first backward pass and lets its weight gradients lag 2s micro-batches, so that every stage holds 2p - 1. A stage
// that starts later also ends later: with an optimizer step that does not wait for all stages, its bubble is
// (p-1)(F + b - 2W), nothing where all three take as long.
#include "workloads/schedules/catalogue.h"
#include "workloads/schedules/zero_bubble.h"

namespace orrery::workloads {

namespace {
std::vector<Pass> zb_h2_passes(std::int32_t stage, const PipelineShape& shape) {
  return delayed_weight_gradients(2 * (shape.stages - stage) - 1, 2 * stage, shape.microbatches);
}

/// ZB-2p may hold 2p micro-batches, of which ZB-H2 uses one less.
std::int64_t held_when_searched(std::int64_t stages) { return 2 * stages; }
}  // namespace

constinit const Schedule schedules::zb_h2{
    .name = "zb_h2",
    .meaning = "as zb_h1 without a bubble where all passes take as long; holds 2p - 1 micro-batches",
    .paper = "Qi et al., arXiv 2401.10241, figure 3 bottom",
    .passes = zb_h2_passes,
    .backward = BackwardPasses::cut,
    .runtimes = {.post_ahead = true, .place_by_times = true, .step_apart = true},
    .held_when_searched = held_when_searched,
};

}  // namespace orrery::workloads
