// The operation list of one pipeline stage: passes in schedule order, each pass the pieces of its chunk, with tensor
// collectives, pipeline messages and data-parallel collectives where the job's overlap puts them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/plan.h"
#include "workloads/collectives/collective.h"
#include "workloads/models/gpt.h"
#include "workloads/schedules/schedule.h"
#include "workloads/step.h"

namespace orrery::workloads {

/// What a stage's communicators are for; a program numbers the ones that it uses as slots.
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

/// What a reader wants to know of an operation, beside the engine's columns.
struct OpNote {
  std::uint32_t run = 0;  // compute: index into StagePrograms::runs
  std::uint32_t traffic = kNoTraffic;
  std::int32_t microbatch = -1;
  std::int16_t chunk = -1;
  PassKind kind = PassKind::forward;
  bool counts = true;  // false: the tail of a transfer that was cut in two, its call counted already
  double share = 1.0;  // of the call's bytes that this operation moves
};

/// How the layers lie on stages and chunks: `shape[chunk][stage]`, flattened as chunk * stages + stage.
struct LayerSplit {
  std::vector<ChunkShape> shapes;
  const ChunkShape& of(std::int64_t chunk, std::int64_t stage, std::int64_t stages) const {
    return shapes[static_cast<std::size_t>(chunk * stages + stage)];
  }
};

/// Equal shares when stages x chunks divide the layers; else as even as can be with embedding and head a layer each.
/// Blocks lie as a loop (schedules/chunk_map.h).
LayerSplit split_layers(std::int64_t layers, std::int64_t stages, std::int64_t chunks);
/// The same for a job: its schedule says where blocks lie, parallelism.stage_layers how many layers each holds.
LayerSplit split_layers(const Job& job);

/// Parameters (elements) on one rank of a stage.
double stage_parameters(const Job& job, const LayerSplit& split, std::int64_t stage);

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
  std::vector<std::vector<Peer>> slots;    // by stage: slot -> what it is for
  std::vector<std::vector<Kernel>> runs;   // kernels of compute operations
  std::vector<TrafficKey> traffic;
};

/// Compiles the programs. `evaluation`: forward passes only.
StagePrograms compile_programs(const Job& job, const LayerSplit& split, const GroupShapes& shapes,
                               const topology::Cluster& cluster, bool evaluation);

}  // namespace orrery::workloads
