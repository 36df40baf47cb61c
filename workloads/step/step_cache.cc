// See step_cache.h. Two threads that miss the same entry at once both make it; the second result is dropped.
#include "workloads/step/step_cache.h"

#include <algorithm>
#include <utility>

#include "workloads/groups/lone_replica.h"
#include "workloads/step/made_cluster.h"

namespace orrery::workloads {

template <class Key, class Value, class Make>
std::shared_ptr<const Value> StepCache::remember(std::list<Known<Key, Value>>& known, Key key, const Make& make) {
  const auto find = [&] {
    const auto it = std::find_if(known.begin(), known.end(), [&](const auto& k) { return k.key == key; });
    if (it != known.end()) known.splice(known.begin(), known, it);
    return it != known.end();
  };
  {
    const std::lock_guard lock(mutex_);
    if (find()) return known.front().value;
  }
  std::shared_ptr<const Value> made = make();
  const std::lock_guard lock(mutex_);
  if (!find()) known.push_front({std::move(key), std::move(made)});
  if (known.size() > entries_) known.pop_back();
  return known.front().value;
}

std::shared_ptr<const topology::Cluster> StepCache::cluster_of(const Site& site) {
  return remember(clusters_, site, [&] { return made_cluster(site); });
}

std::shared_ptr<const Groups> StepCache::groups_of(std::shared_ptr<const topology::Cluster> cluster,
                                                   const GroupInputs& inputs) {
  const Place place{std::move(cluster), inputs};
  return remember(groups_, place, [&] { return make_groups(place.inputs, *place.cluster, true); });
}

std::shared_ptr<const Groups> StepCache::lone_of(std::shared_ptr<const Groups> groups) {
  const Groups& whole = *groups;
  return remember(lone_, std::move(groups), [&] { return lone_replica(whole); });
}

std::optional<StepTiming> StepCache::timing_of(const StepDigest& step) {
  const std::lock_guard lock(mutex_);
  const auto known = timings_.find(step);
  return known == timings_.end() ? std::nullopt : std::optional(known->second);
}

void StepCache::keep(const StepDigest& step, const StepTiming& timing) {
  const std::lock_guard lock(mutex_);
  if (timings_.size() >= timed_) timings_.clear();
  if (timed_ > 0) timings_.insert_or_assign(step, timing);
}

PlannedStep plan_step(const Job& job) {
  StepCache cache(1);
  PlannedStep planned;
  planned.cluster = cache.cluster_of(site_of(job));
  planned.plan = make_plan(job, *planned.cluster, cache.groups_of(planned.cluster, group_inputs_of(job)),
                           {Workload::training_step, true});
  return planned;
}

}  // namespace orrery::workloads
