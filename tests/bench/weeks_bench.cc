// How long do weeks take? One campaign of a hundred days on a hundred thousand GPUs, and a queue of twenty thousand
// jobs on a thousand nodes.
#include <benchmark/benchmark.h>

#include <string>

#include "scenarios/scenario.h"
#include "tools/study/campaign_prices.h"
#include "workloads/runs/campaign/random.h"
#include "workloads/runs/campaign/run.h"
#include "workloads/runs/queue/replay.h"

namespace {

using namespace orrery;

void campaign_of_100_days(benchmark::State& state) {
  const std::string file = std::string(ORRERY_SOURCE_DIR) + "/scenarios/gpt-1t-h100-102400.yaml";
  const tools::PricedCampaign priced = tools::price_campaign(
      scenarios::read_scenario(file, {"campaign={window: 100 days, failures: llama3-2024, repair: {spares: 2000}}"}),
      1);
  const campaign::Plan plan = campaign::compile(priced.spec, priced.machine, priced.prices);
  std::uint64_t seed = 0;
  double failures = 0;
  for (auto _ : state) {
    campaign::Outcome outcome = campaign::run(plan, ++seed);
    failures += static_cast<double>(outcome.failures);
    benchmark::DoNotOptimize(outcome.steps);
  }
  state.counters["failures/s"] = benchmark::Counter(failures, benchmark::Counter::kIsRate);
}
BENCHMARK(campaign_of_100_days)->Unit(benchmark::kMillisecond);

void queue_of_20000_jobs(benchmark::State& state, queue::Order order) {
  queue::Layout layout;
  layout.gpus_per_node = 8;
  for (std::int32_t node = 0; node < 1024; ++node) layout.unit_of.push_back(node / 32);
  for (std::int32_t unit = 0; unit < 32; ++unit) layout.pod_of.push_back(unit / 8);
  queue::Trace trace;
  trace.curves = {{1, 1.01, 1.02, 1.05}};
  campaign::Random random(1, 1);
  double now = 0;
  for (int i = 0; i < 20'000; ++i) {
    now += 100 * random.exponential();
    const std::int64_t gpus = std::int64_t{1} << static_cast<int>(9 * random.uniform());
    const auto work = static_cast<std::int64_t>(1 + 8e3 * random.exponential());
    trace.jobs.push_back({static_cast<std::int64_t>(now), gpus, work, 2 * work, 0});
  }
  for (auto _ : state) {
    queue::Outcome outcome = queue::replay(layout, trace, {order, queue::Placement::best_fit}, 1);
    benchmark::DoNotOptimize(outcome.end_ms);
  }
  state.counters["jobs/s"] = benchmark::Counter(20'000, benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK_CAPTURE(queue_of_20000_jobs, fifo, queue::Order::fifo)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(queue_of_20000_jobs, backfill, queue::Order::backfill)->Unit(benchmark::kMillisecond);

}  // namespace
