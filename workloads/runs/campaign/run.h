// Runs a campaign once, for one seed.
#pragma once

#include <cstdint>
#include <vector>

#include "workloads/runs/campaign/plan.h"
#include "workloads/runs/campaign/progress.h"

namespace orrery::campaign {

/// What one cause did.
struct Tally {
  std::int64_t count = 0;
  Elapsed lost{};  // work thrown away
  Elapsed down{};  // from the failure to the next step, or to the next failure
};

/// A stop of the job.
struct Stop {
  static constexpr std::size_t kPlanned = static_cast<std::size_t>(-1);
  Elapsed at{}, until{}, lost{};
  std::size_t cause = kPlanned;  // of the plan's hazards
};

struct Outcome {
  Shares shares{};  // sums to `wall`
  Elapsed wall{};
  std::int64_t steps = 0;  // that count
  bool finished = false;   // all steps were done before the limit
  std::int64_t failures = 0, planned_stops = 0, degradations = 0;
  std::vector<Tally> causes;  // as the plan's hazards
  std::vector<Stop> stops;    // where asked for
};

/// `record`: keep the stops. The same plan and seed give the same outcome. After a million strikes it gives up, as at
/// the limit.
Outcome run(const Plan& plan, std::uint64_t seed, bool record = false);

}  // namespace orrery::campaign
