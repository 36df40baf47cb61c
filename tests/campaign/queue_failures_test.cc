// Jobs of a queue that fail: is every GPU's time still in one class, does a job take as long as the closed form says,
// and who fails with a node?
#include <cmath>

#include "sim/error.h"
#include "tests/catch.h"
#include "workloads/runs/campaign/random.h"
#include "workloads/runs/queue/replay.h"

using namespace orrery;
using namespace orrery::queue;

namespace {

Layout layout_of(std::int32_t nodes, std::int32_t gpus_per_node) {
  Layout layout;
  layout.gpus_per_node = gpus_per_node;
  for (std::int32_t n = 0; n < nodes; ++n) layout.unit_of.push_back(n / 4);
  for (std::int32_t u = 0; u <= (nodes - 1) / 4; ++u) layout.pod_of.push_back(0);
  return layout;
}

__int128 gpu_ms(const Outcome& outcome, Use use) { return outcome.gpu_ms[static_cast<std::size_t>(use)]; }

}  // namespace

TEST_CASE("with failures every GPU's every millisecond is in one class, and all work is done once") {
  std::int64_t failures = 0;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    campaign::Random random(seed, 3);
    Trace trace;
    trace.curves = {{1, 1, 1, 1}, {1, 1.1, 1.3, 1.7}};
    std::int64_t now = 0;
    __int128 work = 0;
    for (int i = 0; i < 200; ++i) {
      now += static_cast<std::int64_t>(random.exponential() * 400);
      const auto gpus = std::max<std::int64_t>(1, static_cast<std::int64_t>(std::pow(random.uniform(), 2) * 64));
      const auto takes = static_cast<std::int64_t>(random.exponential() * 3000);
      trace.jobs.push_back({now, gpus, takes, takes + 100, i % 2 == 0 ? 0u : 1u});
      work += static_cast<__int128>(gpus) * takes;
    }
    trace.failures = {2e-6, 1e-5, 0.5, 700, 90, seed % 2 == 0 ? 0 : 400};
    const Layout layout = layout_of(16, 8);
    for (const Order order : {Order::fifo, Order::shortest, Order::backfill}) {
      const Outcome outcome = replay(layout, trace, {order, Placement::best_fit}, seed);
      __int128 sum = 0;
      for (const __int128 use : outcome.gpu_ms) {
        REQUIRE(use >= 0);
        sum += use;
      }
      CHECK(sum == static_cast<__int128>(layout.gpus()) * (outcome.end_ms - outcome.begin_ms));
      CHECK(gpu_ms(outcome, Use::work) == work);
      CHECK(gpu_ms(outcome, Use::repair) > 0);
      CHECK(gpu_ms(outcome, Use::lost) > 0);
      for (std::size_t j = 0; j < trace.jobs.size(); ++j) {
        failures += outcome.jobs[j].failures;
        CHECK(outcome.jobs[j].start_ms >= trace.jobs[j].submit_ms);
        CHECK(outcome.jobs[j].running_ms >= trace.jobs[j].work_ms);
        CHECK(outcome.jobs[j].end_ms - outcome.jobs[j].start_ms >= outcome.jobs[j].running_ms);
      }
    }
  }
  CHECK(failures > 100);
}

TEST_CASE("rates of nothing change nothing") {
  Trace trace;
  trace.curves = {{1, 1, 1, 1}};
  for (int i = 0; i < 50; ++i) trace.jobs.push_back({i * 100, 1 + i % 20, 1000 + 37 * i, 1500, 0});
  Trace same = trace;
  same.failures = {0, 0, 1, 1000, 1000, 10};
  const Layout layout = layout_of(8, 4);
  const Outcome a = replay(layout, trace, {}, 1), b = replay(layout, same, {}, 1);
  CHECK(a.gpu_ms == b.gpu_ms);
  CHECK(gpu_ms(a, Use::restart) == 0);
  for (std::size_t j = 0; j < trace.jobs.size(); ++j) CHECK(a.jobs[j].end_ms == b.jobs[j].end_ms);
}

// A segment of work between two checkpoints that fails at rate L and comes up in R takes e^(L R) (e^(L T) - 1) / L in
// the mean (Daly, A higher order estimate of the optimum checkpoint interval, FGCS 2006, equation 12 without what a
// checkpoint takes); segments follow each other.
TEST_CASE("a job alone takes what the closed form says in the mean") {
  const Layout layout = layout_of(4, 8);
  for (const double rate : {2e-7, 1e-6}) {
    for (const std::int64_t every : {5'000, 20'000}) {
      Trace trace;
      trace.curves = {{1, 1, 1, 1}};
      trace.jobs = {{0, 16, 200'000, 200'000, 0}};
      trace.failures = {rate, 0, 0, 0, 3'000, every};
      const double per_ms = 16 * rate, segments = 200'000.0 / static_cast<double>(every);
      const double expected =
          segments * std::exp(per_ms * 3'000) * std::expm1(per_ms * static_cast<double>(every)) / per_ms;
      double sum = 0, squares = 0;
      constexpr int kSeeds = 2000;
      for (int seed = 1; seed <= kSeeds; ++seed) {
        const double took =
            static_cast<double>(replay(layout, trace, {}, static_cast<std::uint64_t>(seed)).jobs[0].running_ms);
        sum += took;
        squares += took * took;
      }
      const double mean = sum / kSeeds, error = std::sqrt((squares / kSeeds - mean * mean) / kSeeds);
      INFO("rate " << rate << ", every " << every << ": " << mean << " +- " << error << " for " << expected);
      CHECK(std::abs(mean - expected) < 4 * error + 1);
    }
  }
}

TEST_CASE("a node that fails takes all its jobs with it and is away until it is mended") {
  // One node; two jobs share it. Whoever fails, both start again when the node is back.
  const Layout layout = layout_of(1, 8);
  Trace trace;
  trace.curves = {{1, 1, 1, 1}};
  trace.jobs = {{0, 4, 50'000, 50'000, 0}, {0, 4, 50'000, 50'000, 0}};
  trace.failures = {2e-6, 0, 1, 10'000, 0, 1'000};
  std::int64_t failures = 0;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    const Outcome outcome = replay(layout, trace, {}, seed);
    CHECK(outcome.jobs[0].failures == outcome.jobs[1].failures);
    CHECK(outcome.jobs[0].end_ms == outcome.jobs[1].end_ms);
    CHECK(gpu_ms(outcome, Use::repair) == static_cast<__int128>(8 * 10'000) * outcome.jobs[0].failures);
    CHECK(outcome.jobs[0].end_ms == outcome.jobs[0].running_ms + 10'000 * outcome.jobs[0].failures);
    failures += outcome.jobs[0].failures;
  }
  CHECK(failures > 20);
}

TEST_CASE("a queue whose jobs cannot end says so") {
  Trace trace;
  trace.curves = {{1, 1, 1, 1}};
  trace.jobs = {{0, 8, 1'000'000, 1'000'000, 0}};
  trace.failures = {1e-2, 0, 0, 0, 1'000, 0};
  CHECK_THROWS_AS(replay(layout_of(1, 8), trace, {}, 1), sim::UserError);
}
