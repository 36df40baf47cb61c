// Orders of a job's passes from the times of its kernels. See step_passes.h. Left out of these times, not of the
// simulation: launch costs, overlap inside a pass, sharing of links.
#include "workloads/step_passes.h"

#include <algorithm>
#include <map>
#include <vector>

#include "workloads/model/kept.h"
#include "workloads/model/passes.h"

namespace orrery::workloads {

namespace {

void add_seconds(double& sum, const Pieces& pieces, const Job& job) {
  for (const Piece& piece : pieces) {
    for (const Kernel& kernel : piece.kernels) sum += sim::to_seconds(kernel.time);
    const bool inside =
        piece.is_comm() && piece.group == CommGroup::tensor && job.parallelism.tensor <= job.gpus_per_node;
    if (inside) {
      const sim::Bytes bytes(static_cast<std::int64_t>(piece.bytes));
      sum += sim::to_seconds(job.device.node_collective(piece.op, job.parallelism.tensor, bytes).total());
    }
  }
}

double message_seconds(const Job& job) {
  const double bytes = static_cast<double>(job.batch.micro * job.rank_seq() * job.model.hidden) *
                       calibration::bytes_of(job.precision.activations);
  const bool one_node = job.gpus <= job.gpus_per_node;
  const double rate =
      one_node ? job.node.rate.value() * job.node.efficiency : job.fabric.nic_rate.value() * job.fabric.efficiency;
  return sim::to_seconds(send_cost(bytes, one_node, job.device, job.software).latency) + bytes / rate;
}

}  // namespace

PipelineTimes pass_times(const Job& job, const LayerSplit& split) {
  const std::int64_t stages = job.parallelism.pipeline, chunks = job.parallelism.virtual_pipeline;
  const KernelTimes kernels{job.device, job.software.layers.misaligned_gemm_rate};
  std::vector<LayerPasses> kinds;
  for (const Layer& layer : split.network.kinds) kinds.push_back(passes_of(layer, kernels, true));
  std::map<std::vector<std::uint8_t>, PipelineTimes::Passes> known;
  PipelineTimes times;
  times.message = message_seconds(job);
  const PassBytes block = bytes_of(split.block());
  times.kept_between = std::min(1.0, block.between / block.kept);
  for (std::int64_t stage = 0; stage < stages; ++stage) {
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
      const LayerRange& range = split.of(chunk, stage, stages);
      const auto first = split.network.layers.begin() + range.begin;
      const std::vector<std::uint8_t> layers(first, first + range.size());
      const auto [it, fresh] = known.try_emplace(layers);
      if (fresh) {
        it->second = {0, 0, 0};
        for (auto layer = layers.begin(); layer != layers.end(); ++layer)
          add_seconds(it->second.forward, kinds[*layer].forward, job);
        for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) {
          add_seconds(it->second.input_gradient, kinds[*layer].input_gradient, job);
          add_seconds(it->second.weight_gradient, kinds[*layer].weight_gradient, job);
        }
      }
      times.cells.push_back(it->second);
    }
  }
  return times;
}

StageOrders step_passes(const Job& job, const LayerSplit& split) {
  const Schedule& schedule = *job.parallelism.schedule;
  if (!schedule.placed_by_times) return paper_orders(schedule, job.pipeline_shape());
  return best_orders(schedule, job.pipeline_shape(), pass_times(job, split));
}

}  // namespace orrery::workloads
