// 1F1B with flush (Narayanan et al., arXiv 2104.04473, figure 4 top; PipeDream-flush): stage s of p warms up with
// min(m, p-1-s) forward passes, then alternates one forward and one backward, then drains. At most p - s micro-batches
// are in flight. Bubble (p-1)/m of the ideal time, as GPipe.
#include <algorithm>

#include "workloads/schedules/schedule.h"

namespace orrery::workloads {

std::vector<Pass> one_f_one_b(std::int32_t stage, std::int32_t stages, std::int32_t microbatches) {
  const std::int32_t warm_up = std::min(microbatches, stages - 1 - stage);
  std::vector<Pass> passes;
  passes.reserve(2 * static_cast<std::size_t>(microbatches));
  for (std::int32_t m = 0; m < warm_up; ++m) passes.push_back({PassKind::forward, 0, m});
  for (std::int32_t m = warm_up; m < microbatches; ++m) {
    passes.push_back({PassKind::forward, 0, m});
    passes.push_back({PassKind::backward, 0, m - warm_up});
  }
  for (std::int32_t m = microbatches - warm_up; m < microbatches; ++m) passes.push_back({PassKind::backward, 0, m});
  return passes;
}

}  // namespace orrery::workloads
