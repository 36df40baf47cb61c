// GPipe (Huang et al., arXiv 1811.06965): all forward passes, then all backward passes, last micro-batch first. Every
// stage keeps the activations of all micro-batches. Bubble (p-1)/m of the ideal time.
#include "workloads/schedules/catalogue.h"

namespace orrery::workloads {

namespace {
std::vector<Pass> gpipe_passes(std::int32_t, const PipelineShape& shape) {
  std::vector<Pass> passes;
  passes.reserve(2 * static_cast<std::size_t>(shape.microbatches));
  for (std::int32_t m = 0; m < shape.microbatches; ++m) passes.push_back({PassKind::forward, 0, m});
  for (std::int32_t m = shape.microbatches; m-- > 0;) passes.push_back({PassKind::backward, 0, m});
  return passes;
}
}  // namespace

constinit const Schedule schedules::gpipe{
    .name = "gpipe",
    .meaning = "all forward passes, then all backward passes; holds every micro-batch",
    .paper = "Huang et al., arXiv 1811.06965",
    .passes = gpipe_passes,
    .holds_all = true,
    .nested = true,
};

}  // namespace orrery::workloads
