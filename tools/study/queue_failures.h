// What fails in a queue, from a scenario's campaign section.
#pragma once

#include <string>

#include "scenarios/scenario.h"
#include "workloads/runs/queue/replay.h"

namespace orrery::tools {

struct QueueFailures {
  queue::Failures rates;
  std::string note;  // in a sentence
};

/// Causes that end a job, each at its rate for a GPU or for a job; the mean of their repairs; what a start after them
/// takes, detection and diagnosis counted; the interval of the first tier of checkpoints. Causes that slow down are
/// left out, and Weibull's count at the rate of the components' age. `document`: a scenario with campaign.failures.
/// Throws UserError.
QueueFailures queue_failures(const scenarios::Scenario& scenario, const sim::Settings& document);

}  // namespace orrery::tools
