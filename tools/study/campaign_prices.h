// What a campaign costs per step: the job of a scenario as a machine, and the step simulator's time for every state
// that the campaign can be in.
#pragma once

#include "scenarios/scenario.h"
#include "workloads/runs/campaign/plan.h"
#include "workloads/step/step.h"

namespace orrery::tools {

struct PricedCampaign {
  scenarios::Scenario scenario;
  workloads::StepReport report;  // of the whole machine
  campaign::Spec spec;
  campaign::Machine machine;
  campaign::Prices prices;
  std::vector<std::string> notes;  // what was taken for what
  bool interrupted = false;
};

/// The machine that the scenario's job runs on. `state_bytes` are weights and optimizer states, each once, however they
/// are shared out (a tied embedding on two stages is two); `rank_bytes` those of the fullest rank.
campaign::Machine machine_of(const scenarios::Scenario& scenario, const std::vector<workloads::StageMemory>& stages);

/// Loads the scenario and simulates a step of every state, `jobs` at a time: batches of the ramp, replicas missing (the
/// global batch stays, and those that are left take its micro-batches, rounded up to what the schedule takes), one
/// GPU or NIC slow (of node 0; what it costs hardly depends on where). Throws UserError, also where there is no
/// campaign.
PricedCampaign price_campaign(const sim::Settings& document, unsigned jobs);

}  // namespace orrery::tools
