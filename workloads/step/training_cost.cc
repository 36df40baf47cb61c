// Time and cost of a run: every step as long as the simulated one, every GPU paid for all the time. Left out: failures,
// restarts and checkpoints (a goodput below 1), storage, people, and power beyond what the price holds.
#include "workloads/step/training_cost.h"

#include "sim/error.h"

namespace orrery::workloads {

TrainingCost training_cost(const Training& training, std::int64_t gpus, double tokens_per_s) {
  SIM_CHECK(tokens_per_s > 0, "a throughput of {} tokens/s", tokens_per_s);
  constexpr double kSecondsPerHour = 3600;
  const double usd_per_s = static_cast<double>(gpus) * training.price_per_gpu_hour_usd / kSecondsPerHour;
  TrainingCost cost;
  cost.time_s = training.tokens / tokens_per_s;
  cost.usd = cost.time_s * usd_per_s;
  cost.usd_per_million_tokens = 1e6 / tokens_per_s * usd_per_s;
  return cost;
}

}  // namespace orrery::workloads
