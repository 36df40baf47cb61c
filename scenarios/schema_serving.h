// Keys of requests that are served, for the table of the scenario language.
#pragma once

#include <vector>

#include "scenarios/schema.h"

namespace orrery::scenarios {

std::vector<Key> serving_keys();
/// Names of types that weights may be served in.
const std::vector<std::string>& served_type_names();

}  // namespace orrery::scenarios
