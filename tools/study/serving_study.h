// A served scenario, run: latencies of its requests, what its GPUs did, what a token took of energy and money.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/serving.h"
#include "workloads/runs/serving/apart.h"
#include "workloads/step/iteration_times.h"
#include "workloads/step/serving_memory.h"

namespace orrery::tools {

class ServedTables;

/// Of one latency over requests, in seconds.
struct Latency {
  double mean = 0, deviation = 0, p50 = 0, p90 = 0, p95 = 0, p99 = 0;
};

/// Of requests of one priority.
struct PriorityStudy {
  std::int32_t priority = 0;
  std::int64_t completed = 0, turned_away = 0;
  double good = 0;  // within what was promised
  Latency ttft, tpot;
};

/// Of a pool of replicas.
struct PoolStudy {
  scenarios::ServedPool pool;
  workloads::ServingMemory memory;
  std::int64_t blocks = 0;   // of a replica: of all its attention groups
  workloads::UseOfTime use;  // of its GPUs' time, shares; `idle` beside it
  double idle = 0, iterations = 0;
  double gpu_s = 0;  // for which its GPUs are held
};

struct ServingStudy {
  scenarios::ServingScenario scenario;
  std::vector<PoolStudy> pools;     // prompts and answers apart: of prompts, of answers
  workloads::ServingMemory memory;  // of the last
  std::int64_t blocks = 0;          // of a replica of it: of all its attention groups
  serving::Trace trace;
  serving::Outcome outcome;  // apart: requests as users see them, and what the second pool did
  std::optional<serving::ApartOutcome> apart;
  std::string kernels;  // what their times rest on

  std::int64_t completed = 0, refused = 0, turned_away = 0;  // turned_away: beside those refused
  double duration_s = 0;                                     // from the first counted arrival to the last counted end
  double input_tokens = 0, output_tokens = 0, good = 0;      // good: requests within what was promised
  Latency ttft, tpot, itl, e2el;
  std::vector<PriorityStudy> priorities;                            // the most urgent first, where there are several
  double queue_s = 0, prefill_s = 0, transfer_s = 0, decode_s = 0;  // of a request in the mean
  bool saturated = false;
  workloads::UseOfTime use;  // of all GPUs' time, shares; `idle` beside it
  double idle = 0;
  double joules = 0;  // of all nodes; 0: unknown
  double iterations = 0;
  double gpu_s = 0;       // for which GPUs are held
  std::int64_t lost = 0;  // with replicas that failed
  double fleet_s = 0;     // from the trace's beginning to the last end
  /// What an hour of the run took.
  struct Hour {
    double requests = 0, output_tokens = 0, gpu_s = 0, joules = 0;  // requests: that came
  };
  std::vector<Hour> hours;
  double tier_content_bytes = 0;  // of a content of the first pool's tiers

  /// Whether replicas come and go.
  bool changes() const { return scenario.scales() || scenario.fails(); }
  double mean_gpus() const { return changes() && fleet_s > 0 ? gpu_s / fleet_s : static_cast<double>(gpus()); }
  std::int64_t gpus() const { return scenario.all_gpus(); }
  /// Whether a request was served as was promised.
  bool within_promise(std::size_t request) const;
  /// What replicas of a pool did.
  const serving::Outcome& outcome_of(std::size_t pool) const {
    return apart && pool == 0 ? apart->prefill : apart ? apart->decode : outcome;
  }
  double usd() const {
    const double held = scenario.scales() ? gpu_s : duration_s * static_cast<double>(gpus());
    return held / 3600 * scenario.price_per_gpu_hour_usd;
  }
  /// Of all nodes and their site, by its grid; 0: unknown.
  double carbon_g(double of_joules) const { return of_joules / 3.6e6 * scenario.power.carbon_g_per_kwh; }
};

/// The room that weights leave for a cache in each pool, without a run. Throws sim::UserError where there is none.
std::vector<PoolStudy> served_pools(const scenarios::ServingScenario& scenario);
/// The requests that come. Throws sim::UserError where a trace cannot be read.
serving::Trace traffic_of(const scenarios::ServingScenario& scenario);
/// Throws sim::UserError where weights do not fit or a trace cannot be read. `tables`: of studies that share them.
ServingStudy study_serving(const scenarios::ServingScenario& scenario, ServedTables* tables = nullptr);
/// Of several on GPUs of their own of one cluster, whose caches cross one network.
std::vector<ServingStudy> study_serving(const std::vector<scenarios::ServingScenario>& scenarios);

/// The complaint of a pool whose replicas hold no block of a cache: `key` names the pools of the scenario `id`, and the
/// fewest tensor ranks that have room are named where some have.
std::string no_room_for_cache(const std::string& id, const char* key, const scenarios::ServingScenario& scenario,
                              const scenarios::ServedPool& pool, const workloads::ServingMemory& memory);

}  // namespace orrery::tools
