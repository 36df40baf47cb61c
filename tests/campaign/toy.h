// Small plans for the tests of campaigns: every time a round number.
#pragma once

#include "workloads/runs/campaign/plan.h"
#include "workloads/runs/campaign/run.h"

namespace orrery::tests {

/// `steps` steps of a second on one node that never fails, nothing saved.
inline campaign::Plan quiet_plan(std::int64_t steps) {
  campaign::Plan plan;
  plan.steps = steps;
  plan.phases = {{0, {1'000'000'000'000}, {1'000'000'000'000}}};
  plan.restart.initialise = {campaign::Elapsed{}};
  plan.limit = campaign::elapsed(1e12);
  return plan;
}

/// Checkpoints every `every` steps that stall for `stall_s` and lie on storage at once.
inline void save_every(campaign::Plan& plan, std::int64_t every, double stall_s) {
  campaign::Save save;
  save.every = every;
  save.stall = campaign::elapsed(stall_s);
  plan.saves.push_back(save);
}

/// Exponential failures of the process, `mtbf_s` apart in the mean, found at once.
inline void fail_every(campaign::Plan& plan, double mtbf_s) {
  campaign::Hazard hazard;
  hazard.rate = 1 / mtbf_s;
  hazard.name = "failure";
  plan.hazards.push_back(hazard);
}

}  // namespace orrery::tests
