// Which models are served, and what of a scenario hangs on that.
#pragma once

#include "scenarios/serving.h"
#include "sim/settings.h"
#include "workloads/job/job.h"

namespace orrery::scenarios {

/// Refuses what no pass of an engine has here.
void check_served_model(const sim::Settings& document, const workloads::Model& model);
/// An encoder answers once, with a state.
void check_answers(const sim::Settings& document, const ServingScenario& scenario);
/// In place of what is said of mixers that are trained.
void say_served_mixers(workloads::Job& job);

}  // namespace orrery::scenarios
