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
#include "workloads/settled_rates.h"
#include "workloads/stage_program.h"

namespace orrery::workloads {

/// What the groups of a job depend on, beside its cluster.
struct GroupInputs {
  GroupLayout layout;
  Placement placement;
  Perturbation perturbation;
  bool operator==(const GroupInputs&) const = default;
};
GroupLayout group_layout_of(const Job& job);
GroupInputs group_inputs_of(const Job& job);

/// Who talks to whom: what a training step, its evaluation and all the jobs of a search that share these inputs make
/// once.
struct Groups {
  std::vector<JobGroup> list;
  GroupShapes shapes;
  std::vector<std::vector<GroupSlot>> slots;  // by stage: what its ranks have communicators for
  sim::Plan plan;                             // instance i is rank i; one program per stage, empty
  sim::Network network;
  sim::Folded folded;
  /// Bytes/s up to which a tensor collective runs at its own rate whatever else is under way; 0 where the members of a
  /// tensor group may be out of step.
  double tensor_rate_limit = 0;
  /// Every communicator keeps one rate (settled_rates.h): hashed paths or a placement leave too few ranks alike.
  bool settled = false;
};
/// `folded_only`: without `plan` and `network`, which are large and which only a simulation of every rank needs. With
/// more classes of ranks than `most_sharing`, rates are settled.
std::shared_ptr<const Groups> make_groups(const GroupInputs& inputs, const topology::Cluster& cluster,
                                          bool folded_only = false, std::size_t most_sharing = kMostSharing);

/// What Groups::tensor_rate_limit is to be, from the rest of the groups.
double tensor_rate_limit(const Perturbation& perturbed, const Groups& groups);

struct StepPlan {
  std::shared_ptr<const Groups> groups;
  StagePrograms stages;
  LayerSplit split;
};

struct PlanOptions {
  Workload workload = Workload::training_step;
  /// Passes that nothing outside them can disturb become one operation each: the same times, fewer operations.
  bool compact = false;
};
/// Compiles what the options say; `groups` are those of the job.
StepPlan make_plan(const Job& job, const topology::Cluster& cluster, std::shared_ptr<const Groups> groups,
                   const PlanOptions& options = {});

/// A job compiled as a folded run takes it, with the machine that it runs on.
struct PlannedStep {
  std::shared_ptr<const topology::Cluster> cluster;
  StepPlan plan;
};
PlannedStep plan_step(const Job& job);

}  // namespace orrery::workloads
