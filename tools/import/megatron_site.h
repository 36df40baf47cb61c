// What a launch of Megatron-LM's says of where it runs, beyond its flags: the board that a queue is asked for,
// variables of the environment, and what kind of step it is part of.
#pragma once

#include <string>

#include "tools/import/megatron_launch.h"

namespace orrery::tools {

/// The board that the script asks its queue for, or that its own name says.
std::string take_device(const Launch& launch, Draft& draft);
/// Variables of the environment that a step hangs on.
void take_environment(const Launch& launch, Draft& draft);
/// Of launches that generate answers and train on them (slime's, and Megatron-LM's own) the training alone is read.
void remark_on_reinforcement(const Launch& launch, Draft& draft);

}  // namespace orrery::tools
