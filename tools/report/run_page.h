// What the HTML report of `orrery run` shows, as data for the page.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "scenarios/scenario.h"
#include "workloads/step/step.h"

namespace orrery::tools {

/// `report` must come with stage timelines and counted memory (workloads::Question); `document` is the scenario as
/// read, with --set laid over it.
nlohmann::ordered_json run_page(const sim::Settings& document, const scenarios::Scenario& scenario,
                                const workloads::StepReport& report);

/// Of that what the pipeline over time is drawn from, and the scenario in a line; stage timelines are enough.
nlohmann::ordered_json pipeline_page(const scenarios::Scenario& scenario, const workloads::StepReport& report);

}  // namespace orrery::tools
