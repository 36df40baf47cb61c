// The operation list of one pipeline stage: passes in schedule order, each pass the pieces of its chunk, with tensor
// collectives, pipeline messages and data-parallel collectives where the job's overlap puts them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/plan.h"
#include "workloads/collectives/collective.h"
#include "workloads/layer_split.h"
#include "workloads/model/passes.h"
#include "workloads/schedules/schedule.h"
#include "workloads/step.h"

namespace orrery::workloads {

/// What a stage's communicators are for; Groups::slots numbers those that a stage has.
enum class Peer : std::uint8_t {
  tensor,
  data,       // the ranks that share out a state, or all replicas
  replicate,  // those of other such groups that hold the same part
  next_activation,
  previous_activation,
  next_gradient,
  previous_gradient,
  // Chunks that run from the last stage to the first: activations to the stage before, gradients to the stage after.
  return_activation_out,
  return_activation_in,
  return_gradient_out,
  return_gradient_in,
  context,
  embedding,
  world
};
inline constexpr std::size_t kPeers = 14;

/// One kind of traffic; operations point to it through OpNote::traffic.
struct TrafficKey {
  std::string dimension;  // tensor | context | data | pipeline | embedding | norm
  CollectiveOp op{};
  std::string what;
  std::int64_t group = 1;
  double bytes = 0;          // whole buffer of one call
  double sent_per_call = 0;  // what one rank sends
};

inline constexpr std::uint32_t kNoTraffic = 0xffffffff;
inline constexpr std::uint32_t kNoWholePass = 0xffffffff;

/// What a reader wants to know of an operation, beside the engine's columns.
struct OpNote {
  std::uint32_t run = 0;  // compute: index into StagePrograms::runs
  std::uint32_t traffic = kNoTraffic;
  std::int32_t microbatch = -1;
  std::int16_t chunk = -1;
  PassKind kind = PassKind::forward;
  bool counts = true;                  // false: the tail of a transfer that was cut in two, its call counted already
  double share = 1.0;                  // of the call's bytes that this operation moves
  std::uint32_t whole = kNoWholePass;  // compute: a pass in one operation, index into StagePrograms::whole_passes
};

/// What an operation that stands for a pass holds.
struct WholePassNote {
  sim::Duration tensor_wait{};    // of its duration
  std::vector<OpNote> transfers;  // one per tensor collective
};

/// How the groups of a job lie on the cluster, as costs need to know: worst over all groups of a kind.
struct GroupShapes {
  GroupShape tensor, context, data, replicate, embedding, world;
  topology::Tier pipeline_top = topology::Tier::node;
  std::vector<bool> pipeline_same_node;  // per stage: its message to the next stage stays inside a node
};

/// The programs of all stages, before instances exist.
struct StagePrograms {
  std::vector<sim::Program> programs;      // by stage
  std::vector<std::vector<OpNote>> notes;  // by stage and operation
  std::vector<std::vector<Kernel>> runs;   // kernels of compute operations
  std::vector<WholePassNote> whole_passes;
  std::vector<TrafficKey> traffic;
};

/// Compiles the programs. `slots`: by stage, which peers its ranks have communicators for. `undisturbed_rate`: bytes/s
/// up to which tensor collectives are sure of their own rate; a pass whose collectives all stay below becomes one
/// operation (0: none does). `evaluation`: forward passes of one global batch only.
StagePrograms compile_programs(const Job& job, const LayerSplit& split, const GroupShapes& shapes,
                               const std::vector<std::vector<Peer>>& slots, const topology::Cluster& cluster,
                               double undisturbed_rate, bool evaluation);

}  // namespace orrery::workloads
