// How fast tables of flows are read and shared, by pattern: what `orrery flows` does, without its process. The counter
// `solves` says how often links were shared anew, `flows_per_second` counts whole flows.
#include <benchmark/benchmark.h>

#include <string>

#include "tests/reference/flow_patterns.h"
#include "tools/flow_table.h"

namespace {

using namespace orrery;

const std::string kName = "generated";
const sim::Bandwidth kCapacity{25e9};

std::string table_of(const benchmark::State& state) {
  const auto hosts = static_cast<std::uint32_t>(state.range(1));
  return reference::flow_table(reference::kFlowPatterns[state.range(0)], hosts, reference::leaf_size(hosts), 1);
}

void flows_sharing(benchmark::State& state) {
  const std::string text = table_of(state);
  const tools::FlowTable table = tools::read_flow_table(kName, text, kCapacity);
  std::uint64_t solves = 0;
  for (auto _ : state) solves = tools::share(table).solves;
  state.SetLabel(std::string(reference::kFlowPatterns[state.range(0)]));
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(table.id.size()));
  state.counters["solves"] = static_cast<double>(solves);
}

void flows_reading(benchmark::State& state) {
  const std::string text = table_of(state);
  for (auto _ : state) benchmark::DoNotOptimize(tools::read_flow_table(kName, text, kCapacity));
  state.SetLabel(std::string(reference::kFlowPatterns[state.range(0)]));
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(text.size()));
}

constexpr int kRing = 0, kPerm = 1, kOne = 2, kGroups = 3, kWave = 4;

void patterns(benchmark::internal::Benchmark* b) {
  b->Unit(benchmark::kMillisecond);
  for (const int pattern : {kRing, kPerm, kOne, kGroups}) b->Args({pattern, 12288});
}
BENCHMARK(flows_reading)->Apply(patterns);
BENCHMARK(flows_sharing)->Apply(patterns)->Args({kWave, 1024})->Args({kWave, 4096});

}  // namespace
