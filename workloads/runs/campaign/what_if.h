// What to change first: one thing at a time made better, everything else as it is.
#pragma once

#include <string>
#include <vector>

#include "workloads/runs/campaign/plan.h"

namespace orrery::campaign {

struct WhatIf {
  std::string what;  // "detection in half the time"
  Spec spec;
};

/// The changes that could matter to a campaign: those of parts that it spends no time on are left out.
std::vector<WhatIf> what_ifs(const Spec& spec, const Machine& machine, const Plan& plan);

}  // namespace orrery::campaign
