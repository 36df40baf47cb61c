// Takes a job's values apart for allocator_walk.h. More micro-batches than a stage has in flight, and some tens more in
// which hosts get as far ahead as they do, only repeat what these hold.
#include "workloads/memory/stage_reserve.h"

#include <algorithm>

#include "sim/real.h"
#include "workloads/memory/allocator_walk.h"

namespace orrery::workloads {

namespace {

/// Whether passes, states and their reductions are those that are walked.
bool walks(const ReserveInputs& inputs) {
  const Parallelism& layout = inputs.layout;
  const DataParallelism& data = inputs.programs.data;
  const bool passes = !layout.schedule->splits_backward() && layout.virtual_pipeline == 1;
  const bool split = (layout.tensor == 1 || layout.sequence_parallel) && layout.context == 1;
  const bool states = data.sharding == Sharding::none || data.sharding == Sharding::optimizer;
  const bool all_trained = data.held != HeldPart::trained && !inputs.programs.data_apart;
  const bool on_device = !inputs.programs.update.host.any();
  const Precision& precision = inputs.programs.update.precision;
  const bool mixed = calibration::bytes_of(precision.activations) == 2 && precision.accumulation == DataType::fp32 &&
                     !calibration::is_quantised(precision.matmul);
  const bool adam = inputs.programs.update.optimizer == OptimizerKind::adam &&
                    inputs.software.optimizer.states == calibration::OptimizerStates::fp32;
  return passes && split && states && all_trained && on_device && mixed && adam;
}

LastingTensors lasting_of(const StageLayout& stage, const DataParallelism& data, bool keeps_buckets) {
  LastingTensors lasting;
  const LayerRange& range = stage.range(0);
  for (std::int64_t i = range.begin; i < range.end; ++i) {
    for (const Weights& weights : stage.split.network.layer(i).weights) lasting.weights.push_back(weights.elements);
  }
  const bool sharded = data.sharding == Sharding::optimizer;
  lasting.owners = sharded ? sim::real(data.owners) : 1;
  // Buckets are counted in the type in which gradients are added up.
  const auto bucket = static_cast<double>(data.buckets.gradient_bucket.value());
  if (!sharded && keeps_buckets && data.replicas > 1) lasting.bucket = 2 * bucket / data.bytes.gradient;
  if (sharded && data.fetches.collectives_by_list && data.owners > 1) lasting.listed = data.owners;
  return lasting;
}

}  // namespace

std::vector<double> walked_reserves(const ReserveInputs& inputs, const LayerSplit& split, const Grounds& grounds,
                                    std::span<const StageMemory> stages, std::optional<std::size_t> behind) {
  const calibration::Software& software = inputs.software;
  if (!software.memory.walks_allocator || !walks(inputs)) return {};
  const std::optional<TensorSizes> sizes = tensor_sizes(split.network);
  if (!sizes) return {};
  constexpr std::int32_t kMoreMicrobatches = 40;
  PipelineShape shape = inputs.shape;
  shape.microbatches = std::min(shape.microbatches, shape.stages + kMoreMicrobatches);
  const StageOrders orders = paper_orders(*inputs.layout.schedule, shape);
  const ChunkMap& map = inputs.programs.map;
  const CollectivePrices prices{inputs.machine.device_of(0), software, grounds.cluster, grounds.shapes};
  const std::vector<LayerPace> paces = layer_paces(split.network, prices, inputs.programs.passes);
  const std::vector<std::vector<double>> arrivals = message_times(split, map, orders, paces);
  // Hosts that sleep until a shape has been exchanged wait likewise.
  const HostLead lead =
      host_lead(software.memory.launches, software.messages, inputs.programs.messages.host_waits, map.stages());
  const bool waits = lead.ends_with_pass || lead.launches.ahead == 0;
  const bool keeps_buckets = software.gradients.of_training != calibration::TrainingGradients::dropped;
  const auto pace_of = [&](std::int64_t layer) { return paces[split.network.layers[static_cast<std::size_t>(layer)]]; };
  std::vector<double> reserved;
  for (std::size_t s = 0; s < orders.size(); ++s) {
    const StageLayout here{split, map, static_cast<std::int64_t>(s)};
    const LastingTensors lasting = lasting_of(here, inputs.programs.data, keeps_buckets);
    WalkedStage stage{*sizes, lasting, orders[s], arrivals[s]};
    stage.blocks = here.blocks();
    stage.first = s == 0;
    stage.last = s + 1 == orders.size();
    stage.block = pace_of(1);
    stage.head = pace_of(split.network.size() - 1);
    stage.launches = software.memory.launches;
    stage.waits = waits || behind == s;
    const auto memory = static_cast<double>(inputs.machine.device_of(here.stage).memory().value());
    stage.capacity = static_cast<std::int64_t>(memory - stages[s].parts.context);
    reserved.push_back(reserved_by_steps(stage));
  }
  return reserved;
}

}  // namespace orrery::workloads
