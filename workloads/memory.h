// Memory of each pipeline stage, from formulas.
#pragma once

#include <vector>

#include "workloads/stage_program.h"
#include "workloads/step.h"

namespace orrery::workloads {

/// Bytes per rank of every stage. See memory.cc for the formulas and their sources.
std::vector<StageMemory> stage_memory(const Job& job, const LayerSplit& split);

/// Most (chunk, micro-batch) activations that a stage holds at once, by chunk shape: walks the schedule.
struct InFlight {
  double layers = 0;          // layer activations held at the high-water mark
  double embeddings = 0;      // embedding outputs
  double heads = 0;           // logits
  double between_halves = 0;  // layers, at most, whose inputs' gradients are done and whose weights' are not
};
InFlight in_flight(const Job& job, const LayerSplit& split, std::int32_t stage);
InFlight in_flight(const std::vector<Pass>& passes, const LayerSplit& split, std::int32_t stage, std::int64_t stages);

/// Bytes of activations that one layer keeps for its backward pass, for one micro-batch on one rank.
double layer_activation_bytes(const Job& job);

}  // namespace orrery::workloads
