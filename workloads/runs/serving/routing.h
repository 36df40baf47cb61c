// Which replica of a pool a request goes to. Left out: knowledge that is older than the request.
#pragma once

#include "workloads/runs/serving/replica.h"
#include "workloads/runs/serving/serve.h"

namespace orrery::serving {

/// One of `count` replicas. `turn`: how many requests were dealt out before it; `at`: the replica of a number, as it is
/// when the request comes.
template <class ReplicaAt>
std::int64_t routed(const Fleet& fleet, std::int64_t count, const Trace& trace, const Request& request,
                    std::int64_t turn, ReplicaAt at) {
  if (fleet.router == Router::round_robin) return turn % count;
  const bool by_prefix = fleet.router == Router::prefix_aware && fleet.limits.prefix_caching;
  std::int64_t best = 0, best_found = -1, best_load = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    Replica& replica = at(i);
    const std::int64_t load = replica.under_way();
    const std::int64_t found = by_prefix ? replica.found(trace.contents_of(request)) : 0;
    if (found > best_found || (found == best_found && load < best_load)) {
      best = i;
      best_found = found;
      best_load = load;
    }
  }
  return best;
}

}  // namespace orrery::serving
