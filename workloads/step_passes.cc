// Orders of a job's passes from the times of its kernels. See step_passes.h. Left out of these times, not of the
// simulation: launch costs, overlap inside a pass, sharing of links.
#include "workloads/step_passes.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "workloads/activations.h"
#include "workloads/models/gpt.h"

namespace orrery::workloads {

namespace {

double seconds(const Pieces& pieces, const Job& job) {
  double sum = 0;
  for (const Piece& piece : pieces) {
    for (const Kernel& kernel : piece.kernels) sum += sim::to_seconds(kernel.time);
    const bool inside = piece.is_comm() && !piece.context && job.parallelism.tensor <= job.gpus_per_node;
    if (inside) {
      const sim::Bytes bytes(static_cast<std::int64_t>(piece.bytes));
      sum += sim::to_seconds(job.device.node_collective(piece.op, job.parallelism.tensor, bytes).total());
    }
  }
  return sum;
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
  std::map<std::tuple<std::int64_t, bool, bool>, PipelineTimes::Passes> known;
  PipelineTimes times;
  times.message = message_seconds(job);
  const LayerBytes layer = layer_bytes(job);
  times.kept_between = std::min(1.0, layer.between / layer.kept(job.recompute));
  for (std::int64_t stage = 0; stage < stages; ++stage) {
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
      const ChunkShape& shape = split.of(chunk, stage, stages);
      const auto [it, fresh] = known.try_emplace({shape.layers, shape.embedding, shape.head});
      if (fresh) {
        const ChunkPasses passes = gpt_chunk(job, shape);
        it->second = {seconds(passes.forward, job), seconds(passes.input_gradient, job),
                      seconds(passes.weight_gradient, job)};
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
