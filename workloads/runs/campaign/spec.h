// What a scenario says of a campaign: how long it trains, what fails, how it saves and comes back. No step times: those
// come from the step simulator (Prices, plan.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/keys.h"
#include "sim/settings.h"
#include "workloads/runs/campaign/fleet.h"

namespace orrery::campaign {

/// Where a checkpoint lies: in the memory of its own host, which ends with the node; in a neighbour node's too, which
/// outlives a node but not a group of nodes; on storage, which outlives everything.
enum class Store : std::uint8_t { host, neighbour, storage };
std::string_view name_of(Store store);

struct Tier {
  Store to = Store::storage;
  std::int64_t one_in = 1;     // of the checkpoints that are taken
  bool in_background = true;   // the step waits for the copy to the host's memory alone
  double write = 0, read = 0;  // bytes/s of one node; 0: no limit
  double total = 0;            // bytes/s of the whole store, either way; 0: no limit
};

struct Checkpoint {
  std::int64_t every_steps = 0;  // 0: by `every_s`
  double every_s = 0;            // 0: Daly's interval
  double bytes = 0;              // of the whole checkpoint; 0: by the memory account
  double snapshot = 0;           // bytes/s from one GPU to its host; 0: the device's PCIe rate
  std::vector<Tier> tiers;
};

/// From the failure to the next step, in seconds.
struct Repair {
  double detection_s = 0, hang_detection_s = 0, slow_detection_s = 0, diagnosis_s = 0;
  double swap_s = 0;  // a spare in place of a lost node
  double scheduler_s = 0, container_s = 0, initialisation_s = 0, initialisation_per_rank_s = 0, warm_up_s = 0;
  std::int64_t warm_up_steps = 0;  // that count for nothing
  std::int64_t spares = 0;         // nodes beside the job's
};

struct Elastic {
  bool on = false;
  std::int64_t min_replicas = 1;
  bool regrow = true;  // stop for it as soon as the nodes are there; else with the next restart
};

struct Maintenance {
  double every_s = 0, for_s = 0;  // 0: none
};

/// What counts of the time before the first step: nothing; allocation, containers, initialisation and warm-up; and the
/// load of a checkpoint to begin from.
enum class FirstStart : std::uint8_t { none, cold, load };

/// The first tokens in batches of another size.
struct Ramp {
  double until_tokens = 0;
  std::int64_t global = 0;
};

struct Spec {
  double tokens = 0;       // 0: by `steps` or `window_s`
  std::int64_t steps = 0;  // 0: by `tokens` or `window_s`
  double window_s = 0;     // trains for so long, however far it comes
  double limit_s = 0;      // gives up after; 0: 20 times what it takes without a failure
  std::vector<Ramp> ramp;
  double step_excess = 0;  // mean over the simulated step of real steps, less 1
  double data_per_step_s = 0, data_at_restart_s = 0;
  FirstStart first_start = FirstStart::none;
  Fleet fleet;
  Checkpoint checkpoint;
  Repair repair;
  Elastic elastic;
  Maintenance maintenance;
};

/// The keys of a scenario's `campaign` section, but for those of the fleet that `failures` names.
const sim::KeyTable& campaign_keys();
/// Reads the section; `fleet`: what its `failures` stand for, or empty. Throws UserError for what the section alone can
/// tell.
Spec load_spec(const sim::Settings& section, Fleet fleet);

}  // namespace orrery::campaign
