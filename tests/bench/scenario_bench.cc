// How long does one prediction take, from file to report? Folded as users run it, full with one simulated rank per GPU.
#include <benchmark/benchmark.h>

#include <string>

#include "scenarios/scenario.h"
#include "scenarios/yaml.h"
#include "sim/text_file.h"
#include "workloads/job/step_plan.h"
#include "workloads/step/step.h"
#include "workloads/step/step_cache.h"

namespace {

using namespace orrery;

std::string shipped(const char* name) { return std::string(ORRERY_SOURCE_DIR) + "/scenarios/" + name + ".yaml"; }

// What DoNotOptimize is given is not const: newer versions of the library want what they may say was changed.
void load(benchmark::State& state, const char* name) {
  for (auto _ : state) {
    scenarios::Scenario scenario = scenarios::load_scenario(scenarios::read_scenario(shipped(name)));
    benchmark::DoNotOptimize(scenario.job.machine.gpus);
  }
}

void simulate(benchmark::State& state, const char* name, bool full) {
  const scenarios::Scenario scenario = scenarios::load_scenario(scenarios::read_scenario(shipped(name)));
  workloads::Question options;
  if (full) options.ranks = workloads::Question::Ranks::every;
  double events = 0;
  for (auto _ : state) {
    workloads::StepReport report = workloads::simulate_step(scenario.job, options);
    events += static_cast<double>(report.effort.events);
    benchmark::DoNotOptimize(report.iteration);
  }
  state.counters["events/s"] = benchmark::Counter(events, benchmark::Counter::kIsRate);
}

/// The largest document of a start-up, with the reader of plain YAML or the parser of the whole language.
void read_device(benchmark::State& state, bool plain) {
  const std::string file = std::string(ORRERY_SOURCE_DIR) + "/calibration/profiles/h100-sxm-80gb.yaml";
  const std::string text = sim::read_text(file, "a YAML file");
  for (auto _ : state) {
    sim::Settings document =
        plain ? *scenarios::parse_plain_yaml(text, "profile") : scenarios::parse_whole_yaml(text, "profile");
    benchmark::DoNotOptimize(document.is_mapping());
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * static_cast<std::int64_t>(text.size()));
}

/// What a search pays for a layout whose like it has not simulated, on a cluster whose groups it has made already.
void time_layout(benchmark::State& state, const char* name) {
  const scenarios::Scenario scenario = scenarios::load_scenario(scenarios::read_scenario(shipped(name)));
  workloads::StepCache cache(1, 0);
  workloads::Question options;
  options.parts = workloads::Question::Parts::times;
  options.cache = &cache;
  for (auto _ : state) benchmark::DoNotOptimize(workloads::simulate_step(scenario.job, options));
  state.SetItemsProcessed(state.iterations());
}

void groups(benchmark::State& state, const char* name) {
  const scenarios::Scenario scenario = scenarios::load_scenario(scenarios::read_scenario(shipped(name)));
  const workloads::Job& job = scenario.job;
  const topology::Cluster cluster = workloads::cluster_of(workloads::site_of(job));
  const workloads::GroupInputs inputs = workloads::group_inputs_of(job);
  for (auto _ : state) benchmark::DoNotOptimize(workloads::make_groups(inputs, cluster, true));
}

BENCHMARK_CAPTURE(read_device, plain, true)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(read_device, whole, false)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(load, eos, "eos-gpt3-175b")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(load, megascale, "megascale-gpt3-175b")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(groups, eos, "eos-gpt3-175b")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(groups, megascale, "megascale-gpt3-175b")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(time_layout, eos, "eos-gpt3-175b")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(time_layout, megascale, "megascale-gpt3-175b")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(simulate, eos_folded, "eos-gpt3-175b", false)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(simulate, megascale_folded, "megascale-gpt3-175b", false)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(simulate, eos_full, "eos-gpt3-175b", true)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(simulate, megascale_full, "megascale-gpt3-175b", true)->Unit(benchmark::kMillisecond);

}  // namespace
