// Do time and cost of a run follow from its throughput, and stay zero where the scenario does not say enough?
#include "workloads/training_cost.h"

#include "tests/catch.h"
#include "tests/workloads/example.h"

using namespace orrery;

TEST_CASE("a run's time and cost") {
  // 16 GPUs at 2 dollars an hour are 32 dollars an hour; 7.2e9 tokens at a million a second take two hours.
  const auto cost =
      workloads::training_cost(tests::small_job({"training.tokens=7.2e9", "cost.price_per_gpu_hour_usd=2"}), 1e6);
  CHECK(cost.time_s == Approx(7200));
  CHECK(cost.usd == Approx(64));
  CHECK(cost.usd_per_million_tokens == Approx(64 / 7200.0));
  const auto unpriced = workloads::training_cost(tests::small_job({"training.tokens=7.2e9"}), 1e6);
  CHECK(unpriced.time_s == Approx(7200));
  CHECK(unpriced.usd == 0);
  CHECK(unpriced.usd_per_million_tokens == 0);
  const auto endless = workloads::training_cost(tests::small_job({"cost.price_per_gpu_hour_usd=2"}), 1e6);
  CHECK(endless.time_s == 0);
  CHECK(endless.usd == 0);
  CHECK(endless.usd_per_million_tokens == Approx(64 / 7200.0));
}
