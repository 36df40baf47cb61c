// Shares of layers by their times. See balanced_layers.h. Every block holds a run of like layers (a model's kinds of
// layers count by their mean), so that its time is a line in their number: give each layer to the block that is
// shortest with it. That is the least longest block: were there a shorter way, some block of it would hold more layers
// than here, and be at least as long with them as this way's longest block was when it took its last one.
#include "workloads/step/balanced_layers.h"

#include <algorithm>

#include "workloads/job/job_values.h"
#include "workloads/job/step_passes.h"

namespace orrery::workloads {

namespace {

double forward_and_backward(const PipelineTimes::Passes& passes) {
  return passes.forward + passes.input_gradient + passes.weight_gradient;
}

}  // namespace

std::vector<std::int64_t> deal_layers(std::int64_t layers, const std::vector<double>& seconds, double first,
                                      double last) {
  std::vector<std::int64_t> shares(seconds.size(), 0);
  std::vector<double> taken(seconds.size(), 0);
  taken.front() += first;
  taken.back() += last;
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    std::size_t least = 0;
    for (std::size_t block = 1; block < seconds.size(); ++block) {
      if (taken[block] + seconds[block] < taken[least] + seconds[least]) least = block;
    }
    ++shares[least];
    taken[least] += seconds[least];
  }
  return shares;
}

std::vector<std::int64_t> balanced_layers(const Job& job) {
  const ChunkMap map = job.parallelism.chunk_map();
  const auto blocks = static_cast<std::size_t>(map.blocks());
  const std::int64_t tensor = job.parallelism.tensor;
  // A split whose first cell has the embedding alone, its last the head, and one between them all the layers.
  Job one = job;
  one.parallelism.pipeline = 3;
  one.parallelism.virtual_pipeline = 1;
  one.parallelism.schedule = &usual_schedule(1);
  one.parallelism.stage_layers = {0, job.model.layers, 0};
  const LayerSplit split = split_layers(one);
  std::vector<PipelineTimes> kinds;
  for (std::size_t kind = 0; kind < job.machine.mixture.kinds(); ++kind) {
    kinds.push_back(pass_times(split, one.parallelism.chunk_map(),
                               {job.machine.device_of_kind(kind), job.software.layers.linear.rates},
                               tensor <= job.machine.gpus_per_node ? tensor : 1, 0));
  }
  const auto& of_stage = job.machine.mixture.kind_of_stage;
  std::vector<double> seconds(blocks, 0);
  double first = 0, last = 0;
  for (std::int64_t stage = 0; stage < map.stages(); ++stage) {
    const PipelineTimes& times = kinds[of_stage.empty() ? 0 : of_stage[static_cast<std::size_t>(stage)]];
    for (std::int64_t chunk = 0; chunk < map.chunks(); ++chunk) {
      const auto block = static_cast<std::size_t>(map.block_of({stage, chunk}));
      // Two copies of the model hold a block on two stages, which both have to be quick.
      seconds[block] =
          std::max(seconds[block], forward_and_backward(times.cells[1]) / static_cast<double>(job.model.layers));
      if (block == 0) first = forward_and_backward(times.cells.front());
      if (block + 1 == blocks) last = forward_and_backward(times.cells.back());
    }
  }
  return deal_layers(job.model.layers, seconds, first, last);
}

}  // namespace orrery::workloads
