// A job compiled for the engine: programs, instances, communicators and the routes that they load.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "sim/fold.h"
#include "sim/network.h"
#include "sim/plan.h"
#include "topology/cluster.h"
#include "workloads/placement.h"
#include "workloads/stage_program.h"

namespace orrery::workloads {

/// Who talks to whom: what depends on layout, placement, cluster and perturbation alone, so that a training step, its
/// evaluation and all the jobs of a search that share them make it once.
struct Groups {
  GroupShapes shapes;
  std::vector<std::vector<Peer>> slots;  // by stage: what its ranks have communicators for
  sim::Plan plan;                        // instance i is rank i; one program per stage, empty
  sim::Network network;
  sim::Folded folded;
  /// Bytes/s up to which a tensor collective runs at its own rate whatever else is under way; 0 where the members of a
  /// tensor group may be out of step.
  double tensor_rate_limit = 0;
};
/// `folded_only`: without `plan` and `network`, which are large and which only a simulation of every rank needs.
std::shared_ptr<const Groups> make_groups(const Job& job, const topology::Cluster& cluster, bool folded_only = false);

/// What Groups::tensor_rate_limit is to be, from the rest of the groups.
double tensor_rate_limit(const Job& job, const Groups& groups);

struct StepPlan {
  std::shared_ptr<const Groups> groups;
  StagePrograms stages;
  LayerSplit split;
};

struct PlanOptions {
  bool evaluation = false;  // forward passes of one global batch instead of a training step
  /// Passes that nothing outside them can disturb become one operation each: the same times, fewer operations.
  bool compact = false;
};
/// Compiles a training step or an evaluation; `groups` are those of the job.
StepPlan make_plan(const Job& job, const topology::Cluster& cluster, std::shared_ptr<const Groups> groups,
                   const PlanOptions& options = {});

/// A job compiled as a folded run takes it, with the machine that it runs on.
struct PlannedStep {
  std::shared_ptr<const topology::Cluster> cluster;
  StepPlan plan;
};
PlannedStep plan_step(const Job& job);

/// How the groups lie on the cluster; costs use the worst group of each kind, so that all members agree.
GroupShapes group_shapes(const Job& job, const RankMap& ranks, const topology::Cluster& cluster);

}  // namespace orrery::workloads
