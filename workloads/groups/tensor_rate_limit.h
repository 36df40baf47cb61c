// How fast a tensor group's collectives may run before anything else could disturb them: what passes as one operation
// rest on.
#pragma once

#include <vector>

#include "workloads/groups/groups.h"

namespace orrery::workloads {

/// Bytes/s up to which every tensor collective of the plan runs at its own rate whatever other communicators do; 0
/// where a group spans nodes or shares a link with another. `slots_of_stage`: by program, what its ranks have
/// communicators for. `in_step`: 0 too where a communicator has several members, which may be out of step.
double tensor_rate_limit(const sim::Plan& plan, const sim::Network& network,
                         const std::vector<std::vector<GroupSlot>>& slots_of_stage, bool in_step);

}  // namespace orrery::workloads
