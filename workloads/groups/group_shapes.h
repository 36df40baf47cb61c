// How the groups of a job lie on its cluster, as costs need to know: worst over all groups of a kind, so that all
// members of all of them agree.
#pragma once

#include <utility>
#include <vector>

#include "topology/cluster.h"
#include "workloads/collectives/collective.h"
#include "workloads/groups/alike_replicas.h"
#include "workloads/groups/comm_groups.h"
#include "workloads/groups/placement.h"

namespace orrery::workloads {

class GroupShapes {
 public:
  /// A rank alone where the job has no such group.
  const GroupShape& operator[](const CommGroup& group) const;
  void set(const CommGroup& group, const GroupShape& shape) { shapes_.emplace_back(group, shape); }

  std::vector<bool> pipeline_same_node;  // per stage: its message to the next stage stays inside a node

 private:
  std::vector<std::pair<CommGroup, GroupShape>> shapes_;
};

/// `alike`: Groups::alike. Groups of replicas that are not made are as those that are.
GroupShapes group_shapes(const std::vector<JobGroup>& groups, const RankMap& ranks, const topology::Cluster& cluster,
                         std::int64_t alike = 1, const AlikeReplicas& replicas = {});

}  // namespace orrery::workloads
