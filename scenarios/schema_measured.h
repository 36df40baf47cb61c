// Internal to the room: the rows of the schema for what was measured.
#pragma once

#include <vector>

#include "scenarios/schema.h"

namespace orrery::scenarios {

/// Keys below `measured`.
std::vector<Key> measured_keys();

}  // namespace orrery::scenarios
