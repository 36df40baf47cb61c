// Do time and cost of a run follow from its throughput, and stay zero where the scenario does not say enough?
#include "workloads/step/training_cost.h"

#include "tests/catch.h"
#include "tests/workloads/example.h"

using namespace orrery;

namespace {
/// At a million tokens a second.
workloads::TrainingCost cost_of(const std::vector<std::string>& sets) {
  const workloads::Job job = tests::small_job(sets);
  return workloads::training_cost(job.training, job.machine.gpus, 1e6);
}
}  // namespace

TEST_CASE("a run's time and cost") {
  // 16 GPUs at 2 dollars an hour are 32 dollars an hour; 7.2e9 tokens at a million a second take two hours.
  const auto cost = cost_of({"training.tokens=7.2e9", "cost.price_per_gpu_hour_usd=2"});
  CHECK(cost.time_s == Approx(7200));
  CHECK(cost.usd == Approx(64));
  CHECK(cost.usd_per_million_tokens == Approx(64 / 7200.0));
  const auto unpriced = cost_of({"training.tokens=7.2e9"});
  CHECK(unpriced.time_s == Approx(7200));
  CHECK(unpriced.usd == 0);
  CHECK(unpriced.usd_per_million_tokens == 0);
  const auto endless = cost_of({"cost.price_per_gpu_hour_usd=2"});
  CHECK(endless.time_s == 0);
  CHECK(endless.usd == 0);
  CHECK(endless.usd_per_million_tokens == Approx(64 / 7200.0));
}
