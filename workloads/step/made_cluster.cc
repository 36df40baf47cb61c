// Keeps the last cluster. See made_cluster.h. Two threads that miss it at once both make it.
#include "workloads/step/made_cluster.h"

#include <mutex>

namespace orrery::workloads {

namespace {
struct LastCluster {
  std::mutex mutex;
  Site site;
  std::shared_ptr<const topology::Cluster> cluster;
};
}  // namespace

std::shared_ptr<const topology::Cluster> made_cluster(const Site& site, const sim::Settings& where) {
  // Not taken apart at the program's end, which frees it at once.
  static LastCluster& last = *new LastCluster;
  {
    const std::lock_guard lock(last.mutex);
    if (last.cluster != nullptr && last.site == site) return last.cluster;
  }
  auto made = std::make_shared<const topology::Cluster>(cluster_of(site, where));
  const std::lock_guard lock(last.mutex);
  last.site = site;
  last.cluster = made;
  return made;
}

}  // namespace orrery::workloads
