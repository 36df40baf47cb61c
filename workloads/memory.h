// Memory of each pipeline stage: model states, activations at their fullest, buffers, and what the framework holds
// beside what is allocated.
#pragma once

#include <vector>

#include "workloads/high_water.h"
#include "workloads/model/kept.h"
#include "workloads/stage_program.h"
#include "workloads/step.h"

namespace orrery::workloads {

/// Bytes per rank of every stage at its high-water mark. See memory.cc for the formulas and their sources. Takes
/// microseconds: the walk over the schedule stops where it repeats itself.
std::vector<StageMemory> stage_memory(const Job& job, const LayerSplit& split);

/// What the fullest rank of a job takes, in bytes: the largest total of stage_memory.
double peak_memory(const Job& job);

/// What passes over the chunks of a stage keep and need, a stage's output among it where the software keeps that.
std::vector<PassBytes> chunk_bytes(const Job& job, const LayerSplit& split, std::int32_t stage);

/// (chunk, micro-batch) activations that a stage holds at its high-water mark, by what the chunks consist of.
struct InFlight {
  double layers = 0;      // layer activations
  double embeddings = 0;  // embedding outputs
  double heads = 0;       // logits
};
InFlight in_flight(const Job& job, const LayerSplit& split, std::int32_t stage);

}  // namespace orrery::workloads
