// What the keys of a scenario that is served, or trained on its own answers, resolve to.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "scenarios/rl.h"
#include "scenarios/serving.h"

namespace orrery::tools {

/// By paths of the language, quantities as text with their unit ("500 ms"). A path that the document's form has no
/// place for is left out: an open loop has no traffic.concurrency, lengths that are all alike no traffic.input.mean.
nlohmann::ordered_json served_layout(const scenarios::ServingScenario& scenario, const sim::Settings& document);
nlohmann::ordered_json rl_layout(const scenarios::RlScenario& scenario, const sim::Settings& document);

}  // namespace orrery::tools
