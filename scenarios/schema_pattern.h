// Keys of models whose blocks follow a pattern, for the table of the scenario language.
#pragma once

#include <vector>

#include "scenarios/schema.h"

namespace orrery::scenarios {

std::vector<Key> pattern_keys();

}  // namespace orrery::scenarios
