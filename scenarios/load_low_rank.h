// Internal to the loader: a dense transformer whose linear layers are two narrower ones each. Throws UserError.
#pragma once

#include "sim/settings.h"
#include "workloads/job/job.h"

namespace orrery::scenarios {

/// `section`: the model, whose layers are loaded; does nothing without model.low_rank.
void load_low_rank(const sim::Settings& section, workloads::Job& job);

}  // namespace orrery::scenarios
