// ZB-H2 (Qi et al., arXiv 2401.10241, section 2 and figure 3 bottom). Stage s runs 2(p - s) - 1 forward passes before
// its first backward pass and lets its weight gradients lag 2s micro-batches, so that every stage holds 2p - 1. A stage
// that starts later also ends later: with an optimizer step that does not wait for all stages, its bubble is
// (p-1)(F + b - 2W), nothing where all three take as long.
#include "workloads/schedules/schedule.h"
#include "workloads/schedules/zero_bubble.h"

namespace orrery::workloads {

std::vector<Pass> zb_h2(std::int32_t stage, std::int32_t stages, std::int32_t microbatches) {
  return delayed_weight_gradients(2 * (stages - stage) - 1, 2 * stage, microbatches);
}

}  // namespace orrery::workloads
