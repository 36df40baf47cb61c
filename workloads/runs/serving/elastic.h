// A fleet that changes while it serves (pool.h), of replicas that compute prompts and write answers. What had come to
// one that fails is lost, begun again elsewhere, or goes on there with what was written (Dynamo's request migration).
//
// In a closed loop every user has a replica, as many each, to which its requests go one after the other: as long as
// nothing changes that is serve(). Where replicas come or go, as few users as possible move, with their next request.
#pragma once

#include "workloads/runs/serving/serve.h"

namespace orrery::serving {

/// As serve().
Outcome serve_elastic(const Trace& trace, const Fleet& fleet, StepTimes& times);

}  // namespace orrery::serving
