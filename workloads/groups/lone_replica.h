// One replica's pipeline by itself: the ranks of one place along the data dimension, a rank per stage, that meet nobody
// else and find every link free. No rank of the job is done before its like here.
//
// The argument. Times of a plan are longest paths: an operation begins when the last of what it waits for has ended. Of
// a path's parts, some are left out here (waiting for other replicas, for the other ranks of a tensor group, for the
// turn of a tensor collective behind those of another pass), and none takes longer: a transfer alone on its route moves
// at the highest rate that sharing can give it. So every time is at most what it is in the job. This holds for times
// that count from the step's beginning, of operations that take what they take whenever they run; stages that step
// their optimizers apart, noise and routing that draws loads are not of that kind.
#pragma once

#include <memory>

#include "workloads/groups/groups.h"

namespace orrery::workloads {

/// From groups that are folded; which replica is as good as any other.
std::shared_ptr<const Groups> lone_replica(const Groups& groups);

}  // namespace orrery::workloads
