// What the parts of a step of reinforcement learning take: passes and updates from the training step, weights from the
// trainer to the engine as collectives or flows on the fabric, states to the host and back over its link.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "scenarios/rl.h"
#include "workloads/runs/rl/steps.h"
#include "workloads/step/iteration_times.h"

namespace orrery::tools {

/// How weights get over.
struct WeightTransfer {
  double bytes = 0;            // of the model
  double tensors = 0;          // of its published checkpoint
  std::int64_t holders = 1;    // GPUs of the trainer that hold the weights together
  std::int64_t receivers = 1;  // GPUs of the engine
  double gather_s = 0, send_s = 0, copy_s = 0, host_s = 0;
  bool beside = false;  // the host's work runs beside the others
  double seconds() const {
    const double moves = gather_s + send_s + copy_s;
    return beside ? std::max(moves, host_s) : moves + host_s;
  }
};

struct RlPrices {
  rl::Prices times;
  WeightTransfer transfer;
  sim::Duration update{};                     // one
  double score_s = 0;                         // one forward pass over all answers
  double swapped_bytes = 0;                   // of a GPU, one way
  double peak_bytes = 0, capacity_bytes = 0;  // of the trainer's fullest GPU
  bool fits = true;
};

RlPrices rl_prices(const scenarios::RlScenario& scenario, workloads::IterationTimes& times);

}  // namespace orrery::tools
