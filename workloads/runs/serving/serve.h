// A trace through a fleet of like replicas.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "workloads/runs/serving/batching.h"
#include "workloads/runs/serving/outcome.h"

namespace orrery::serving {

/// Which replica a request goes to: each in turn, the one with the fewest under way, or the one whose cache has most of
/// its prompt, and of these the least loaded.
enum class Router : std::uint8_t { round_robin, least_loaded, prefix_aware };
std::string_view name_of(Router router);

/// What the number of replicas follows, of each: requests under way, those that wait, or the share of its cache in use.
/// Or in the mean over all, in seconds: from requests' arrivals to their first tokens since the last measurement (where
/// prompts are computed apart, to these), or an iteration of those that decode.
enum class ScaleBy : std::uint8_t { under_way, waiting, cache, ttft, itl };
std::string_view name_of(ScaleBy by);
inline bool is_mean(ScaleBy by) { return by == ScaleBy::ttft || by == ScaleBy::itl; }

struct Autoscale {
  std::int64_t least = 1, most = 1;  // replicas
  ScaleBy by = ScaleBy::under_way;
  double target = 1;       // of a replica; of a mean over all, seconds
  double tolerance = 0.1;  // of the ratio of what is and the target, within which nothing changes
  Time every = 0;          // from one measurement to the next
  Time lag = 0;            // from a measurement to what follows of it
  Time start = 0;          // from when a replica is asked for until it serves
  Time hold = 0;           // fewer are kept only than all that was asked for within this time
};

/// What becomes of requests on a replica that fails: they go on elsewhere with what is written, begin again there, or
/// are lost.
enum class AtFailure : std::uint8_t { migrate, again, lost };
std::string_view name_of(AtFailure what);

/// Of a pool: who fails more often than this in a loop that has no end of its own would never be through.
inline constexpr std::int64_t kMostFailures = 100'000;

struct Failures {
  double mean_s = 0;  // between failures of a replica; 0: by `at`
  Time at = 0;        // when the first `replicas` fail
  std::int64_t replicas = 1;
  Time noticed = 0;  // until nobody sends requests to it any more
  Time restart = 0;  // from then until it serves again
  AtFailure requests = AtFailure::migrate;
  std::uint64_t seed = 1;
};

struct Fleet {
  Limits limits;  // of each replica
  std::int64_t replicas = 1;
  Router router = Router::round_robin;
  std::int64_t slow = 0;  // the first so many replicas take slow_factor times as long for each iteration
  double slow_factor = 1;
  std::optional<Autoscale> autoscale = {};
  std::optional<Failures> failures = {};
  Time looks_every = 0;         // of the router at loads and caches; 0: it knows what is
  std::int64_t front_ends = 1;  // that deal in turn, each for itself; requests come to one by chance
};

/// Sums of what tiers of replicas did.
void add_tiers(std::vector<TierUse>& sums, const std::vector<TierUse>& replica);

/// Iterations of a replica that is slower than others.
class SlowTimes : public StepTimes {
 public:
  SlowTimes(StepTimes& times, double factor) : times_(times), factor_(factor) {}
  Segment decode(std::int64_t sequences, std::int64_t keys) override;
  Time mixed(const Mixed& batch) override;

 private:
  StepTimes& times_;
  double factor_;
};

/// Requests of an open loop come when the trace says; those of a closed one are dealt out to the replicas, each of
/// which has its share under way. The trace's arrivals must rise.
Outcome serve(const Trace& trace, const Fleet& fleet, StepTimes& times);

}  // namespace orrery::serving
