// Rows of the scenario language for what is trained, and by what.
#pragma once

#include <vector>

#include "scenarios/schema.h"

namespace orrery::scenarios {

/// `optimizer`, and keys below `finetune`.
std::vector<Key> finetune_keys();

}  // namespace orrery::scenarios
