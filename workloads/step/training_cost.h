// What a whole training run takes and costs, from the throughput of one step.
#pragma once

#include "workloads/job/job.h"

namespace orrery::workloads {

/// Zero where the job does not say enough: tokens for the time, a price for dollars, both for the cost of the run.
struct TrainingCost {
  double time_s = 0;                  // tokens / throughput
  double usd = 0;                     // time x GPUs x price
  double usd_per_million_tokens = 0;  // GPUs x price / throughput
};

/// `gpus`: that are paid for. `tokens_per_s`: throughput over the whole run, above zero; evaluation passes included
/// where there are any.
TrainingCost training_cost(const Training& training, std::int64_t gpus, double tokens_per_s);

}  // namespace orrery::workloads
