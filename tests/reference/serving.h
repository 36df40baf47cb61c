// Requests through one replica of an engine that schedules as vLLM does, iteration by iteration and sequence by
// sequence: every iteration walks all that run, adds up what their queries see, and counts their blocks anew. No closed
// sums, no heaps, no phases. Prefix caching is left out.
#pragma once

#include <vector>

#include "workloads/runs/serving/outcome.h"
#include "workloads/runs/serving/scheduler.h"

namespace orrery::reference {

std::vector<serving::Served> serve_by_token(const serving::Trace& trace, const serving::Limits& limits,
                                            serving::StepTimes& times);

}  // namespace orrery::reference
