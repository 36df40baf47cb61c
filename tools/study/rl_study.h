// A step of reinforcement learning, run: where its time goes, how long its tail is, and how its GPUs are best split.
#pragma once

#include <string>
#include <vector>

#include "scenarios/rl.h"
#include "tools/study/rl_prices.h"
#include "workloads/runs/rl/steps.h"

namespace orrery::tools {

struct RlStudy {
  scenarios::RlScenario scenario;
  RlPrices prices;
  rl::Steps steps;
  std::string kernels;      // what the engine's times rest on
  std::int64_t blocks = 0;  // of a replica's cache

  double step_s() const { return static_cast<double>(steps.step) / 1e12; }
  double part_s(rl::Part part) const { return static_cast<double>(steps.parts[static_cast<std::size_t>(part)]) / 1e12; }
  /// Prompts and answers that are trained on.
  double tokens_per_s_per_gpu() const {
    return steps.step > 0 ? steps.tokens / step_s() / static_cast<double>(scenario.gpus) : 0;
  }
};

/// Throws sim::UserError where weights do not fit the engine's GPUs.
RlStudy study_rl(const scenarios::RlScenario& scenario);

/// One way to share the GPUs out.
struct RlSplit {
  std::int64_t rollout_gpus = 0, training_gpus = 0;
  double step_s = 0, tokens_per_s_per_gpu = 0, wait_s = 0, engine_busy = 0;
  bool fits = true;
  std::string reason;  // why it cannot be run
};

/// Every split of the GPUs into whole nodes and replicas that leaves the trainer whole copies of the model, at most 64
/// of them, the fastest first; those that cannot be run last, with their reason. Throws sim::UserError where engine and
/// trainer share their GPUs.
std::vector<RlSplit> split_rl(const sim::Settings& document, unsigned jobs);

}  // namespace orrery::tools
