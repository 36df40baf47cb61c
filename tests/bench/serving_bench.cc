// How many requests of 250 tokens a second does one replica's loop go through? Iterations come from a table, as in a
// run.
#include <benchmark/benchmark.h>

#include <string>

#include "scenarios/scenario.h"
#include "scenarios/serving.h"
#include "workloads/runs/serving/serve.h"

namespace {

using namespace orrery;

void requests_of_one_replica(benchmark::State& state) {
  const std::string file = std::string(ORRERY_SOURCE_DIR) + "/scenarios/serving/llama3.1-70b-serving-h100.yaml";
  const scenarios::ServingScenario s = scenarios::load_serving(scenarios::read_scenario(file));
  workloads::IterationTimes times(s.replica, scenarios::kernels_of(s.machine.device, s.replica.engine.kernels));
  serving::Traffic traffic = s.traffic;
  traffic.rate = 4;
  traffic.requests = 100'000;
  traffic.duration = 0;
  traffic.prefix = {};
  traffic.output.mean = 250;
  const serving::Trace trace = serving::trace_of(traffic, 16);
  const serving::Fleet fleet{{1024, 8192, 26'000, 16, true, true, s.batching}, 1, s.router};
  double served = 0;
  for (auto _ : state) {
    const serving::Outcome outcome = serving::serve(trace, fleet, times);
    served += static_cast<double>(outcome.requests.size());
    benchmark::DoNotOptimize(outcome.end);
  }
  state.counters["requests/s"] = benchmark::Counter(served, benchmark::Counter::kIsRate);
}
BENCHMARK(requests_of_one_replica)->Unit(benchmark::kMillisecond);

}  // namespace
