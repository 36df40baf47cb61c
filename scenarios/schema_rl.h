// Keys of reinforcement learning, for the table of the scenario language.
#pragma once

#include <vector>

#include "scenarios/schema.h"

namespace orrery::scenarios {

std::vector<Key> rl_keys();
/// Sections of a training step, and of what is served, that `rl.training` and `rl.rollout` hold.
const std::vector<std::string>& rl_training_sections();
const std::vector<std::string>& rl_rollout_sections();

}  // namespace orrery::scenarios
