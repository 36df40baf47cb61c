// The sections `serving` and `traffic` of a scenario, read and checked with the cluster, model and engine that they run
// on.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/settings.h"
#include "workloads/job/job.h"
#include "workloads/runs/serving/apart.h"
#include "workloads/runs/serving/traffic.h"
#include "workloads/step/serving_memory.h"

namespace orrery::scenarios {

/// What users were promised; 0: not given.
struct Slo {
  double ttft_s = 0, tpot_s = 0, percentile = 99;
  double window_s = 300;  // of the busiest stretch, where it is looked at by itself
  bool any() const { return ttft_s > 0 || tpot_s > 0; }
};

/// One iteration to look at: a batch that decodes, or prompts.
struct ServedWorkload {
  bool decodes = true;
  std::int64_t sequences = 1, tokens = 1, cached = 0;  // of each its fresh tokens, and those in the cache
};

/// Replicas that are alike, and what their engine may hold.
struct ServedPool {
  std::string pool = "all";  // its name
  std::int64_t replicas = 1;
  workloads::ServedReplica replica;
  workloads::ServingLimits limits;
  bool chunked_prefill = true, prefix_caching = true;
  bool captures_graphs = true;  // those of its engine; else the host launches every kernel
  const serving::Batching* batching = nullptr;
  /// Prompts that wait for more of them while others decode: iterations at most, a share of the tokens of an iteration,
  /// prompts. And iterations between two looks at what has come.
  struct Gather {
    std::int64_t iterations = 0, prompts = 0;
    double fill = 0;
  } gather;
  std::int64_t polls_every = 1;
  serving::Order order = serving::Order::arrival;
  std::int64_t max_waiting = 0;       // beyond which requests are turned away; 0: none is
  std::int64_t max_cache_tokens = 0;  // of an attention group, whatever memory would hold; 0: what it holds
  std::int64_t slow = 0;              // of its replicas, which take slow_factor times as long
  double slow_factor = 1;
  struct Tier {
    std::string name;
    double bytes = 0, rate = 0, latency_s = 0;  // of a replica
  };
  std::vector<Tier> tiers;  // of the cache below its GPUs, the nearest first
  serving::TierWrite tier_write = serving::TierWrite::on_eviction;
  std::optional<serving::Autoscale> autoscale;
  std::optional<serving::Failures> failures;
  double weights_rate = 0;         // bytes/s at which a replica that starts reads its weights; 0: its start has that
  std::int64_t most_replicas = 0;  // that it may grow to; 0: as many as it has
  std::int64_t gpus() const { return std::max(replicas, most_replicas) * replica.layout.gpus(); }
  /// What its scheduler goes by, with so many blocks of cache: limits of an attention group are those of all, and a
  /// micro-batch is on each pipeline stage.
  serving::Limits scheduler_limits(std::int64_t blocks) const;
};

/// GPUs of a cluster that one of several models has for itself.
struct GpuShare {
  std::int64_t gpus = 0;   // 0: all
  std::int64_t first = 0;  // the first of them
};

/// Its own pool computes prompts, and writes answers where no other does.
struct ServingScenario : ServedPool {
  std::string id, description;
  workloads::Machine machine;
  GpuShare share;  // of it
  workloads::PowerTerms power;
  std::optional<ServedPool> answers;  // prompts and answers apart: who writes these
  struct Transfer {
    serving::Handing handing = serving::Handing::whole;
    double latency_s = 0;
    serving::FirstToken first_token = serving::FirstToken::transfer;
  } transfer;
  std::int64_t all_gpus() const { return gpus() + (answers ? answers->gpus() : 0); }
  bool scales() const { return autoscale || (answers && answers->autoscale); }
  bool fails() const { return failures || (answers && answers->failures); }
  serving::Router router = serving::Router::round_robin;
  double router_looks_every_s = 0;  // 0: it knows what is
  std::int64_t front_ends = 1;      // that deal in turn
  Slo slo;
  double price_per_gpu_hour_usd = 0;
  std::string trace_file;                     // empty: by `traffic`
  std::optional<std::int64_t> most_requests;  // of a trace
  double time_scale = 1;                      // gaps of a trace over what they were
  serving::Traffic traffic;
  std::optional<ServedWorkload> workload;  // where one iteration is asked for
  std::vector<std::string> assumptions;
};

/// `share`: what its pools may take. Throws UserError.
ServingScenario load_serving(const sim::Settings& document, GpuShare share = {});

/// Takes traffic.concurrency and traffic.requests of a document that is in all else the one which `scenario`, of a
/// closed loop and without a workload, was loaded of. Throws UserError as load_serving() would.
void take_under_way(const sim::Settings& document, ServingScenario& scenario);

/// An engine's kernels on a device, by the table that ships of it; without one by the data sheet.
calibration::ServingKernels kernels_of(const calibration::DeviceProfile& device, calibration::Engine engine);

/// The engine's release of that name. Throws UserError.
calibration::ServingEngine load_engine(const sim::Settings& reference);

}  // namespace orrery::scenarios
