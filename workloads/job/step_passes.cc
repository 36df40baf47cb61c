// Orders of a job's passes from the times of its kernels. See step_passes.h. Left out of these times, not of the
// simulation: launch costs, overlap inside a pass, sharing of links.
#include "workloads/job/step_passes.h"

#include <algorithm>
#include <map>
#include <vector>

#include "workloads/collectives/collective.h"
#include "workloads/model/kept.h"

namespace orrery::workloads {

namespace {

void add_seconds(double& sum, const Pieces& pieces, const calibration::DeviceProfile& device,
                 std::int64_t tensor_in_node) {
  for (const Piece& piece : pieces) {
    for (const Kernel& kernel : piece.kernels) sum += sim::to_seconds(kernel.time);
    if (piece.is_comm() && piece.group == CommGroup::tensor && tensor_in_node > 1) {
      const sim::Bytes bytes(static_cast<std::int64_t>(piece.bytes));
      sum += sim::to_seconds(device.node_collective(piece.op, tensor_in_node, bytes).total());
    }
  }
}

double message_seconds(double bytes, const Site& site, const calibration::DeviceProfile& device,
                       const calibration::Software& software) {
  const bool one_node = site.gpus <= site.gpus_per_node;
  const double rate =
      one_node ? site.node.rate.value() * site.node.efficiency : site.fabric.nic_rate.value() * site.fabric.efficiency;
  return sim::to_seconds(send_cost(bytes, one_node, device, software).latency) + bytes / rate;
}

}  // namespace

PipelineTimes pass_times(const LayerSplit& split, const ChunkMap& map, const KernelTimes& kernels,
                         std::int64_t tensor_in_node, double message_seconds) {
  std::vector<LayerPasses> kinds;
  for (const Layer& layer : split.network.kinds) kinds.push_back(passes_of(layer, kernels, true));
  std::map<std::vector<std::uint8_t>, PipelineTimes::Passes> known;
  PipelineTimes times;
  times.message = message_seconds;
  const PassBytes block = bytes_of(split.block());
  times.kept_between = std::min(1.0, block.between / block.kept);
  const auto add = [&](double& sum, const Pieces& pieces) { add_seconds(sum, pieces, kernels.device, tensor_in_node); };
  for (std::int64_t stage = 0; stage < map.stages(); ++stage) {
    for (std::int64_t chunk = 0; chunk < map.chunks(); ++chunk) {
      const LayerRange& range = split.of(chunk, stage, map.stages());
      const auto first = split.network.layers.begin() + range.begin;
      const std::vector<std::uint8_t> layers(first, first + range.size());
      const auto [it, fresh] = known.try_emplace(layers);
      if (fresh) {
        it->second = {0, 0, 0};
        for (auto layer = layers.begin(); layer != layers.end(); ++layer)
          add(it->second.forward, kinds[*layer].forward);
        for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) {
          add(it->second.input_gradient, kinds[*layer].input_gradient);
          add(it->second.weight_gradient, kinds[*layer].weight_gradient);
        }
      }
      times.cells.push_back(it->second);
    }
  }
  return times;
}

namespace {

/// A backward pass and the forward pass behind it, which belongs to another micro-batch, run as one where their
/// exchanges are to hide behind each other's computation; so one forward pass more is ahead of the first backward pass
/// (Megatron-Core, pipeline_parallel/schedules.py, num_warmup_microbatches with overlap_moe_expert_parallel_comm).
void pair_up(std::vector<Pass>& passes) {
  for (std::size_t i = 0; i + 1 < passes.size(); ++i) {
    const bool both = ends_microbatch(passes[i].kind) && passes[i + 1].kind == PassKind::forward;
    const bool taken = i > 0 && passes[i - 1].with_next;
    passes[i].with_next = passes[i].with_next || (both && !taken);
  }
}

}  // namespace

StageOrders step_passes(const Job& job, const LayerSplit& split) {
  const bool pairs = job.overlap.experts && job.model.experts.any() && pairs_passes(job.parallelism) &&
                     job.parallelism.schedule->copies() == 1;
  const auto paired = [&](StageOrders orders) {
    for (std::vector<Pass>& passes : orders) {
      if (pairs) pair_up(passes);
    }
    return orders;
  };
  const Schedule& schedule = *job.parallelism.schedule;
  if (!schedule.runtimes.place_by_times) return paired(paper_orders(schedule, job.pipeline_shape()));
  const std::int64_t tensor = job.parallelism.tensor;
  const double message =
      message_seconds(message_style_of(job).whole_bytes, site_of(job), job.machine.device, job.software);
  const auto times_on = [&](const calibration::DeviceProfile& device) {
    return pass_times(split, job.parallelism.chunk_map(), {device, job.software.layers.linear.rates},
                      tensor <= job.machine.gpus_per_node ? tensor : 1, message);
  };
  PipelineTimes times = times_on(job.machine.device);
  for (std::size_t kind = 1; kind < job.machine.mixture.kinds(); ++kind) {
    const PipelineTimes other = times_on(job.machine.device_of_kind(kind));
    const std::size_t chunks = times.cells.size() / static_cast<std::size_t>(job.parallelism.pipeline);
    for (std::size_t cell = 0; cell < times.cells.size(); ++cell) {
      if (job.machine.mixture.kind_of_stage[cell / chunks] == kind) times.cells[cell] = other.cells[cell];
    }
  }
  return paired(best_orders(schedule, job.pipeline_shape(), times));
}

}  // namespace orrery::workloads
