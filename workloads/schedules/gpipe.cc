// GPipe (Huang et al., arXiv 1811.06965): all forward passes, then all backward passes, last micro-batch first. Every
// stage keeps the activations of all micro-batches. Bubble (p-1)/m of the ideal time.
#include "workloads/schedules/schedule.h"

namespace orrery::workloads {

std::vector<Pass> gpipe(std::int32_t microbatches) {
  std::vector<Pass> passes;
  passes.reserve(2 * static_cast<std::size_t>(microbatches));
  for (std::int32_t m = 0; m < microbatches; ++m) passes.push_back({PassKind::forward, 0, m});
  for (std::int32_t m = microbatches; m-- > 0;) passes.push_back({PassKind::backward, 0, m});
  return passes;
}

}  // namespace orrery::workloads
