// A fleet that changes while it serves: replicas are added and given back as the load asks for, and fail.
//
// The scaler is Kubernetes' (HorizontalPodAutoscaler: kubernetes/pkg/controller/podautoscaler): every so often it reads
// a figure that may be late, asks for ceil(sum over replicas / target) of them unless that is within a tolerance of
// what is there, and gives replicas back only down to the most that it asked for within a window. A replica that is
// asked for holds its GPUs from then on and serves once it has started; one that is given back takes no more requests
// and holds its GPUs until its last is through. One that fails still gets requests until it is noticed; then what had
// come to it is lost, begun again elsewhere, or goes on there with what was written (Dynamo's request migration), and
// it starts anew with an empty cache. Left out: HPA's limits on how many come at once, spares that are warm, failures
// behind the last arrival, what a failed iteration computed in vain. An iteration with prompts in it that a failure
// meets is counted as done.
#pragma once

#include <cstdint>
#include <string_view>

#include "workloads/runs/serving/serve.h"

namespace orrery::serving {

/// As serve(), of an open loop.
Outcome serve_elastic(const Trace& trace, const Fleet& fleet, StepTimes& times);

}  // namespace orrery::serving
