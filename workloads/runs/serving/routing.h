// Which replica of a pool a request goes to. A router that looks at loads and caches from time to time alone goes by
// what it saw last: it looks when the first request behind each instant comes, and does not count what it has sent
// since.
#pragma once

#include <vector>

#include "workloads/runs/serving/replica.h"
#include "workloads/runs/serving/serve.h"

namespace orrery::serving {

/// What a router saw of each replica when it looked.
struct Looks {
  Time until = -1;  // that it is good for
  std::vector<std::int64_t> loads;
  std::vector<std::vector<bool>> contents;

  std::int64_t found(std::int64_t replica, std::span<const std::int32_t> prompt) const {
    const std::vector<bool>& has = contents[static_cast<std::size_t>(replica)];
    std::int64_t count = 0;
    for (const std::int32_t content : prompt) {
      if (!has[static_cast<std::size_t>(content)]) break;
      ++count;
    }
    return count;
  }
};

/// One of `count` replicas. `turn`: how many requests were dealt out before it; `at`: the replica of a number, as it is
/// at `now`, when the request comes.
template <class ReplicaAt>
std::int64_t routed(const Fleet& fleet, std::int64_t count, const Trace& trace, const Request& request,
                    std::int64_t turn, Time now, Looks& looks, ReplicaAt at) {
  if (fleet.router == Router::round_robin) return turn % count;
  const bool by_prefix = fleet.router == Router::prefix_aware && fleet.limits.prefix_caching;
  const bool stale = fleet.looks_every > 0;
  if (stale && (now >= looks.until || std::ssize(looks.loads) != count)) {
    looks = {(now / fleet.looks_every + 1) * fleet.looks_every, {}, {}};
    for (std::int64_t i = 0; i < count; ++i) {
      looks.loads.push_back(at(i).under_way());
      if (by_prefix) looks.contents.push_back(at(i).contents());
    }
  }
  std::int64_t best = 0, best_found = -1, best_load = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    Replica& replica = at(i);
    const std::int64_t load = stale ? looks.loads[static_cast<std::size_t>(i)] : replica.under_way();
    const auto prompt = trace.contents_of(request);
    const std::int64_t found = !by_prefix ? 0 : stale ? looks.found(i, prompt) : replica.found(prompt);
    if (found > best_found || (found == best_found && load < best_load)) {
      best = i;
      best_found = found;
      best_load = load;
    }
  }
  return best;
}

}  // namespace orrery::serving
