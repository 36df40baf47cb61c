// What jobs of one study share: clusters, the groups of a layout on them, and the times of steps. Making and folding
// the groups of ten thousand ranks takes longer than simulating a folded step, so a search makes them once per layout;
// and layouts that differ in what they hold alone take the same steps.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "workloads/job/step_plan.h"
#include "workloads/step/step_digest.h"

namespace orrery::workloads {

/// What comes of a folded run whose breakdown nobody asks for.
struct StepTiming {
  bool holds = true;  // false: it was to repeat itself, and does not
  sim::Duration iteration{};
  std::int64_t ranks = 0;  // simulated
  std::uint64_t events = 0;
};

/// Remembers the clusters and groups asked for last, and times. For several threads at a time; what it hands out stays
/// valid.
class StepCache {
 public:
  /// `entries`: of either kind; the groups of 10,000 ranks, folded, take about a megabyte.
  /// `timings`: steps whose times are kept, about a hundred bytes each; one more, and it begins anew.
  explicit StepCache(std::size_t entries = 64, std::size_t timings = 1 << 20) : entries_(entries), timed_(timings) {}

  std::shared_ptr<const topology::Cluster> cluster_of(const Site& site);
  /// Groups without the tables of every rank, on a cluster of cluster_of().
  std::shared_ptr<const Groups> groups_of(std::shared_ptr<const topology::Cluster> cluster, const GroupInputs& inputs);
  /// One replica of these groups by itself (lone_replica.h).
  std::shared_ptr<const Groups> lone_of(std::shared_ptr<const Groups> groups);
  /// Of the step with this digest, where it is known.
  std::optional<StepTiming> timing_of(const StepDigest& step);
  void keep(const StepDigest& step, const StepTiming& timing);

 private:
  struct Place {
    std::shared_ptr<const topology::Cluster> cluster;
    GroupInputs inputs;
    bool operator==(const Place&) const = default;
  };
  template <class Key, class Value>
  struct Known {
    Key key;
    std::shared_ptr<const Value> value;
  };
  template <class Key, class Value, class Make>
  std::shared_ptr<const Value> remember(std::list<Known<Key, Value>>& known, Key key, const Make& make);

  struct Hash {
    std::size_t operator()(const StepDigest& step) const { return step.one; }
  };

  std::size_t entries_, timed_;
  std::mutex mutex_;
  std::list<Known<Site, topology::Cluster>> clusters_;  // asked for last first
  std::list<Known<Place, Groups>> groups_;
  std::list<Known<std::shared_ptr<const Groups>, Groups>> lone_;
  std::unordered_map<StepDigest, StepTiming, Hash> timings_;
};

/// A job compiled as a folded run takes it, with the machine that it runs on.
struct PlannedStep {
  std::shared_ptr<const topology::Cluster> cluster;
  StepPlan plan;
};
PlannedStep plan_step(const Job& job);

}  // namespace orrery::workloads
