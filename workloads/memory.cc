// Memory of a rank.
//
// Model states: mixed-precision Adam keeps 16 bytes per parameter: 2 weight, 2 gradient, 4 master weight, 8 moments
// (Rajbhandari et al., arXiv 1910.02054); sharding divides optimizer, gradients and parameters in that order by the
// number of data-parallel ranks; FSDP's fp32 shards and fp32 gradients come to the same 16. Listed under buffers, so
// that the states stay comparable: accumulators (what fp32 gradients take beyond the 2 bytes, or beside them where the
// software keeps both); fp8 copies of weights; gathered parameters and whole gradients of the units at work (ZeRO-3 and
// FSDP, arXiv 2304.11277: the root unit of embedding and head, a layer, and the one fetched ahead); messages (receive
// buffers of the pipeline, the gather buffer of sequence parallelism, key/value blocks of context parallelism);
// temporaries of the optimizer step; what the caching allocator holds beyond what is allocated; and the CUDA context
// with the buffers of the communicators. The fullest moment is a pass, or the optimizer step, when no activations are
// left. Left out: cuBLAS workspaces by shape, tensors alive for one kernel, the data loader.
#include "workloads/memory.h"

#include <algorithm>

#include "workloads/schedules/chunk_map.h"
#include "workloads/step_passes.h"

namespace orrery::workloads {

namespace {

double d(std::int64_t x) { return static_cast<double>(x); }

/// The passes in flight peak within the first rounds; more micro-batches than this only repeat them, but where a
/// schedule holds them all. One that is searched for the job's own times is walked as it is run, all of it.
StageOrders telling_passes(const Job& job, const LayerSplit& split) {
  const Schedule& schedule = *job.parallelism.schedule;
  if (schedule.splits_backward()) return step_passes(job, split);
  PipelineShape shape = job.pipeline_shape();
  if (!schedule.holds_all) shape.microbatches = std::min(shape.microbatches, 4 * shape.stages);
  return paper_orders(schedule, shape);
}

bool reaches(const Job& job, Sharding level) { return job.parallelism.sharding >= level; }

/// Ranks that share what is sharded, once `level` is reached.
double shared_by(const Job& job, Sharding level) { return reaches(job, level) ? d(job.shard_ranks()) : 1.0; }

StageMemory model_states(const Job& job, double parameters) {
  const double moments = job.optimizer == OptimizerKind::sgd ? 4 : 8;
  const double accumulator = calibration::bytes_of(job.precision.accumulation);
  StageMemory m;
  m.parameters = parameters * calibration::bytes_of(job.precision.activations) / shared_by(job, Sharding::parameters);
  m.gradients = parameters * 2 / shared_by(job, Sharding::gradients);
  // Weights that are trained in fp32 are their own master copy.
  const double master = job.precision.activations == DataType::fp32 ? 0 : 4;
  m.optimizer = parameters * (master + moments) / shared_by(job, Sharding::optimizer);
  const bool both = job.software.gradients.keeps_training_gradients && accumulator > 2;
  // FSDP's shards are fp32 from the start, gradients and all.
  const double beyond = reaches(job, Sharding::parameters) ? 0 : both ? accumulator : accumulator - 2;
  m.parts.accumulators = parameters * beyond / shared_by(job, Sharding::gradients);
  return m;
}

/// Weights in the type of the products and their transposes (or scales by columns), which stay from one micro-batch to
/// the next beside the 16-bit ones; parameters that are gathered in fp8 and transposed take the 2 bytes that are
/// counted as parameters.
double weight_copy_bytes(const Job& job, double parameters) {
  const DataType type = job.precision.matmul;
  if (!calibration::is_quantised(type) || job.precision.parameters == DataType::fp8) return 0;
  return reaches(job, Sharding::parameters) ? 0 : 2 * calibration::operand_bytes(type) * parameters;
}

/// Parameters of a stage on one rank, in elements.
struct StageParameters {
  double all = 0, blocks = 0, largest_block = 0, ends = 0;  // ends: embedding and head
};
StageParameters parameters_of_stage(const Job& job, const LayerSplit& split, std::int64_t stage) {
  StageParameters sum;
  for (std::int64_t chunk = 0; chunk < job.parallelism.virtual_pipeline; ++chunk) {
    const LayerRange& range = split.of(chunk, stage, job.parallelism.pipeline);
    for (std::int64_t i = range.begin; i < range.end; ++i) {
      const double held = split.parameters_of(i);
      const bool block = split.network.layer(i).kind == LayerKind::block;
      (block ? sum.blocks : sum.ends) += held;
      if (block) sum.largest_block = std::max(sum.largest_block, held);
      sum.all += held;
    }
  }
  return sum;
}

/// Whole parameters and gradients that stand beside the shards.
double gathered_bytes(const Job& job, const StageParameters& held) {
  if (!reaches(job, Sharding::gradients)) return 0;
  const double element = calibration::bytes_of(job.precision.activations);
  const double reduced = calibration::bytes_of(job.precision.gradients);
  const double gradient = reduced > element ? element + reduced : element;  // cast before it is reduced
  const double reducing = (job.overlap.gradients ? 2 : 1) * gradient * held.largest_block;
  if (!reaches(job, Sharding::parameters)) {
    const double bucket = static_cast<double>(job.software.buckets.gradient_bucket.value());
    return bucket > 0 ? (job.overlap.gradients ? 2 : 1) * bucket : reducing;
  }
  const double parameter = calibration::bytes_of(job.precision.parameters);
  return (job.overlap.parameters ? 2 : 1) * parameter * held.largest_block + reducing +
         held.ends * (parameter + element);
}

double message_bytes(const Job& job, const Network& network, std::int32_t stage) {
  const Parallelism& p = job.parallelism;
  const double element = calibration::bytes_of(job.precision.activations);
  double bytes = 0;
  if (p.pipeline > 1) {
    const bool wraps = p.virtual_pipeline > 1;
    const int neighbours = (wraps || stage > 0) + (wraps || stage + 1 < p.pipeline);
    bytes += neighbours * (job.overlap.pipeline ? 2 : 1) * element * network.residual_elements;
  }
  // One gathered input shared by all layers (megatron/core/parallel_state.py, global memory buffer), one gradient.
  if (p.sequence_parallel && p.tensor > 1) bytes += 2 * element * network.hidden_elements;
  // Keys and values: of the block at work and of the one on its way round the ring, or of the whole sequence.
  const double blocks = p.context == 1 ? 0 : p.context_method == ContextMethod::ring ? 2 : d(p.context);
  bytes += blocks * element * network.kv_elements;
  return bytes;
}

/// What the optimizer step needs when all passes are over.
double step_bytes(const Job& job, double parameters) {
  const double updated = parameters / shared_by(job, Sharding::optimizer);
  double bytes = 0;
  if (job.precision.accumulation != DataType::fp32) bytes += 4 * updated;  // gradients in fp32 for the update
  if (job.optimizer == OptimizerKind::lamb) bytes += 4 * updated;          // the update, before its norm is known
  return bytes;
}

/// Outside of the allocator: the CUDA context and one set of buffers for each communicator that the rank is in.
double context_bytes(const Job& job, std::int32_t stage) {
  const Parallelism& p = job.parallelism;
  const bool end = stage == 0 || stage + 1 == p.pipeline;
  const int communicators =
      (p.tensor > 1) + (job.shard_ranks() > 1) + (job.shard_ranks() < job.replicas()) + (p.context > 1) +
      (p.pipeline > 1) + (p.tensor > 1 && p.pipeline > 1) +                            // the model's, for the norm
      (!job.parallelism.chunk_map().ends_meet() && end && job.model.tied_embeddings);  // embedding and head
  return static_cast<double>(job.software.memory.context_memory.value()) +
         communicators * static_cast<double>(job.software.memory.communicator_memory.value());
}

/// Adds up a stage at its fullest moment: a pass, or the step.
void settle(StageMemory& m, const HighWater& top, double step) {
  const double in_pass = top.bytes() + m.parts.gathered + m.parts.messages;
  if (step > in_pass) {
    m.peak.during = StageMemory::During::optimizer;
    m.parts.gathered = m.parts.messages = 0;
    m.parts.step = step;
  } else {
    m.activations = top.bytes();
    const bool forward = top.pass.kind == PassKind::forward;
    m.peak = {forward ? StageMemory::During::forward : StageMemory::During::backward, top.pass.chunk,
              top.pass.microbatch};
  }
}

}  // namespace

std::vector<PassBytes> chunk_bytes(const Job& job, const LayerSplit& split, std::int32_t stage) {
  std::vector<PassBytes> bytes;
  for (std::int64_t chunk = 0; chunk < job.parallelism.virtual_pipeline; ++chunk) {
    const LayerRange& range = split.of(chunk, stage, job.parallelism.pipeline);
    bytes.push_back(bytes_of(split.network, range));
    const bool last = range.end == split.network.size();
    if (!last && job.software.memory.keeps_pipeline_outputs)
      bytes.back().kept += calibration::bytes_of(job.precision.activations) * split.network.residual_elements;
  }
  return bytes;
}

InFlight in_flight(const Job& job, const LayerSplit& split, std::int32_t stage) {
  const HighWater top =
      high_water(telling_passes(job, split)[static_cast<std::size_t>(stage)], chunk_bytes(job, split, stage));
  InFlight most;
  for (std::int64_t chunk = 0; chunk < job.parallelism.virtual_pipeline; ++chunk) {
    const LayerRange& range = split.of(chunk, stage, job.parallelism.pipeline);
    const double passes = top.in_flight[static_cast<std::size_t>(chunk)];
    most.layers += passes * d(count(split.network, range, LayerKind::block));
    most.embeddings += passes * d(count(split.network, range, LayerKind::embedding));
    most.heads += passes * d(count(split.network, range, LayerKind::head));
  }
  return most;
}

std::vector<StageMemory> stage_memory(const Job& job, const LayerSplit& split) {
  const auto pipeline = static_cast<std::int32_t>(job.parallelism.pipeline);
  const StageOrders orders = telling_passes(job, split);
  std::vector<StageMemory> stages;
  for (std::int32_t stage = 0; stage < pipeline; ++stage) {
    const StageParameters held = parameters_of_stage(job, split, stage);
    StageMemory m = model_states(job, held.all);
    m.parts.weight_copies = weight_copy_bytes(job, held.blocks);
    m.parts.gathered = gathered_bytes(job, held);
    m.parts.messages = message_bytes(job, split.network, stage);
    settle(m, high_water(orders[static_cast<std::size_t>(stage)], chunk_bytes(job, split, stage)),
           step_bytes(job, held.all));
    m.allocated = m.parameters + m.gradients + m.optimizer + m.activations + m.parts.accumulators +
                  m.parts.weight_copies + m.parts.gathered + m.parts.messages + m.parts.step;
    m.parts.fragmentation = job.software.memory.allocator_overhead * m.allocated;
    m.parts.context = context_bytes(job, stage);
    m.buffers = m.parts.sum();
    m.total = m.allocated + m.parts.fragmentation + m.parts.context;
    stages.push_back(m);
  }
  return stages;
}

double peak_memory(const Job& job) {
  double peak = 0;
  for (const StageMemory& stage : stage_memory(job, split_layers(job))) peak = std::max(peak, stage.total);
  return peak;
}

}  // namespace orrery::workloads
