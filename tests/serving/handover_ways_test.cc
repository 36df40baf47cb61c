// Ways between pools on a cluster, and which of their links may be left out.
#include "workloads/step/handover_ways.h"

#include "scenarios/scenario.h"
#include "scenarios/serving.h"
#include "sim/fair_sharing.h"
#include "sim/hash.h"
#include "tests/catch.h"

namespace orrery::workloads {
namespace {

TEST_CASE("links that all ways cross alike allow what one of them does", "[serving]") {
  const scenarios::ServingScenario s = scenarios::load_serving(scenarios::parse_yaml(
      "name: t\ncluster: {device: h100-sxm-80gb, gpus: 64, fabric: ndr-rail}\nmodel: llama3.1-8b\n"
      "software: vllm-0.15\ntraffic: {concurrency: 64, input: 100, output: 10}\n"
      "serving: {pools: [{role: prefill, replicas: 6, parallelism: {tensor: 2}},\n"
      "                  {role: decode, replicas: 3, parallelism: {tensor: 4}}]}\n",
      "t.yaml"));
  const Site site{s.machine.node, s.machine.fabric, s.machine.gpus, s.machine.gpus_per_node, {}};
  const HandoverWays::Pool from{s.replica.layout, s.replicas}, to{s.answers->replica.layout, s.answers->replicas};
  HandoverWays all(cluster_of(site), from, to), one(cluster_of(site), from, to);
  one.keep_one_of_alike();
  std::size_t links = 0, kept = 0;
  for (std::int64_t a = 0; a < from.replicas; ++a) {
    for (std::int64_t b = 0; b < to.replicas; ++b) {
      links += all.way(a, b).links.size();
      kept += one.way(a, b).links.size();
      CHECK(one.way(a, b).latency == all.way(a, b).latency);
      CHECK(one.rate_alone(a, b) == all.rate_alone(a, b));
    }
  }
  CHECK(kept < links);
  // Whoever is on the way has the same rate, to the last bit, while transfers come and go.
  sim::FairSharing wide(all.capacity()), narrow(one.capacity());
  std::vector<bool> active(40, false);
  for (std::uint64_t step = 0; step < 2000; ++step) {
    const std::uint64_t drawn = sim::mix64(step);
    const auto flow = static_cast<std::uint32_t>(drawn % active.size());
    const auto a = static_cast<std::int64_t>(drawn / 64 % 6), b = static_cast<std::int64_t>(drawn / 4096 % 3);
    if (active[flow]) {
      wide.remove(flow);
      narrow.remove(flow);
    } else {
      wide.add(flow, all.way(a, b).links, 0);
      narrow.add(flow, one.way(a, b).links, 0);
    }
    active[flow] = !active[flow];
    wide.solve();
    narrow.solve();
    for (std::uint32_t f = 0; f < active.size(); ++f)
      if (active[f]) REQUIRE(wide.rate(f) == narrow.rate(f));
  }
}

}  // namespace
}  // namespace orrery::workloads
