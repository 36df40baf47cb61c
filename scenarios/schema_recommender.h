// Keys of recommenders, for the table of the scenario language.
#pragma once

#include <vector>

#include "scenarios/schema.h"

namespace orrery::scenarios {

/// Of the model, and of the section `tables`.
std::vector<Key> recommender_keys();
std::vector<Key> table_keys();

}  // namespace orrery::scenarios
