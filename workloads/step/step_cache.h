// What jobs of one study share: clusters, and the groups of a layout on them. Making and folding the groups of ten
// thousand ranks takes longer than simulating a folded step, so a search makes them once per layout.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <mutex>

#include "workloads/step/step_plan.h"

namespace orrery::workloads {

/// Remembers the clusters and groups asked for last. For several threads at a time; what it hands out stays valid.
class StepCache {
 public:
  /// `entries`: of either kind; the groups of 10,000 ranks, folded, take about a megabyte.
  explicit StepCache(std::size_t entries = 64) : entries_(entries) {}

  std::shared_ptr<const topology::Cluster> cluster_of(const Site& site);
  /// Groups without the tables of every rank, on a cluster of cluster_of().
  std::shared_ptr<const Groups> groups_of(std::shared_ptr<const topology::Cluster> cluster, const GroupInputs& inputs);

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

  std::size_t entries_;
  std::mutex mutex_;
  std::list<Known<Site, topology::Cluster>> clusters_;  // asked for last first
  std::list<Known<Place, Groups>> groups_;
};

}  // namespace orrery::workloads
