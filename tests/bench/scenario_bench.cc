// How long does one prediction take, from file to report? Folded as users run it, full with one simulated rank per GPU.
#include <benchmark/benchmark.h>

#include <string>

#include "scenarios/scenario.h"
#include "workloads/step.h"

namespace {

using namespace orrery;

std::string shipped(const char* name) { return std::string(ORRERY_SOURCE_DIR) + "/scenarios/" + name + ".yaml"; }

void load(benchmark::State& state, const char* name) {
  for (auto _ : state) {
    const scenarios::Scenario scenario = scenarios::load_scenario(scenarios::read_scenario(shipped(name)));
    benchmark::DoNotOptimize(scenario.job.gpus);
  }
}

void simulate(benchmark::State& state, const char* name, bool full) {
  const scenarios::Scenario scenario = scenarios::load_scenario(scenarios::read_scenario(shipped(name)));
  workloads::StepOptions options;
  options.full = full;
  double events = 0;
  for (auto _ : state) {
    const workloads::StepReport report = workloads::simulate_step(scenario.job, options);
    events += static_cast<double>(report.events);
    benchmark::DoNotOptimize(report.iteration);
  }
  state.counters["events/s"] = benchmark::Counter(events, benchmark::Counter::kIsRate);
}

BENCHMARK_CAPTURE(load, eos, "eos-gpt3-175b")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(load, megascale, "megascale-gpt3-175b")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(simulate, eos_folded, "eos-gpt3-175b", false)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(simulate, megascale_folded, "megascale-gpt3-175b", false)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(simulate, eos_full, "eos-gpt3-175b", true)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(simulate, megascale_full, "megascale-gpt3-175b", true)->Unit(benchmark::kMillisecond);

}  // namespace
