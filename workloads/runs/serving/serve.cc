// Dealing out.
#include "workloads/runs/serving/serve.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "sim/error.h"
#include "workloads/runs/serving/elastic.h"
#include "workloads/runs/serving/replica.h"
#include "workloads/runs/serving/routing.h"

namespace orrery::serving {

std::string_view name_of(Router router) {
  static constexpr std::array<std::string_view, 3> kNames{"round_robin", "least_loaded", "prefix_aware"};
  return kNames[static_cast<std::size_t>(router)];
}

Segment SlowTimes::decode(std::int64_t sequences, std::int64_t keys) {
  Segment segment = times_.decode(sequences, keys);
  segment.at_from = std::llround(factor_ * static_cast<double>(segment.at_from));
  segment.per_key = std::llround(factor_ * static_cast<double>(segment.per_key));
  return segment;
}

Time SlowTimes::mixed(const Mixed& batch) { return std::llround(factor_ * static_cast<double>(times_.mixed(batch))); }

void add_tiers(std::vector<TierUse>& sums, const std::vector<TierUse>& replica) {
  sums.resize(std::max(sums.size(), replica.size()));
  for (std::size_t i = 0; i < replica.size(); ++i) {
    sums[i].written += replica[i].written;
    sums[i].read += replica[i].read;
    sums[i].evicted += replica[i].evicted;
    sums[i].left += replica[i].left;
    sums[i].reading += replica[i].reading;
  }
}

namespace {

using Replicas = std::vector<std::unique_ptr<Replica>>;

void run_closed(const Trace& trace, Replicas& replicas, std::vector<ClosedLoop>& loops) {
  const auto count = static_cast<std::int32_t>(trace.requests.size());
  const auto parts = static_cast<std::int32_t>(replicas.size());
  for (std::int32_t i = 0; i < parts; ++i) {
    const std::int32_t from = static_cast<std::int32_t>(static_cast<std::int64_t>(count) * i / parts);
    const std::int32_t until = static_cast<std::int32_t>(static_cast<std::int64_t>(count) * (i + 1) / parts);
    const std::int64_t share = trace.concurrency * (i + 1) / parts - trace.concurrency * i / parts;
    const auto first = static_cast<std::int32_t>(std::min<std::int64_t>(until, from + share));
    loops[static_cast<std::size_t>(i)] = {first, until};
    for (std::int32_t request = from; request < first; ++request)
      replicas[static_cast<std::size_t>(i)]->add(request, 0);
    replicas[static_cast<std::size_t>(i)]->run(kNever);
  }
}

}  // namespace

Outcome serve(const Trace& trace, const Fleet& fleet, StepTimes& times) {
  SIM_CHECK(fleet.limits.batching != nullptr, "a fleet without a policy");
  if (fleet.autoscale || fleet.failures) return serve_elastic(trace, fleet, times);
  Outcome outcome;
  outcome.requests.resize(trace.requests.size());
  outcome.samples.resize(static_cast<std::size_t>(fleet.replicas));
  std::vector<ClosedLoop> loops(static_cast<std::size_t>(fleet.replicas));
  const bool closed = trace.concurrency > 0;
  std::vector<Sequence> sequences(trace.requests.size());
  SlowTimes slow(times, fleet.slow_factor);
  Replicas replicas;
  for (std::int64_t i = 0; i < fleet.replicas; ++i)
    replicas.push_back(std::make_unique<Replica>(trace, fleet.limits, i < fleet.slow ? slow : times, sequences, outcome,
                                                 static_cast<std::int32_t>(i),
                                                 closed ? &loops[static_cast<std::size_t>(i)] : nullptr));
  if (closed) {
    run_closed(trace, replicas, loops);
  } else {
    Looks looks;
    Turns turns;
    const auto at = [&](std::int64_t number) -> Replica& { return *replicas[static_cast<std::size_t>(number)]; };
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(trace.requests.size()); ++i) {
      const Request& request = trace.requests[static_cast<std::size_t>(i)];
      const auto then = [&](std::int64_t number) -> Replica& {
        at(number).run(request.arrival);
        return at(number);
      };
      at(routed(fleet, fleet.replicas, trace, request, turns, request.arrival, looks, then)).add(i, request.arrival);
    }
    for (auto& replica : replicas) replica->run(kNever);
  }
  for (const auto& replica : replicas) {
    outcome.prompt_tokens += replica->scheduler().prompt_tokens();
    outcome.found_tokens += replica->scheduler().found_tokens();
    add_tiers(outcome.tiers, replica->tiers());
  }
  return outcome;
}

}  // namespace orrery::serving
