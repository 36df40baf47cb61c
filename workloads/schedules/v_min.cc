// V-Min (Qi et al., arXiv 2405.15362, section 4; building block as in the authors' repository,
// sail-sg/zero-bubble-pipeline-parallelism). Every pass follows the one before it at once: a micro-batch stays as
// briefly as it can, about p/3 micro-batches are held, for about two thirds of 1F1B's bubble where F, b and W take as
// long; where they do not, stages wait for each other in every micro-batch.
#include "workloads/schedules/catalogue.h"
#include "workloads/schedules/zero_bubble.h"

namespace orrery::workloads {

namespace {
std::vector<Pass> v_min_passes(std::int32_t stage, const PipelineShape& shape) {
  const std::int32_t stages = shape.stages;
  const std::int32_t apart = stages % 3 == 0 ? 2 : 0;
  BuildingBlock block;
  block.forward[0] = stage;
  block.forward[1] = 2 * stages - 1 - stage;
  block.input_gradient[1] = 2 * stages + apart + stage;
  block.input_gradient[0] = 4 * stages - 1 + apart - stage;
  return repeated(block, shape.microbatches);
}
}  // namespace

constinit const Schedule schedules::v_min{
    .name = "v_min",
    .meaning = "the V of zb_v with about a third of the activations and two thirds of the bubble of 1F1B",
    .paper = "Qi et al., arXiv 2405.15362, section 4",
    .passes = v_min_passes,
    .order = ChunkOrder::vee,
    .chunks = 2,
    .backward = BackwardPasses::cut,
    .runtimes = {.post_ahead = true, .place_by_times = true, .step_apart = true},
};

}  // namespace orrery::workloads
