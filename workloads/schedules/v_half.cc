// V-Half (Qi et al., arXiv 2405.15362, section 4; building block as in the authors' repository,
// sail-sg/zero-bubble-pipeline-parallelism). Forward passes of chunk 0 step down the stages every two units, those of
// chunk 1 come back every unit, gradients likewise: a micro-batch stays half as long as in ZB-V, so about p/2
// micro-batches are held, for about half of 1F1B's bubble. Extra units keep the four passes of a stage apart.
#include "workloads/schedules/schedule.h"
#include "workloads/schedules/zero_bubble.h"

namespace orrery::workloads {

std::vector<Pass> v_half(std::int32_t stage, std::int32_t stages, std::int32_t microbatches) {
  const std::int32_t apart = stages % 2 == 0 ? 3 : 0;
  BuildingBlock block;
  block.forward[0] = 2 * stage;
  block.forward[1] = 3 * stages - 2 - stage;
  block.input_gradient[1] = 3 * stages - 1 + apart + 2 * stage;
  block.input_gradient[0] = 6 * stages - 2 + apart - stage;
  return repeated(block, microbatches);
}

}  // namespace orrery::workloads
