// Keys of reinforcement learning, for the table of the scenario language.
#pragma once

#include <vector>

#include "scenarios/schema.h"

namespace orrery::scenarios {

std::vector<Key> rl_keys();
/// Sections of a training step that `rl.training` holds.
const std::vector<std::string>& rl_training_sections();

}  // namespace orrery::scenarios
