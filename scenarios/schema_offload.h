// Rows of the scenario language for what waits in the host's memory.
#pragma once

#include <vector>

#include "scenarios/schema.h"

namespace orrery::scenarios {

/// Keys below `offload`.
std::vector<Key> offload_keys();

}  // namespace orrery::scenarios
