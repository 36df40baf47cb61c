// The section `rl` of a scenario: a step of reinforcement learning, read and checked with the engine that writes
// answers and the trainer that learns from them. Both are scenarios of their own on their share of the GPUs, made of
// what the section says: a serving one, and two training steps, an update and the forward passes that score answers.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "calibration/framework/rl_framework.h"
#include "scenarios/serving.h"
#include "sim/settings.h"
#include "workloads/job/job.h"
#include "workloads/runs/rl/packing.h"
#include "workloads/runs/rl/steps.h"

namespace orrery::scenarios {

enum class RlReward : std::uint8_t { rule, model };

struct RlScenario {
  std::string id, description;
  std::string algorithm;
  calibration::RlFramework framework;
  rl::StepSpec spec;
  std::int64_t gpus = 1, rollout_gpus = 1, training_gpus = 1;  // colocated: all of them for both
  std::int64_t mini_batch = 1, epochs = 1;                     // samples of an update, passes over all of them
  std::int64_t updates() const { return spec.batch.count() / mini_batch * epochs; }
  std::int64_t concurrency = 0;  // requests of a replica at a time; 0: its engine's limit
  RlReward reward = RlReward::rule;
  double reward_seconds = 0;
  bool reference = true, critic = false;
  calibration::OldLogprobs old_logprobs = calibration::OldLogprobs::trainer;
  calibration::WeightRoute route = calibration::WeightRoute::gather;
  ServingScenario rollout;
  workloads::Job update, score;
  rl::Packed packed_update, packed_score;
  std::string update_yaml;  // the update as a scenario, which orrery run runs to the same picosecond
  std::vector<std::string> assumptions;
};

/// Throws UserError.
RlScenario load_rl(const sim::Settings& document);

}  // namespace orrery::scenarios
