// Which replica of a pool a request goes to. A router that looks at loads and caches from time to time alone goes by
// what it saw last: it looks when the first request behind each instant comes, and does not count what it has sent
// since.
#pragma once

#include <vector>

#include "sim/hash.h"
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

/// Who deals requests out in turn. Of several front ends each begins somewhere and knows of its own alone.
class Turns {
 public:
  /// `salt`: tells apart the turns of several pools, which front ends begin differently.
  std::int64_t next(std::int64_t front_ends, std::int64_t count, std::uint64_t salt = 0) {
    const std::int64_t turn = turn_++;
    if (front_ends <= 1) return turn % count;
    dealt_.resize(static_cast<std::size_t>(front_ends), 0);
    const auto all = static_cast<std::uint64_t>(front_ends), n = static_cast<std::uint64_t>(count);
    const std::uint64_t one = sim::hash_pair(1, static_cast<std::uint64_t>(turn)) % all;
    return static_cast<std::int64_t>((sim::hash_pair(2 + salt, one) + dealt_[one]++) % n);
  }

 private:
  std::int64_t turn_ = 0;
  std::vector<std::uint64_t> dealt_;  // by front end
};

/// One of `count` replicas. `at`: the replica of a number, as it is at `now`, when the request comes.
template <class ReplicaAt>
std::int64_t routed(const Fleet& fleet, std::int64_t count, const Trace& trace, const Request& request, Turns& turns,
                    Time now, Looks& looks, ReplicaAt at) {
  if (fleet.router == Router::round_robin) return turns.next(fleet.front_ends, count);
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
