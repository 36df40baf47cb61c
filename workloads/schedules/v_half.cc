// V-Half (Qi et al., arXiv 2405.15362, section 4; building block as in the authors' repository,
// sail-sg/zero-bubble-pipeline-parallelism). Forward passes of chunk 0 step down the stages every two units, those of
// chunk 1 come back every unit, gradients likewise: a micro-batch stays half as long as in ZB-V, so about p/2
// micro-batches are held, for about half of 1F1B's bubble. Extra units keep the four passes of a stage apart.
#include "workloads/schedules/catalogue.h"
#include "workloads/schedules/zero_bubble.h"

namespace orrery::workloads {

namespace {
std::vector<Pass> v_half_passes(std::int32_t stage, const PipelineShape& shape) {
  const std::int32_t stages = shape.stages;
  const std::int32_t apart = stages % 2 == 0 ? 3 : 0;
  BuildingBlock block;
  block.forward[0] = 2 * stage;
  block.forward[1] = 3 * stages - 2 - stage;
  block.input_gradient[1] = 3 * stages - 1 + apart + 2 * stage;
  block.input_gradient[0] = 6 * stages - 2 + apart - stage;
  return repeated(block, shape.microbatches);
}
}  // namespace

constinit const Schedule schedules::v_half{
    .name = "v_half",
    .meaning = "the V of zb_v with about half of the activations and half of the bubble of 1F1B",
    .paper = "Qi et al., arXiv 2405.15362, section 4",
    .passes = v_half_passes,
    .order = ChunkOrder::vee,
    .chunks = 2,
    .backward = BackwardPasses::cut,
    .runtimes = {.post_ahead = true, .place_by_times = true, .step_apart = true},
};

}  // namespace orrery::workloads
