// Keys of what the site allows and says about power, for the table of the scenario language.
#pragma once

#include <vector>

#include "scenarios/schema.h"

namespace orrery::scenarios {

std::vector<Key> power_keys();

}  // namespace orrery::scenarios
