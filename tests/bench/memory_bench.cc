// How long does a look at memory take? A search asks it of every layout before it plans anything.
#include <benchmark/benchmark.h>

#include <string>

#include "scenarios/scenario.h"
#include "workloads/memory/memory.h"

namespace {

using namespace orrery;

void memory(benchmark::State& state, const char* name) {
  const std::string file = std::string(ORRERY_SOURCE_DIR) + "/scenarios/" + name + ".yaml";
  const workloads::Job job = scenarios::load_scenario(scenarios::read_scenario(file)).job;
  for (auto _ : state)
    benchmark::DoNotOptimize(workloads::peak_memory(workloads::stage_memory(job, workloads::split_layers(job))));
}

BENCHMARK_CAPTURE(memory, eos, "eos-gpt3-175b")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(memory, megascale, "megascale-gpt3-175b")->Unit(benchmark::kMicrosecond);

}  // namespace
