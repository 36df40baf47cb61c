// Who talks to whom: the instances and communicators of a job, and the routes that these load.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "sim/fold.h"
#include "sim/network.h"
#include "sim/plan.h"
#include "topology/cluster.h"
#include "workloads/groups/alike_replicas.h"
#include "workloads/groups/group_shapes.h"
#include "workloads/groups/perturbation.h"
#include "workloads/groups/placement.h"
#include "workloads/groups/settled_rates.h"
#include "workloads/groups/whole_passes.h"

namespace orrery::workloads {

/// What the groups of a job depend on, beside its cluster.
struct GroupInputs {
  GroupLayout layout;
  Placement placement;
  Perturbation perturbation;
  bool operator==(const GroupInputs&) const = default;
};

/// Who talks to whom: what a training step, its evaluation and all the jobs of a search that share these inputs make
/// once.
struct Groups {
  std::vector<JobGroup> list;
  std::int64_t alike = 1;  // ranks of a tensor group that its first one stands for
  AlikeReplicas replicas;  // of data parallelism, likewise
  GroupShapes shapes;
  std::vector<std::vector<GroupSlot>> slots;  // by stage: what its ranks have communicators for
  sim::Plan plan;                             // instance i is rank i; one program per stage, empty
  sim::Network network;
  sim::Folded folded;
  /// Tensor collectives are sure of their own rate up to what is left of their links whatever else is under way; of
  /// none where the members of a tensor group may be out of step.
  WholePasses whole_passes;
  /// Every class of ranks is by itself on its tensor communicator, and nothing is drawn: passes may be stretches.
  bool in_step = false;
  /// Every communicator keeps one rate (settled_rates.h): hashed paths, a placement or a torus leave few ranks alike.
  bool settled = false;
  /// Every transfer moves as if it were alone (sim::RunOptions::alone).
  bool alone = false;
};

/// How many ranks of a tensor group are alike, so that the first one stands for all: the whole group, or 1.
std::int64_t tensor_ranks_alike(const GroupInputs& inputs, const topology::Cluster& cluster);

/// `folded_only`: without `plan` and `network`, which are large and which only a simulation of every rank needs. With
/// more classes of ranks than `most_sharing`, rates are settled.
std::shared_ptr<const Groups> make_groups(const GroupInputs& inputs, const topology::Cluster& cluster,
                                          bool folded_only = false, std::size_t most_sharing = kMostSharing);

/// Groups::in_step of the rest of the groups.
bool runs_in_step(const Perturbation& perturbed, const Groups& groups);

/// Bytes/s up to which a tensor collective runs at its own rate, from the rest of the groups.
double tensor_rate_limit(const Perturbation& perturbed, const Groups& groups);

}  // namespace orrery::workloads
