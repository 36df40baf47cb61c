// Memory of each pipeline stage: model states, activations at their fullest, buffers, and what the framework holds
// beside what is allocated.
#pragma once

#include <span>
#include <vector>

#include "workloads/compile/data_parallelism.h"
#include "workloads/job/job_values.h"
#include "workloads/job/result.h"
#include "workloads/memory/high_water.h"
#include "workloads/memory/waiting_blocks.h"
#include "workloads/model/kept.h"

namespace orrery::workloads {

/// Bytes per rank of every stage at its high-water mark. See memory.cc for the formulas and their sources. Takes
/// microseconds: the walk over the schedule stops where it repeats itself.
std::vector<StageMemory> stage_memory(const Job& job, const LayerSplit& split);

/// What the fullest rank takes, in bytes: the largest total of stage_memory.
double peak_memory(std::span<const StageMemory> stages);

/// Bytes that a GPU of the stage that has least left needs, and that it has. Where all GPUs are alike, that is the
/// fullest stage.
struct MemoryNeed {
  double peak = 0, capacity = 0;
  std::size_t stage = 0;
  /// Of the hosts of a node, what its ranks have there, at most; capacity 0: not known, which nothing is checked
  /// against.
  struct Host {
    double peak = 0, capacity = 0;
    bool fits() const { return capacity == 0 || peak <= capacity; }
  } host = {};
  bool fits() const { return peak <= capacity && host.fits(); }
};
MemoryNeed memory_need(const std::vector<StageMemory>& stages, const Machine& machine);

/// How far ahead of their devices the hosts of a pipeline of so many stages are. `waits`: for every message.
HostLead host_lead(const calibration::HostLaunches& launches, const calibration::MessagePolicy& messages, bool waits,
                   std::int64_t stages);

/// What passes over the chunks of a stage keep and need. `output_bytes`: of each element of a stage's output that the
/// software keeps, or 0. `units`: what units of sharded parameters take beside them.
std::vector<PassBytes> chunk_bytes(const StageLayout& stage, double output_bytes, const UnitBytes& units);
/// The same of every stage, by stage and chunk, where parameters are not sharded and nothing is offloaded.
std::vector<std::vector<PassBytes>> chunk_bytes(const LayerSplit& split, const ChunkMap& map,
                                                const calibration::MemoryHabits& habits, const Precision& precision);

/// The same of a job's layers, with what is offloaded left out, and with the gradients that chunks hold while their
/// backward passes are under way.
std::vector<std::vector<PassBytes>> chunk_bytes(const Job& job, const LayerSplit& split);

/// (chunk, micro-batch) activations that a stage holds when it runs these passes, at its high-water mark, by what the
/// chunks consist of.
struct InFlight {
  double layers = 0;      // layer activations
  double embeddings = 0;  // embedding outputs
  double heads = 0;       // logits
};
InFlight in_flight(const StageLayout& stage, const std::vector<Pass>& passes, const std::vector<PassBytes>& chunks);

/// The passes of every stage that show what a schedule of whole backward passes holds at its fullest: passes in flight
/// peak within the first rounds, and more micro-batches only repeat them, but where a schedule holds them all.
StageOrders first_rounds(const Schedule& schedule, PipelineShape shape);

}  // namespace orrery::workloads
