// ZB-H1 (Qi et al., arXiv 2401.10241, section 2 and figure 3 top). Stage s runs p - s forward passes, then b, W and F
// in turn, as 1F1B; its weight gradients lag s micro-batches behind, so that gradients reach the first stages sooner
// and every stage holds p micro-batches. Bubble, with b and W the halves of the backward pass: (p-1)(F + b - W), a
// third of 1F1B's where all three take as long.
#include <algorithm>

#include "workloads/schedules/catalogue.h"
#include "workloads/schedules/zero_bubble.h"

namespace orrery::workloads {

std::vector<Pass> delayed_weight_gradients(std::int32_t warm_up, std::int32_t lag, std::int32_t microbatches) {
  std::vector<Pass> passes;
  passes.reserve(3 * static_cast<std::size_t>(microbatches));
  std::int32_t ahead = std::min(microbatches, warm_up);
  for (std::int32_t m = 0; m < ahead; ++m) passes.push_back({PassKind::forward, 0, m});
  for (std::int32_t m = 0; m < microbatches; ++m) {
    passes.push_back({PassKind::input_gradient, 0, m});
    if (m >= lag) passes.push_back({PassKind::weight_gradient, 0, m - lag});
    if (ahead < microbatches) passes.push_back({PassKind::forward, 0, ahead++});
  }
  for (std::int32_t m = std::max(0, microbatches - lag); m < microbatches; ++m)
    passes.push_back({PassKind::weight_gradient, 0, m});
  return passes;
}

namespace {
std::vector<Pass> zb_h1_passes(std::int32_t stage, const PipelineShape& shape) {
  return delayed_weight_gradients(shape.stages - stage, stage, shape.microbatches);
}
}  // namespace

constinit const Schedule schedules::zb_h1{
    .name = "zb_h1",
    .meaning = "1F1B with split backward passes, weight gradients in its waits; holds p micro-batches",
    .paper = "Qi et al., arXiv 2401.10241, figure 3 top",
    .passes = zb_h1_passes,
    .backward = BackwardPasses::cut,
    .runtimes = {.post_ahead = true, .place_by_times = true, .step_apart = true},
};

}  // namespace orrery::workloads
