// What requests ask of each token: traffic.sampling, and what they leave open from model.generation.
#pragma once

#include "scenarios/serving.h"
#include "sim/settings.h"

namespace orrery::scenarios {

/// Once engine and traffic are known. Throws UserError.
void load_sampling(const sim::Settings& document, ServingScenario& scenario);

}  // namespace orrery::scenarios
