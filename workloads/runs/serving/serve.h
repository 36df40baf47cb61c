// A trace through a fleet of like replicas.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "workloads/runs/serving/batching.h"
#include "workloads/runs/serving/outcome.h"

namespace orrery::serving {

/// Which replica a request goes to: each in turn, the one with the fewest under way, or the one whose cache has most of
/// its prompt, and of these the least loaded.
enum class Router : std::uint8_t { round_robin, least_loaded, prefix_aware };
std::string_view name_of(Router router);

struct Fleet {
  Limits limits;  // of each replica
  std::int64_t replicas = 1;
  Router router = Router::round_robin;
  std::int64_t slow = 0;  // the first so many replicas take slow_factor times as long for each iteration
  double slow_factor = 1;
};

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
