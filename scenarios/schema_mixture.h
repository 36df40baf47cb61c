// Keys of mixtures of experts, for the table of the scenario language.
#pragma once

#include <vector>

#include "scenarios/schema.h"

namespace orrery::scenarios {

/// Of the model, and of the section `experts`.
std::vector<Key> mixture_keys();
std::vector<Key> latent_keys();
std::vector<Key> expert_keys();

}  // namespace orrery::scenarios
