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
  double layers = 0;      // layer activations held at the high-water mark
  double embeddings = 0;  // embedding outputs
  double heads = 0;       // logits
};
InFlight in_flight(const Job& job, const LayerSplit& split, std::int32_t stage);
/// The same of given passes; `kept`: share of a layer's activations that a gradient of the inputs leaves for that of
/// the weights, its own results included.
InFlight in_flight(const std::vector<Pass>& passes, const LayerSplit& split, std::int32_t stage, std::int64_t stages,
                   double kept);

/// Bytes of activations that one layer keeps for its backward pass, for one micro-batch on one rank.
double layer_activation_bytes(const Job& job);

/// Bytes that the weight gradients of one layer need, for one micro-batch on one rank: the inputs of its linear layers
/// and the gradients of their outputs; 32 s b h for a plain GPT in 16 bits (Qi et al., arXiv 2401.10241, table 1).
double weight_gradient_bytes(const Job& job);

}  // namespace orrery::workloads
