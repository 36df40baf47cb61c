// The slowest of N: closed forms against draws.
#include "workloads/groups/slowest.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/catch.h"
#include "tests/workloads/example.h"
#include "workloads/step/step.h"

namespace orrery::workloads {
namespace {

/// (x_g - 1) / spread of GPUs that a seed draws.
double deviation(std::uint64_t seed, std::int64_t gpu) { return (drawn_slowdown(0.01, seed, gpu) - 1) / 0.01; }

}  // namespace

TEST_CASE("Draws have the mean and deviation that they were asked for") {
  const std::int64_t n = 100'000;
  double sum = 0, squares = 0;
  for (std::int64_t gpu = 0; gpu < n; ++gpu) {
    const double z = deviation(1, gpu);
    sum += z;
    squares += z * z;
  }
  // The standard errors of mean and variance are 0.0032 and 0.0045: four of each.
  CHECK(std::abs(sum / static_cast<double>(n)) < 0.013);
  CHECK(std::abs(squares / static_cast<double>(n) - 1) < 0.018);
  CHECK(drawn_slowdown(0.01, 1, 7) == drawn_slowdown(0.01, 1, 7));
  CHECK(drawn_slowdown(0.01, 1, 7) != drawn_slowdown(0.01, 2, 7));
}

TEST_CASE("The expected largest of n agrees with known values and with draws") {
  CHECK(expected_largest(1) == 0);
  CHECK(std::abs(expected_largest(2) - 1 / std::sqrt(std::acos(-1.0))) < 0.03);  // 1/sqrt(pi), exactly
  for (const std::int64_t n : {8, 64, 1024}) {
    const int draws = 400;
    double sum = 0;
    for (int d = 0; d < draws; ++d) {
      double largest = -10;
      for (std::int64_t gpu = 0; gpu < n; ++gpu)
        largest = std::max(largest, deviation(static_cast<std::uint64_t>(d) + 100, gpu));
      sum += largest;
    }
    INFO(n);
    CHECK(std::abs(sum / draws - expected_largest(n)) <
          0.03 + 4 * 0.6 / std::sqrt(draws));  // deviation <= 0.6 from 8 on
  }
}

TEST_CASE("A step's expected slow-down is that of drawn fleets: stage, pipeline, replicas") {
  const Waiting w{.layer_ranks = 8, .stages = 4, .replicas = 16, .microbatches = 12, .chunks = 2};
  const double spread = 0.01;
  const int fleets = 300;
  double sum = 0;
  for (int f = 0; f < fleets; ++f) {
    double slowest = 0;
    std::int64_t gpu = 0;
    for (std::int64_t r = 0; r < w.replicas; ++r) {
      double of_stages = 0, highest = 0;
      for (std::int64_t s = 0; s < w.stages; ++s) {
        double stage = 0;
        for (std::int64_t t = 0; t < w.layer_ranks; ++t)
          stage = std::max(stage, drawn_slowdown(spread, static_cast<std::uint64_t>(f), gpu++));
        of_stages += stage;
        highest = std::max(highest, stage);
      }
      // Micro-batches at the pace of the slowest stage; one passes through the others, a chunk of each.
      const double ramp = (of_stages - highest) / static_cast<double>(w.chunks);
      slowest = std::max(slowest, static_cast<double>(w.microbatches) * highest + ramp);
    }
    sum += slowest / (static_cast<double>(w.microbatches) + static_cast<double>(w.stages - 1) / 2);
  }
  const double drawn = sum / fleets - 1, expected = expected_slowdown(spread, w) - 1;
  INFO(drawn << " against " << expected);
  CHECK(std::abs(drawn / expected - 1) < 0.05);
  CHECK(expected_slowdown(0, w) == 1);
}

TEST_CASE("A folded run's expectation is the mean of full runs with drawn GPUs") {
  const auto step = [](const std::vector<std::string>& sets) {
    return sim::to_seconds(simulate_step(tests::small_job(sets), {}).iteration);
  };
  const std::string fleet = "cluster.fabric={inherits: ndr-rail, gpu_spread: 0.02}";
  const double even = step({"cluster.fabric={inherits: ndr-rail, gpu_spread: 0}"}), expected = step({fleet});
  double sum = 0;
  const int seeds = 24;
  for (int seed = 0; seed < seeds; ++seed) sum += step({fleet, fmt::format("perturb.gpu_spread={{seed: {}}}", seed)});
  const double drawn = sum / seeds;
  INFO(even << " " << expected << " " << drawn);
  CHECK(expected > even * 1.01);
  CHECK(drawn > even);
  CHECK(std::abs(drawn - expected) < 0.25 * (expected - even));
}

TEST_CASE("A step that stands for a longer one keeps the longer one's pace") {
  const Job job =
      tests::small_job({"cluster.fabric={inherits: ndr-rail, gpu_spread: 0.05}", "batch.global=512", "batch.micro=1"});
  REQUIRE(job.microbatches() > 60);  // so that a run that is asked for its time alone leaves out what repeats
  Question brief, full;
  brief.parts = Question::Parts::times;
  full.ranks = Question::Ranks::every;
  CHECK(simulate_step(job, brief).iteration == simulate_step(job, full).iteration);
}

}  // namespace orrery::workloads
