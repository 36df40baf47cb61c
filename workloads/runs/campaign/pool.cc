// Nodes as numbers, one for each kind: within it any of them serves as well as any other. A replica takes its share of
// every kind, so that the scarcest decides. Left out: where in the network they lie, causes that strike one kind more
// often than another.
#include "workloads/runs/campaign/pool.h"

#include <algorithm>
#include <numeric>

#include "sim/hash.h"

namespace orrery::campaign {

namespace {

std::int64_t total(const std::vector<std::int64_t>& nodes) {
  return std::accumulate(nodes.begin(), nodes.end(), std::int64_t{0});
}

void add(const std::vector<std::int64_t>& more, std::vector<std::int64_t>& nodes) {
  for (std::size_t k = 0; k < nodes.size(); ++k) nodes[k] += more[k];
}

}  // namespace

Pool::Pool(const Plan::Pool& plan, std::uint64_t seed) : plan_(plan), kinds_(plan.kinds), seed_(seed) {
  if (kinds_.empty()) kinds_.push_back({plan.nodes, plan.replica_gpus});
  for (const NodeKind& kind : kinds_) healthy_.push_back(kind.nodes);
}

/// The kind of one of the healthy nodes.
std::size_t Pool::draw_kind() {
  if (healthy_.size() == 1) return 0;
  auto at = static_cast<std::int64_t>(sim::hash_pair(seed_, drawn_++) % static_cast<std::uint64_t>(total(healthy_)));
  std::size_t kind = 0;
  while (at >= healthy_[kind]) at -= healthy_[kind++];
  return kind;
}

void Pool::lose(std::int64_t nodes, Elapsed back) {
  const std::int64_t gone = std::min(nodes, total(healthy_));
  if (gone == 0) return;
  Away lost{back, Nodes(healthy_.size(), 0)};
  // One by one, but where all are of a kind.
  const std::int64_t step = healthy_.size() == 1 ? gone : 1;
  for (std::int64_t left = gone; left > 0; left -= step) {
    const std::size_t kind = draw_kind();
    healthy_[kind] -= step;
    lost.nodes[kind] += step;
  }
  const auto later = [](Elapsed time, const Away& away) { return time < away.back; };
  away_.insert(std::upper_bound(away_.begin(), away_.end(), back, later), std::move(lost));
}

void Pool::take_back(Elapsed now) {
  auto first = away_.begin();
  for (; first != away_.end() && first->back <= now; ++first) add(first->nodes, healthy_);
  away_.erase(away_.begin(), first);
}

Elapsed Pool::next_return() const { return away_.empty() ? kNoTime : away_.front().back; }

Elapsed Pool::time_of(std::size_t level) const {
  Nodes nodes = healthy_;
  if (level_of(nodes) <= level) return {};
  for (const Away& away : away_) {
    add(away.nodes, nodes);
    if (level_of(nodes) <= level) return away.back;
  }
  return kNoTime;
}

std::size_t Pool::level_of(const Nodes& nodes) const {
  std::int64_t replicas = plan_.replicas;
  for (std::size_t k = 0; k < nodes.size(); ++k)
    replicas = std::min(replicas, nodes[k] * plan_.gpus_per_node / kinds_[k].replica_gpus);
  return static_cast<std::size_t>(plan_.replicas - replicas);
}

}  // namespace orrery::campaign
