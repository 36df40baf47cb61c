// Lower bound of a step, from the rules of a plan (sim/plan.h) and of its programs (workloads/stage_program.h).
//
// On one rank all compute operations run one after the other on one stream, each for at least the time of its kernels,
// and a collective that is not overlapped lies between two of them: it begins after the one and the other waits for it.
// So a stage with m micro-batches needs W = m x (sum of its forward and backward passes) of its stream, whatever the
// schedule. Under GPipe, 1F1B and interleaved 1F1B the first pass of stage s is the forward pass of its first chunk,
// which waits for those of the stages before it, one after the other; its last pass is the backward pass of the same
// chunk, which those stages wait for. With f and b the times of these passes and W of a stage:
//   step >= max over s of (sum_{i<s} f_i + W_s + sum_{i<s} b_i) + the slowest stage's optimizer,
// since the optimizer's kernels wait for the gradient norm of all stages. Under any other schedule the mean of W over
// the stages stands for the maximum in parentheses. The host needs m x (sum of launches) as well.
//
// Left out, each of which only makes a step longer: pipeline messages, overlapped and data-parallel collectives, time on
// links (a collective counts with its latency and its rate cap), the slower kernels beside a collective, and the host
// except as a whole. Kernels cut in two round each part: a picosecond per kernel is taken off.
#include "workloads/step_bound.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "workloads/collectives/collective.h"
#include "workloads/models/gpt.h"
#include "workloads/stage_program.h"

namespace orrery::workloads {

namespace {

/// Whether every tensor group lies inside a node, so that all of them take the same time.
bool tensor_groups_are_in_nodes(const Job& job) {
  const bool in_order = job.placement.kind == Placement::Kind::order && job.placement.order.front() == "tensor";
  return in_order && job.parallelism.tensor > 1 && job.gpus_per_node % job.parallelism.tensor == 0;
}

/// Of a tensor collective that compute waits for.
std::int64_t least_time(const Piece& piece, const Job& job) {
  if (piece.overlap != CommOverlap::none || !tensor_groups_are_in_nodes(job)) return 0;
  const auto bytes = sim::Bytes(std::max<std::int64_t>(1, std::llround(piece.bytes)));
  constexpr std::int64_t kRounding = 2;
  const sim::Duration total = job.device.node_collective(piece.op, job.parallelism.tensor, bytes).total();
  return std::max<std::int64_t>(0, total.value() - kRounding);
}

bool has_classic_order(ScheduleKind schedule) {
  return schedule == ScheduleKind::gpipe || schedule == ScheduleKind::one_f_one_b ||
         schedule == ScheduleKind::interleaved_1f1b;
}

bool is_perturbed(const Perturbation& perturbation) {
  return !perturbation.slow_gpus.empty() || !perturbation.slow_nics.empty() || perturbation.jitter_sigma > 0;
}

/// What the costs of a pass depend on, of what may differ between the jobs of one StepBound.
std::string key_of(const Job& job) {
  const Precision& precision = job.precision;
  return fmt::format("{} {} {} {} {} {} {} {} {} {} {} {}", job.parallelism.tensor, job.parallelism.context,
                     job.batch.micro, job.parallelism.sequence_parallel, static_cast<int>(job.recompute),
                     static_cast<int>(job.attention), static_cast<int>(precision.matmul),
                     static_cast<int>(precision.activations), static_cast<int>(precision.gradients),
                     static_cast<int>(precision.parameters), job.overlap.tensor, job.gpus_per_node);
}

struct Work {
  std::int64_t serial = 0, issue = 0;  // ps
};

std::int64_t optimizer_time(const Job& job, double parameters) {
  const bool sharded = job.parallelism.sharding != Sharding::none;
  const auto owners = static_cast<double>(sharded ? job.parallelism.data * job.parallelism.context : 1);
  std::int64_t ps = 0;
  for (const Kernel& kernel : optimizer_kernels(job, parameters, parameters / owners)) ps += kernel.time.value();
  return ps;
}

}  // namespace

StepBound::Costs StepBound::costs_of(const Job& job) const {
  const auto pass_of = [&](const Pieces& pieces) {
    Pass pass;
    for (const Piece& piece : pieces) {
      if (piece.is_comm()) {
        pass.serial += least_time(piece, job);
        pass.issue += job.software.transfer_issue.value();
      }
      for (const Kernel& kernel : piece.kernels) pass.serial += kernel.time.value() - 1;
      pass.issue += job.software.kernel_issue.value() * static_cast<std::int64_t>(piece.kernels.size());
    }
    return pass;
  };
  const auto parts_of = [&](const ChunkShape& shape) {
    const ChunkPasses passes = gpt_chunk(job, shape);
    return Parts{pass_of(passes.forward), pass_of(passes.backward)};
  };
  const auto less = [](const Parts& whole, const Parts& part) {
    return Parts{{whole.forward.serial - part.forward.serial, whole.forward.issue - part.forward.issue},
                 {whole.backward.serial - part.backward.serial, whole.backward.issue - part.backward.issue}};
  };
  // A chunk is its layers, and before and behind them the embedding and the head: its kernels add up.
  const Parts layer = parts_of({1, false, false});
  return {layer, less(parts_of({1, true, false}), layer), less(parts_of({1, false, true}), layer)};
}

const StepBound::Costs& StepBound::remembered(const Job& job) {
  const auto [found, fresh] = costs_.try_emplace(key_of(job));
  if (fresh) found->second = costs_of(job);
  return found->second;
}

sim::Duration StepBound::of(const Job& job) {
  if (is_perturbed(job.perturbation)) return {};
  const Costs& costs = remembered(job);
  const std::int64_t stages = job.parallelism.pipeline, chunks = job.parallelism.virtual_pipeline;
  const LayerSplit split = split_layers(job.model.layers, stages, chunks);
  const auto add = [&](Work& work, const ChunkShape& shape, Pass Parts::*pass) {
    const auto add_part = [&](const Parts& part, std::int64_t times) {
      work.serial += (part.*pass).serial * times;
      work.issue += (part.*pass).issue * times;
    };
    add_part(costs.layer, shape.layers);
    if (shape.embedding) add_part(costs.embedding, 1);
    if (shape.head) add_part(costs.head, 1);
  };
  Work all;
  for (const ChunkShape& shape : split.shapes) {
    add(all, shape, &Parts::forward);
    add(all, shape, &Parts::backward);
  }
  double parameters = 0;
  for (std::int64_t stage = 0; stage < stages; ++stage) parameters += stage_parameters(job, split, stage);
  const std::int64_t microbatches = job.microbatches();
  // The busiest stage does at least as much as the mean.
  std::int64_t path = microbatches * all.serial / stages, host = microbatches * all.issue / stages;
  std::int64_t optimizer = optimizer_time(job, parameters / static_cast<double>(stages));
  if (has_classic_order(job.parallelism.schedule)) {
    Work before;  // forward and backward passes of the stages before, over their first chunks
    for (std::int64_t stage = 0; stage < stages; ++stage) {
      Work own;
      for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
        add(own, split.of(chunk, stage, stages), &Parts::forward);
        add(own, split.of(chunk, stage, stages), &Parts::backward);
      }
      path = std::max(path, before.serial + microbatches * own.serial);
      host = std::max(host, microbatches * own.issue);
      optimizer = std::max(optimizer, optimizer_time(job, stage_parameters(job, split, stage)));
      add(before, split.of(0, stage, stages), &Parts::forward);
      add(before, split.of(0, stage, stages), &Parts::backward);
    }
  }
  return sim::Duration(std::max(path + optimizer, host));
}

}  // namespace orrery::workloads
