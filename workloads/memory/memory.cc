// Memory of a rank.
//
// Model states: mixed-precision Adam keeps 16 bytes per parameter: 2 weight, 2 gradient, 4 master weight, 8 moments
// (Rajbhandari et al., arXiv 1910.02054); sharding divides optimizer, gradients (where they are reduced in every
// backward pass; else they are added up whole) and parameters in that order by the number of data-parallel ranks;
// FSDP's fp32 shards and fp32 gradients come to the same 16. Listed under buffers, so that the states stay comparable:
// accumulators (what fp32 gradients take beyond the 2 bytes, or beside them where the software keeps both); fp8 copies
// of weights; gathered parameters and whole gradients of the units at work (ZeRO-3 and FSDP, arXiv 2304.11277: the root
// unit of embedding and head, a layer, and the one fetched ahead; or single weights); messages (receive buffers of the
// pipeline, the gather buffer of sequence parallelism, key/value blocks of context parallelism); temporaries of the
// optimizer step; what the caching allocator holds beyond what is allocated; and the CUDA context with the buffers of
// the communicators. The fullest moment is a pass, or the optimizer step, when no activations are left. Left out:
// cuBLAS workspaces by shape, tensors alive for one kernel, the data loader. What is reserved, where software has it
// walked, is counted in allocator_walk.h: what has to fit stays with the formulas, since an allocation that fails gives
// back what is cached.
#include "workloads/memory/memory.h"

#include <algorithm>
#include <functional>

#include "sim/real.h"
#include "workloads/compile/pipeline_messages.h"
#include "workloads/job/step_passes.h"
#include "workloads/memory/waiting_blocks.h"
#include "workloads/model/adapters.h"
#include "workloads/model/carried.h"
#include "workloads/schedules/chunk_map.h"

namespace orrery::workloads {

namespace {

using sim::real;

/// What the states of a rank follow from.
struct StateStyle {
  DataParallelism data;
  Precision precision;
  OptimizerKind optimizer = OptimizerKind::adam;
  bool keeps_training_gradients = false;
  bool gathers_into_gradients = false;
  bool casts_every_pass = false;
  calibration::GradientBuffers gradient_buffers = {};
  calibration::KeptUnits units_kept = {};
  calibration::OptimizerStyle step = {};
  StateBytes moments = {};
  HostCopies host = {};

  bool follows_weights() const { return step.follows_weights(); }
  bool reaches(Sharding level) const { return data.sharding >= level; }
  /// Ranks that share what is sharded, once `level` is reached.
  double shared_by(Sharding level) const { return reaches(level) ? real(data.owners) : 1.0; }
  /// Ranks that share a gradient between micro-batches.
  double gradients_shared_by() const {
    if (gradients_pass()) return real(data.owners);
    if (data.fetches.reduces_last_pass()) return 1;
    return data.shares_gradients() ? real(data.among.ranks.gradients) : 1.0;
  }
  /// Added up whole, but only while the backward passes over their chunk are under way (FSDP).
  bool gradients_pass() const {
    return gradient_buffers == calibration::GradientBuffers::on_demand && data.sharding == Sharding::gradients &&
           !data.shares_gradients();
  }
  /// Bytes of a gradient, where it lies in 16 bits and in the type that it is added up in.
  double gradient_bytes() const {
    const double accumulator = calibration::bytes_of(precision.accumulation);
    return 2 + (keeps_training_gradients && accumulator > 2 ? accumulator : accumulator - 2);
  }
  double weights_shared_by() const { return reaches(Sharding::parameters) ? real(data.among.ranks.weights) : 1.0; }
  /// What stays with the device of the optimizer's states; and of gradients, which may leave with each backward pass.
  double device_share() const { return 1 - host.states.optimizer; }
  double gradients_stay() const {
    const bool leave =
        host.any() && host.in_backward && (data.replicas == 1 || (data.by_unit && !data.fetches.reduces_last_pass()));
    return leave ? device_share() : 1;
  }
  /// Parameters come and gradients go unit by unit, a block each and embedding and head together.
  bool has_units() const { return reaches(Sharding::parameters) && !data.by_weight.on; }
};

/// Parameters of a stage on one rank, in elements.
struct StageParameters {
  double all = 0, blocks = 0, largest_block = 0, ends = 0;  // ends: embedding and head
  double largest_weight = 0;                                // of a block
  double matrices = 0, sides = 0;  // in linear layers of blocks; rows and columns of all these matrices
};

StageMemory model_states(const StateStyle& style, const StageParameters& held) {
  const double parameters = held.all, element = calibration::bytes_of(style.precision.activations);
  StageMemory m;
  m.parameters = parameters * element / style.weights_shared_by();
  if (style.data.among.ranks.secondary > 0)
    m.parameters += parameters * element / real(style.data.among.ranks.secondary);
  m.gradients = parameters * 2 / style.gradients_shared_by() * style.gradients_stay();
  if (style.host.states.parameters) m.parameters = 0;
  // Weights that are trained in fp32, or updated as they are, are their own master copy.
  const bool own = style.precision.activations == DataType::fp32 || style.follows_weights();
  const double master = own ? 0 : 4;
  const double updated = parameters / style.shared_by(Sharding::optimizer);
  const StateBytes& moments = style.moments;
  const double apart = held.matrices * (moments.of_matrices - moments.of_others) + held.sides * moments.of_sides;
  m.optimizer =
      (parameters * (master + moments.of_others) + apart) / style.shared_by(Sharding::optimizer) * style.device_share();
  m.host = updated * style.host.states.optimizer * style.host.bytes.held;
  // FSDP's shards are fp32 from the start, gradients and all; where these are added up whole, they are in the type of
  // the reduction.
  const bool shards = style.reaches(Sharding::parameters) && !style.data.fetches.reduces_last_pass();
  const double beyond = shards ? 0 : style.gradient_bytes() - 2;
  m.parts.accumulators = parameters * beyond / style.gradients_shared_by() * style.gradients_stay();
  return m;
}

/// Weights in the type of the products and their transposes (or scales by columns), which stay from one micro-batch to
/// the next beside the 16-bit ones; parameters that are gathered in fp8 and transposed take the 2 bytes that are
/// counted as parameters. Where scales are looked for in every pass (pytorch/ao, torchao/float8), none stays.
double weight_copy_bytes(const StateStyle& style, double parameters) {
  const DataType type = style.precision.matmul;
  if (!calibration::is_quantised(type) || style.precision.parameters == DataType::fp8) return 0;
  if (style.casts_every_pass) return 0;
  return style.reaches(Sharding::parameters) ? 0 : 2 * calibration::operand_bytes(type) * parameters;
}

/// The 16-bit weights of blocks that the quantised ones stand for: what is gathered lies in the gradients' buffer and
/// is cast there (Megatron-Core, reuse_grad_buf_for_mxfp8_param_ag).
double spared_weight_bytes(const StateStyle& style, double parameters) {
  const bool spares = style.gathers_into_gradients && style.precision.matmul == DataType::mxfp8;
  if (!spares || !style.reaches(Sharding::optimizer) || style.reaches(Sharding::parameters)) return 0;
  return calibration::bytes_of(style.precision.activations) * parameters;
}

/// Embedding tables, whose sparse optimizer needs no gradients of its own: rows that were met are updated at once.
StageMemory table_states(const Recommender& model, double parameters) {
  StageMemory m;
  m.parameters = 4 * parameters;
  m.optimizer = (bytes_of_table_weight(model) - 4) * parameters;
  return m;
}

StageMemory sum_of(StageMemory a, const StageMemory& b) {
  a.parameters += b.parameters;
  a.gradients += b.gradients;
  a.optimizer += b.optimizer;
  a.host += b.host;
  a.parts.accumulators += b.parts.accumulators;
  return a;
}

StageParameters parameters_of_stage(const StageLayout& stage, HeldPart which) {
  StageParameters sum;
  for (std::int64_t chunk = 0; chunk < stage.chunks(); ++chunk) {
    const LayerRange& range = stage.range(chunk);
    for (std::int64_t i = range.begin; i < range.end; ++i) {
      const double held = stage.split.parameters_of(i, which);
      const bool block = stage.split.is_block(i);
      (block ? sum.blocks : sum.ends) += held;
      if (block) sum.largest_block = std::max(sum.largest_block, held);
      for (const Weights& w : stage.split.network.layer(i).weights) {
        if (!block || !w.is_matrix()) continue;
        sum.largest_weight = std::max(sum.largest_weight, w.elements);
        const bool here = which == HeldPart::all || w.expert == (which == HeldPart::experts);
        if (!here || w.frozen) continue;
        sum.matrices += w.elements;
        sum.sides += w.copies * (w.rows() + w.columns);
      }
      sum.all += held;
    }
  }
  return sum;
}

bool has_head(const StageLayout& stage) {
  for (std::int64_t chunk = 0; chunk < stage.chunks(); ++chunk) {
    if (count(stage.split.network, stage.range(chunk), LayerKind::head) > 0) return true;
  }
  return false;
}

/// Whole gradients of a unit on their way: as they are made, and cast where they are reduced in another type.
double reducing_bytes(const StateStyle& style, double parameters) {
  const double element = calibration::bytes_of(style.precision.activations), reduced = style.data.bytes.gradient;
  const double gradient = reduced > element ? element + reduced : element;
  return (style.data.overlaps_gradients ? 2 : 1) * gradient * parameters;
}

/// Whole parameters and gradients that stand beside the shards all step long.
double gathered_bytes(const StateStyle& style, const StageParameters& held, bool has_head) {
  if (!style.data.shares_gradients()) return 0;
  const DataParallelism& data = style.data;
  if (!style.reaches(Sharding::parameters)) {
    const double bucket = static_cast<double>(data.buckets.gradient_bucket.value());
    if (bucket == 0) return reducing_bytes(style, held.largest_block);
    return std::min((data.overlaps_gradients ? 2 : 1) * bucket, held.all * data.bytes.gradient);  // no more are filled
  }
  const double parameter = data.bytes.parameter;
  if (data.by_weight.on) {
    // The weight at work and the one on its way, each once more as a call's list, and a gradient likewise.
    const double lists = data.fetches.collectives_by_list ? 2 : 1;
    const double ahead = data.overlaps_parameters ? 1 : 0;
    const double weights = std::max((1 + ahead) * held.largest_weight, held.ends) + (lists - 1) * held.largest_weight;
    const double element = calibration::bytes_of(style.precision.activations);
    const double gradient = data.bytes.gradient > element ? element + data.bytes.gradient : element;
    return parameter * weights + lists * gradient * std::max(held.largest_weight, held.ends);
  }
  // The last block's unit goes with its backward pass; it is counted beside all of them.
  using calibration::KeptUnits;
  const double last = style.units_kept == KeptUnits::ends_and_last && has_head ? held.largest_block : 0;
  return parameter * (last + (style.units_kept == KeptUnits::none && has_head ? 0 : held.ends * data.bytes.ends));
}

/// Free between tensors while the loss is at its fullest, which only the allocator holds.
double loss_gap(const StageLayout& stage, const Pass& fullest) {
  if (fullest.kind == PassKind::forward) return 0;
  double bytes = 0;
  const LayerRange& range = stage.range(fullest.chunk);
  for (std::int64_t i = range.begin; i < range.end; ++i) bytes += stage.split.network.layer(i).gap;
  return bytes;
}

/// What units are gathered in before they are copied into their weights, where that is another stream's pool: reserved
/// from one gather to the next. The root's is in it while the first block's is on its way.
double gather_pool_bytes(const StateStyle& style, const StageParameters& held) {
  if (style.data.sharding < Sharding::gradients || style.data.replicas == 1) return 0;
  return style.data.bytes.parameter * (held.ends + held.largest_block);
}

/// And beside its passes.
UnitBytes unit_bytes(const StateStyle& style, const StageLayout& stage) {
  UnitBytes units;
  if (!style.has_units()) return units;
  const StageParameters held = parameters_of_stage(stage, style.data.held);
  const double parameter = style.data.bytes.parameter;
  units.blocks = (style.data.overlaps_parameters ? 2 : 1) * parameter * held.largest_block;
  if (!style.data.is_frozen()) {
    const double gradients = reducing_bytes(style, held.largest_block);
    units.reducing = style.data.overlaps_gradients ? gradients / 2 : 0;
    units.made = gradients - units.reducing;
    units.blocks += gradients;
  }
  if (style.units_kept == calibration::KeptUnits::none && has_head(stage))
    units.ends = parameter * held.ends * style.data.bytes.ends;
  units.ends_whole = true;
  return units;
}

/// What a context group's exchanges take beside passes over blocks, but not beside a loss. Keys and values: of the
/// block at work and of the one on its way round the ring, or of the whole sequence; or what is exchanged for heads,
/// put in the order of ranks.
double exchanged_bytes(const Parallelism& p, const Precision& precision, const calibration::AttentionStyle& style,
                       const Network& network) {
  if (p.context == 1) return 0;
  const double element = calibration::bytes_of(precision.activations);
  if (p.context_method == ContextMethod::all_to_all) return element * (network.query_elements + network.kv_elements);
  const double blocks = p.context_method == ContextMethod::ring ? 2 : real(p.context);
  // In blocks: gradients in fp32 as they come in, with this rank's part, and on their way out.
  const double in_fp32 =
      style.gathered_in_blocks && p.context_method == ContextMethod::all_gather ? 3 * 4 * network.kv_elements : 0;
  return blocks * element * network.kv_elements + in_fp32;
}

/// `element`: bytes of an activation.
double message_bytes(const Parallelism& p, double element, bool overlaps, const calibration::LayerStyle& layers,
                     const Network& network, std::int64_t stage) {
  double bytes = 0;
  if (p.pipeline > 1) {
    const bool wraps = p.virtual_pipeline > 1;
    const int neighbours = (wraps || stage > 0) + (wraps || stage + 1 < p.pipeline);
    bytes += neighbours * (overlaps ? 2 : 1) * element * network.residual_elements;
  }
  // One gathered input shared by all layers (megatron/core/parallel_state.py, global memory buffer) unless each keeps
  // its own, one gradient.
  const double gathered = layers.linear.keeps_gathered_inputs ? 1 : 2;
  if (p.sequence_parallel && p.tensor > 1) bytes += gathered * element * network.hidden_elements;
  return bytes;
}

/// What the optimizer step needs when all passes are over.
double step_bytes(const StateStyle& style, const StageParameters& held) {
  const double parameters = held.all;
  const double updated = style.device_share() * parameters / style.shared_by(Sharding::optimizer);
  double bytes = 0;
  if (!style.follows_weights() && style.precision.accumulation != DataType::fp32)
    bytes += 4 * updated;  // gradients in fp32 for the update
  bytes += optimizer_temporaries(style.optimizer, style.precision, style.step, updated);
  if (style.optimizer == OptimizerKind::lamb) bytes += 4 * updated;  // the update, before its norm is known
  // A weight at a time: what is made orthogonal, its product with itself and its successor in bf16 beside the
  // momentum's update; the gradient in fp32, its square and the update.
  if (style.optimizer == OptimizerKind::muon) bytes += (4 + 3 * 2) * held.largest_weight;
  if (style.optimizer == OptimizerKind::adafactor) bytes += 3 * 4 * std::max(held.largest_weight, held.ends);
  // A gather of all parameters by lists: this rank's part, a flat copy for each rank, and the library's of them all.
  if (style.data.fetches.collectives_by_list && style.data.sharding == Sharding::optimizer && style.data.owners > 1)
    bytes += style.data.bytes.parameter * (2 * parameters + updated);
  return bytes;
}

/// Outside of the allocator: the CUDA context and one set of buffers for each communicator that the rank is in.
double context_bytes(const Parallelism& p, const DataParallelism& data, bool ties_ends,
                     const calibration::MemoryHabits& habits, std::int64_t stage) {
  const bool end = stage == 0 || stage + 1 == p.pipeline;
  const int communicators = (p.tensor > 1) + (data.owners > 1) + (data.owners < data.replicas) + (p.context > 1) +
                            (p.pipeline > 1) + (p.tensor > 1 && p.pipeline > 1) +  // the model's, for the norm
                            (end && ties_ends);                                    // embedding and head
  return static_cast<double>(habits.context_memory.value()) +
         communicators * static_cast<double>(habits.communicator_memory.value());
}

/// Adds up a stage at its fullest moment: a pass, or the step. `dropped`: gradients that a pass leaves behind and that
/// are gone by the step. `exchanged`: what a context group's exchanges take beside blocks, part of what units do.
void settle(StageMemory& m, const HighWater& top, double step, double dropped, double exchanged) {
  const bool forward = top.pass.kind == PassKind::forward;
  const double units = top.units > 0 ? top.units - exchanged : 0;
  if (forward) m.parts.messages += exchanged;
  const double in_pass = top.bytes() + m.parts.gathered + m.parts.messages;
  if (step > in_pass + dropped) {
    m.peak.during = StageMemory::During::optimizer;
    m.parts.gathered = m.parts.messages = 0;
    m.parts.accumulators -= dropped;
    m.parts.step = step;
  } else {
    m.activations = top.held + top.working - top.units;
    m.passing_gradients = top.gradients;
    m.parts.gathered += top.gradients + units;
    m.parts.messages += top.units - units;
    m.peak = {forward ? StageMemory::During::forward : StageMemory::During::backward, top.pass.chunk,
              top.pass.microbatch};
  }
}

}  // namespace

StageOrders first_rounds(const Schedule& schedule, PipelineShape shape) {
  if (!schedule.holds_all) shape.microbatches = std::min(shape.microbatches, 4 * shape.stages);
  return paper_orders(schedule, shape);
}

namespace {
/// What waits in the host's memory when the backward pass begins: of `layers` blocks all but the last one sent, which
/// is still on its way (TransformerEngine, pytorch/cpu_offload.py, AsyncDoubleBufferGroupOffloadHandler: the first
/// layers are sent, spread over the forward pass). Those that come back take what later layers have freed.
double offloaded_bytes(const Network& network, std::int64_t layers) {
  double bytes = 0;
  std::int64_t left = layers - 1;
  for (std::int64_t i = 0; i < network.size() && left > 0; ++i) {
    if (network.layer(i).kind != LayerKind::block) continue;
    bytes += bytes_of(network.layer(i)).kept;
    --left;
  }
  return bytes;
}
}  // namespace

std::vector<PassBytes> chunk_bytes(const StageLayout& stage, double output_bytes, const UnitBytes& units) {
  std::vector<PassBytes> bytes;
  const Network& network = stage.split.network;
  for (std::int64_t chunk = 0; chunk < stage.chunks(); ++chunk) {
    const LayerRange& range = stage.range(chunk);
    bytes.push_back(bytes_of(network, range, units));
    const bool last = range.end == network.size();
    if (!last) bytes.back().kept += output_bytes * network.residual_elements;
  }
  return bytes;
}

std::vector<std::vector<PassBytes>> chunk_bytes(const LayerSplit& split, const ChunkMap& map,
                                                const calibration::MemoryHabits& habits, const Precision& precision) {
  const double output_bytes = habits.keeps_pipeline_outputs ? calibration::bytes_of(precision.activations) : 0;
  std::vector<std::vector<PassBytes>> stages;
  for (std::int64_t stage = 0; stage < map.stages(); ++stage)
    stages.push_back(chunk_bytes({split, map, stage}, output_bytes, {}));
  return stages;
}

InFlight in_flight(const StageLayout& stage, const std::vector<Pass>& passes, const std::vector<PassBytes>& chunks) {
  const HighWater top = high_water(passes, chunks);
  InFlight most;
  for (std::int64_t chunk = 0; chunk < stage.chunks(); ++chunk) {
    const LayerRange& range = stage.range(chunk);
    const Network& network = stage.split.network;
    const double held = top.in_flight[static_cast<std::size_t>(chunk)];
    most.layers += held * real(count(network, range, LayerKind::block));
    most.embeddings += held * real(count(network, range, LayerKind::embedding));
    most.heads += held * real(count(network, range, LayerKind::head));
  }
  return most;
}

namespace {

/// Of all weights but experts', and of experts.
struct StateStyles {
  StateStyle dense, experts;
  std::vector<StateStyle> frozen;  // beside adapters, where their weights are shared out
};
StateStyles state_styles(const DataParallelism& data, const DataApart& apart, const Method& method,
                         const calibration::Software& software, const Machine& machine) {
  const calibration::MemoryHabits& habits = software.memory;
  const StateStyle style{data,
                         method.precision,
                         method.optimizer,
                         software.gradients.of_training != calibration::TrainingGradients::dropped,
                         habits.gathers_into_gradients,
                         software.layers.looks_for_scales(),
                         software.optimizer.gradient_buffers,
                         habits.units_kept,
                         software.optimizer,
                         state_bytes(method.optimizer, method.precision, software.optimizer),
                         host_copies_of(method, software.optimizer, machine)};
  StateStyle experts = style;
  experts.data = apart.experts.value_or(data);
  std::vector<StateStyle> frozen;
  for (const std::optional<DataParallelism>* shared : {&apart.frozen, &apart.frozen_experts}) {
    if (!*shared) continue;
    frozen.push_back(style);
    frozen.back().data = **shared;
  }
  return {style, experts, frozen};
}

/// Weights that are not trained, as they are held: a quantised one is not kept in 16 bit too. What no style of
/// `frozen` shares out is whole. Where weights lie with the host, the shares of those do too (FSDP2's CPUOffloadPolicy
/// moves every parameter of its modules, DeepSpeed's offload_param every partition, whether it is trained or not).
struct FrozenMemory {
  double device = 0, host = 0;
};
FrozenMemory frozen_parameter_bytes(const Method& method, const StageLayout& stage,
                                    const std::vector<StateStyle>& frozen) {
  const FrozenBytes bytes = frozen_bytes(method.adapters, method.precision);
  const auto of = [&](HeldPart which) {
    const StageParameters held = parameters_of_stage(stage, which);
    return held.blocks * bytes.blocks + held.ends * bytes.ends;
  };
  FrozenMemory held{of(HeldPart::frozen), 0};
  for (const StateStyle& shared : frozen) {
    const double whole = of(shared.data.held), second = real(shared.data.among.ranks.secondary);
    const double share = whole / shared.weights_shared_by() + (second > 0 ? whole / second : 0);
    const bool leaves = shared.host.states.parameters;
    held.device += (leaves ? 0 : share) - whole;
    held.host += leaves ? whole / shared.weights_shared_by() : 0;
  }
  return held;
}

/// Beyond this rank's share, which stays.
double passing_gradients(const StateStyle& style, const LayerSplit& split, const LayerRange& range, HeldPart part) {
  if (!style.gradients_pass()) return 0;
  double parameters = 0;
  for (std::int64_t i = range.begin; i < range.end; ++i) parameters += split.parameters_of(i, part);
  return parameters * style.gradient_bytes() * (1 - 1 / style.gradients_shared_by());
}

}  // namespace

namespace {
/// Bytes of what a chunk receives of one micro-batch, where it has buffers for all of them.
double received(const calibration::MemoryHabits& habits, const Precision& precision, const Network& network) {
  const bool all = habits.received == calibration::ReceivedBuffers::every_micro_batch;
  return all ? network.residual_elements * calibration::bytes_of(precision.activations) : 0;
}

/// What chunks received last, with its gradient, where nothing lets go of it until they receive again. While passes are
/// under way that is part of what these keep.
double inputs_left(const StageLayout& stage, const calibration::MemoryHabits& habits, const Precision& precision) {
  if (habits.received != calibration::ReceivedBuffers::last_held) return 0;
  double bytes = 0;
  for (std::int64_t chunk = 0; chunk < stage.chunks(); ++chunk) {
    if (stage.range(chunk).begin > 0)
      bytes += 2 * stage.split.network.residual_elements * calibration::bytes_of(precision.activations);
  }
  return bytes;
}

/// Activations and gradients that a stage receives of one micro-batch.
double messages_received(const StageLayout& stage) {
  double count = 0;
  for (std::int64_t chunk = 0; chunk < stage.chunks(); ++chunk) {
    const LayerRange& range = stage.range(chunk);
    count += (range.begin > 0) + (range.end < stage.split.network.size());
  }
  return count;
}
}  // namespace

std::vector<std::vector<PassBytes>> chunk_bytes(const Job& job, const LayerSplit& split) {
  const ChunkMap map = job.parallelism.chunk_map();
  const DataParallelism data = data_parallelism_of(job);
  const DataApart others = data_apart_of(data, job);
  const StateStyles styles = state_styles(data, others, job.method, job.software, job.machine);
  const calibration::MemoryHabits& habits = job.software.memory;
  const bool apart = styles.dense.data.held != HeldPart::trained && !job.model.recommender.any();
  const double output = habits.keeps_pipeline_outputs ? calibration::bytes_of(job.method.precision.activations) : 0;
  const double exchanged =
      exchanged_bytes(job.parallelism, job.method.precision, job.software.attention_style, split.network);
  const double carried = real(job.batch.micro * job.rank_seq()) / real(job.parallelism.tensor) *
                         calibration::bytes_of(job.method.precision.activations);  // for an element of a token
  std::vector<std::vector<PassBytes>> stages;
  for (std::int64_t stage = 0; stage < map.stages(); ++stage) {
    const StageLayout here{split, map, stage};
    UnitBytes units = unit_bytes(styles.dense, here);
    if (apart && styles.experts.data.held == HeldPart::experts) {
      const UnitBytes experts = unit_bytes(styles.experts, here);
      units.blocks += experts.blocks;
      units.made += experts.made;
      units.reducing += experts.reducing;
    }
    for (const StateStyle& still : styles.frozen) {
      const UnitBytes frozen = unit_bytes(still, here);
      units.blocks += frozen.blocks;
      units.ends += frozen.ends;
    }
    units.blocks += exchanged;
    stages.push_back(chunk_bytes(here, output, units));
  }
  // Blocks of a model on one stage that lie with the host.
  if (job.method.offloaded_layers > 0)
    stages.front().front().kept -= offloaded_bytes(split.network, job.method.offloaded_layers);
  for (std::int64_t stage = 0; stage < map.stages(); ++stage) {
    const StageLayout here{split, map, stage};
    for (std::int64_t chunk = 0; chunk < here.chunks(); ++chunk) {
      PassBytes& of_chunk = stages[static_cast<std::size_t>(stage)][static_cast<std::size_t>(chunk)];
      // What the first layer keeps of its input lies in the buffer that it came in.
      const LayerRange& range = here.range(chunk);
      if (range.begin > 0) of_chunk.kept -= received(habits, job.method.precision, split.network);
      // A rank's part of what it received beside that for the chunk's blocks and those behind.
      if (range.begin > 0 && carries(job.model)) of_chunk.kept += carried * carried_into(job.model, range.begin - 1);
      double& bytes = of_chunk.gradients;
      bytes = passing_gradients(styles.dense, split, range, styles.dense.data.held);
      if (apart) bytes += passing_gradients(styles.experts, split, range, HeldPart::experts);
    }
  }
  return stages;
}

HostLead host_lead(const calibration::HostLaunches& launches, const calibration::MessagePolicy& messages, bool waits,
                   std::int64_t stages) {
  HostLead lead{launches, stages > 1 && waits && !launches.past_messages};
  // Hosts that sleep until a shape has been exchanged are behind.
  if (stages > 1 && messages.activation_shapes_host.value() > 0) lead.launches.ahead = 0;
  return lead;
}

std::vector<StageMemory> stage_memory(const Job& job, const LayerSplit& split) {
  const Parallelism& layout = job.parallelism;
  const DataParallelism data = data_parallelism_of(job);
  const DataApart others = data_apart_of(data, job);
  const auto [style, of_experts, frozen] = state_styles(data, others, job.method, job.software, job.machine);
  const double element = calibration::bytes_of(job.method.precision.activations);
  const bool ties_ends = job.ties_embeddings();
  // Orders that are searched for the job's own times are walked as they are run, all of them.
  const Schedule& schedule = *layout.schedule;
  const StageOrders orders =
      schedule.splits_backward() ? step_passes(job, split) : first_rounds(schedule, job.pipeline_shape());
  const std::vector<std::vector<PassBytes>> chunks = chunk_bytes(job, split);
  // 16-bit gradients that are added to the accumulated ones and dropped behind every backward pass.
  const bool adds_up = calibration::bytes_of(style.precision.accumulation) > 2 && !style.reaches(Sharding::parameters);
  const bool drops = adds_up && job.software.gradients.of_training == calibration::TrainingGradients::held;
  const HostLead lead =
      host_lead(job.software.memory.launches, job.software.messages, message_style_of(job).host_waits, layout.pipeline);
  const double exchanged = exchanged_bytes(layout, job.method.precision, job.software.attention_style, split.network);
  std::vector<StageMemory> stages;
  for (std::int64_t stage = 0; stage < layout.pipeline; ++stage) {
    const StageLayout here{split, layout.chunk_map(), stage};
    const bool adapts = style.data.held == HeldPart::trained;
    const StageParameters held = parameters_of_stage(here, style.data.held);
    const bool tables = job.model.recommender.any();
    const StageParameters apart = adapts ? StageParameters{} : parameters_of_stage(here, HeldPart::experts);
    const StageParameters experts = tables ? StageParameters{} : apart;
    StageMemory m = sum_of(model_states(style, held), model_states(of_experts, experts));
    if (tables) m = sum_of(m, table_states(job.model.recommender, apart.all));
    const FrozenMemory still_held = adapts ? frozen_parameter_bytes(job.method, here, frozen) : FrozenMemory{};
    m.parameters += still_held.device;
    m.host += still_held.host;
    if (!adapts) {  // adapters compute in 16 bit, and frozen weights are held in the type of the products
      m.parts.weight_copies = weight_copy_bytes(style, held.blocks) + weight_copy_bytes(of_experts, experts.blocks);
      m.parameters -= spared_weight_bytes(style, held.blocks) + spared_weight_bytes(of_experts, experts.blocks);
    }
    const bool head = has_head(here);
    m.parts.gathered =
        gathered_bytes(style, held, head) + (experts.all > 0 ? gathered_bytes(of_experts, experts, head) : 0);
    for (const StateStyle& still : frozen)
      m.parts.gathered += gathered_bytes(still, parameters_of_stage(here, still.data.held), head);
    m.parts.messages = message_bytes(layout, element, job.overlap.pipeline, job.software.layers, split.network, stage) +
                       messages_received(here) * real(job.microbatches()) *
                           received(job.software.memory, job.method.precision, split.network);
    const auto at = static_cast<std::size_t>(stage);
    const HighWater top = high_water(orders[at], chunks[at]);
    const double step = step_bytes(style, held) + step_bytes(of_experts, experts) +
                        inputs_left(here, job.software.memory, job.method.precision);
    settle(m, top, step, drops ? m.gradients : 0, exchanged);
    m.allocated = m.parameters + m.gradients + m.optimizer + m.activations + m.parts.accumulators +
                  m.parts.weight_copies + m.parts.gathered + m.parts.messages + m.parts.step;
    m.parts.fragmentation = layout.pipeline > 1 ? job.software.memory.allocator_overhead * m.allocated : 0;
    m.parts.context = context_bytes(layout, style.data, ties_ends, job.software.memory, stage);
    m.buffers = m.parts.sum();
    m.total = m.allocated + m.parts.fragmentation + m.parts.context;
    const calibration::DeviceProfile& device = job.machine.device_of(stage);
    const double room = static_cast<double>(device.memory().value()) - m.total;
    const double waiting = waiting_bytes(here, orders[at], top.pass, {device}, lead);
    const bool own_pool = job.software.layers.linear.unit_gathers == calibration::UnitGathers::own_pool;
    const double pool = own_pool ? gather_pool_bytes(style, held) : 0;
    m.waiting = std::clamp(waiting + pool + loss_gap(here, top.pass), 0.0, std::max(room, 0.0));
    stages.push_back(m);
  }
  return stages;
}

namespace {
/// What a pinned buffer takes: PyTorch's pinned allocator rounds each up to a power of two (aten/src/ATen/core/
/// CachingHostAllocator.h), and of sizes that lie evenly between two powers the mean is 3/4 of what is taken. States,
/// gradients and weights of an offload are pinned by default, or as its examples say (DeepSpeed's pin_memory, FSDP2's
/// CPUOffloadPolicy, Megatron-Core's HybridDeviceOptimizer).
constexpr double kPinned = 4.0 / 3;

/// Ranks of a node, those of the fullest stages first, as many of a stage as it has.
double host_need(const std::vector<StageMemory>& stages, const Machine& machine) {
  std::vector<double> of_rank;
  for (const StageMemory& stage : stages) of_rank.push_back(stage.host);
  std::sort(of_rank.begin(), of_rank.end(), std::greater<>());
  const std::int64_t of_stage =
      std::max<std::int64_t>(1, machine.gpus / static_cast<std::int64_t>(std::max<std::size_t>(1, stages.size())));
  std::int64_t left = std::min(machine.gpus, machine.gpus_per_node);
  double need = 0;
  for (const double bytes : of_rank) {
    const std::int64_t ranks = std::min(left, of_stage);
    need += real(ranks) * bytes * kPinned;
    left -= ranks;
  }
  return need;
}
}  // namespace

MemoryNeed memory_need(const std::vector<StageMemory>& stages, const Machine& machine) {
  MemoryNeed need;
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    const auto capacity = static_cast<double>(machine.device_of(static_cast<std::int64_t>(stage)).memory().value());
    const double total = stages[stage].total;
    if (stage == 0 || total - capacity > need.peak - need.capacity) {
      need.peak = total;
      need.capacity = capacity;
      need.stage = stage;
    }
  }
  need.host = {host_need(stages, machine), static_cast<double>(machine.node.host.memory.value())};
  return need;
}

double peak_memory(std::span<const StageMemory> stages) {
  double peak = 0;
  for (const StageMemory& stage : stages) peak = std::max(peak, stage.total);
  return peak;
}

}  // namespace orrery::workloads
