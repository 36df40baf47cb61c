// Nodes as one number: any of them serves as well as any other. Left out: where in the network they lie.
#include "workloads/campaign/pool.h"

#include <algorithm>

namespace orrery::campaign {

void Pool::lose(std::int64_t nodes, Elapsed back) {
  const std::int64_t gone = std::min(nodes, healthy_);
  if (gone == 0) return;
  healthy_ -= gone;
  const auto later = [](Elapsed time, const Away& away) { return time < away.back; };
  away_.insert(std::upper_bound(away_.begin(), away_.end(), back, later), {back, gone});
}

void Pool::take_back(Elapsed now) {
  auto first = away_.begin();
  for (; first != away_.end() && first->back <= now; ++first) healthy_ += first->nodes;
  away_.erase(away_.begin(), first);
}

Elapsed Pool::next_return() const { return away_.empty() ? kNoTime : away_.front().back; }

Elapsed Pool::time_of(std::size_t level) const {
  std::int64_t nodes = healthy_;
  if (level_of(nodes) <= level) return {};
  for (const Away& away : away_) {
    nodes += away.nodes;
    if (level_of(nodes) <= level) return away.back;
  }
  return kNoTime;
}

std::size_t Pool::level_of(std::int64_t nodes) const {
  const std::int64_t replicas = std::min(plan_.replicas, nodes * plan_.gpus_per_node / plan_.replica_gpus);
  const std::int64_t missing = plan_.replicas - replicas;
  return static_cast<std::size_t>(missing);
}

}  // namespace orrery::campaign
