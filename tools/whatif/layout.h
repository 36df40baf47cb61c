// What a scenario's keys resolve to, for the page's controls.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "scenarios/scenario.h"

namespace orrery::tools {

/// By path of the language ("parallelism.data"): what the scenario says, or the default that it takes; beside them
/// "layers", "parameters" and "microbatches", which are no keys.
nlohmann::ordered_json layout_json(const scenarios::Scenario& scenario);

}  // namespace orrery::tools
