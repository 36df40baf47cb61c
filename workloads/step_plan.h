// A job compiled for the engine: programs, instances, communicators and the routes that they load.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/network.h"
#include "sim/plan.h"
#include "topology/cluster.h"
#include "workloads/placement.h"
#include "workloads/stage_program.h"

namespace orrery::workloads {

struct StepPlan {
  sim::Plan plan;  // instance i is rank i
  sim::Network network;
  StagePrograms stages;  // notes, runs and traffic; its programs have moved into plan
  LayerSplit split;
  GroupShapes shapes;
};

/// Compiles a training step, or an evaluation of one global batch.
StepPlan make_plan(const Job& job, const topology::Cluster& cluster, bool evaluation = false);

/// How the groups lie on the cluster; costs use the worst group of each kind, so that all members agree.
GroupShapes group_shapes(const Job& job, const RankMap& ranks, const topology::Cluster& cluster);

}  // namespace orrery::workloads
