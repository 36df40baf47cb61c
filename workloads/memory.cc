// Memory of a rank.
//
// Model states: mixed-precision Adam keeps 16 bytes per parameter: 2 weight, 2 gradient, 4 master weight, 8 moments
// (Rajbhandari et al., arXiv 1910.02054); sharding divides optimizer, gradients and parameters in that order by the
// number of data-parallel ranks. Frameworks that accumulate gradients in fp32 hold 2 bytes more, listed under buffers
// so that the states stay comparable. Activations per layer and micro-batch (Korthikanti et al., arXiv 2205.05198,
// equations 1 to 6), in bytes with 16-bit activations and one-byte dropout masks: s b h (10 + 24/t + 5 a s / (h t)),
// sequence parallel s b h / t (34 + 5 a s / h), the last term gone with fused attention or selective recompute, full
// recompute 2 s b h. Logits: fp32 and 16-bit copies. Left out: allocator fragmentation beyond the reserve, and cuBLAS
// workspaces by shape.
#include "workloads/memory.h"

#include <algorithm>

#include "workloads/step_passes.h"

namespace orrery::workloads {

namespace {
double d(std::int64_t x) { return static_cast<double>(x); }
// CUDA context, cuBLAS workspaces and NCCL channels of a process: between 1 and 2 GB on these devices.
constexpr double kFrameworkReserve = 1.5e9;
}  // namespace

double layer_activation_bytes(const Job& job) {
  const Model& m = job.model;
  const double sbh = d(job.rank_seq()) * d(job.batch.micro) * d(m.hidden);
  const double t = d(job.parallelism.tensor);
  const bool sp = job.parallelism.sequence_parallel && job.parallelism.tensor > 1;
  const double e = calibration::bytes_of(job.precision.activations);
  if (job.recompute == Recompute::full) return e * sbh / (sp ? t : 1.0);
  const double kv = d(m.kv_heads) / d(m.heads), ffn = d(m.ffn_hidden) / d(m.hidden);
  // Outside the tensor-parallel regions: two norm inputs (e each), two dropout masks (1 each), and the inputs of the
  // two column-parallel layers (e each), which are one tensor in a parallel block.
  double outside = 2 * e + 2 + 2 * e;
  if (m.parallel_block) outside = e + 1 + e;
  // Inside: q, k, v, attention output, up projection's output (twice when gated) and activation.
  const double inside = e * (1 + 2 * kv) + e + e * ffn * (m.gated_mlp ? 3 : 2);
  double bytes = sbh * (outside / (sp ? t : 1.0) + inside / t);
  if (job.attention == AttentionKind::unfused && job.recompute == Recompute::none) {
    bytes += d(m.heads) / t * d(job.batch.micro) * d(m.seq) * d(m.seq) * (2 * e + 1);  // softmax, mask, dropout output
  } else if (job.attention == AttentionKind::flash) {
    bytes += 4 * d(m.heads) / t * d(job.batch.micro) * d(job.rank_seq());  // log-sum-exp of each row
  }
  return bytes;
}

double weight_gradient_bytes(const Job& job) {
  const Model& m = job.model;
  const double t = d(job.parallelism.tensor), h = d(m.hidden), ffn = d(m.ffn_hidden);
  const double whole = job.parallelism.sequence_parallel ? h / t : h;  // what tensor ranks hold alike, or cut
  const double qkv = h + 2 * d(m.kv_heads * m.head_dim()), up = (m.gated_mlp ? 2 : 1) * ffn;
  const double inputs = 2 * whole + (h + ffn) / t, gradients = 2 * whole + (qkv + up) / t;
  return d(job.rank_seq()) * d(job.batch.micro) * (inputs + gradients) *
         calibration::bytes_of(job.precision.activations);
}

InFlight in_flight(const Job& job, const LayerSplit& split, std::int32_t stage) {
  const StageOrders orders = step_passes(job, split);
  return in_flight(orders[static_cast<std::size_t>(stage)], split, stage, job.parallelism.pipeline,
                   weight_gradient_bytes(job) / layer_activation_bytes(job));
}

InFlight in_flight(const std::vector<Pass>& passes, const LayerSplit& split, std::int32_t stage, std::int64_t stages,
                   double kept) {
  InFlight now, most;
  double most_layers = -1;
  for (const Pass& pass : passes) {
    const ChunkShape& shape = split.of(pass.chunk, stage, stages);
    double layers = 0;
    switch (pass.kind) {
      case PassKind::forward:
        layers = 1;
        break;
      case PassKind::backward:
        layers = -1;
        break;
      case PassKind::input_gradient:
        layers = kept - 1;
        break;
      case PassKind::weight_gradient:
        layers = -kept;
        break;
    }
    const double ends = pass.kind == PassKind::forward ? 1 : ends_microbatch(pass.kind) ? -1 : 0;
    now.layers += layers * d(shape.layers);
    now.embeddings += ends * (shape.embedding ? 1 : 0);
    now.heads += ends * (shape.head ? 1 : 0);
    const double weight = now.layers + 0.5 * now.heads;
    if (weight > most_layers) most_layers = weight, most = now;
  }
  return most;
}

std::vector<StageMemory> stage_memory(const Job& job, const LayerSplit& split) {
  const double data = d(job.shard_ranks());
  const double t = d(job.parallelism.tensor);
  const double e = calibration::bytes_of(job.precision.activations);
  const double g = calibration::bytes_of(job.precision.gradients);
  const double moments = job.optimizer == OptimizerKind::sgd ? 4 : 8;
  const auto level = static_cast<int>(job.parallelism.sharding);
  const double sbh = d(job.rank_seq()) * d(job.batch.micro) * d(job.model.hidden);
  const double logits = d(job.rank_seq()) * d(job.batch.micro) * d(padded_vocab(job)) / t;
  const ShardParameters shard = shard_parameters(job);
  const StageOrders orders = step_passes(job, split);
  const double kept = weight_gradient_bytes(job) / layer_activation_bytes(job);
  std::vector<StageMemory> stages;
  for (std::int32_t stage = 0; stage < static_cast<std::int32_t>(job.parallelism.pipeline); ++stage) {
    const double parameters = stage_parameters(job, split, stage);
    StageMemory m;
    m.parameters = parameters * e / (level >= 3 ? data : 1);
    m.gradients = parameters * 2 / (level >= 2 ? data : 1);
    m.optimizer = parameters * (4 + moments) / (level >= 1 ? data : 1);
    const InFlight held =
        in_flight(orders[static_cast<std::size_t>(stage)], split, stage, job.parallelism.pipeline, kept);
    m.activations = held.layers * layer_activation_bytes(job) + held.embeddings * sbh * (1 + e) +
                    held.heads * (logits * (4 + e) + sbh * e);
    if (job.recompute == Recompute::full && held.layers > 0) {  // the layer being recomputed, in full
      Job without = job;
      without.recompute = Recompute::none;
      m.activations += layer_activation_bytes(without);
    }
    m.buffers = kFrameworkReserve + parameters * (g - 2) / (level >= 2 ? data : 1);
    if (level >= 3) m.buffers += 2 * shard.layer * (e + g);  // the unit at work and the one fetched ahead
    m.total = m.parameters + m.gradients + m.optimizer + m.activations + m.buffers;
    stages.push_back(m);
  }
  return stages;
}

}  // namespace orrery::workloads
