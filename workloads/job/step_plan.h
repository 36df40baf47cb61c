// A job compiled for the engine: the programs of its stages, and the groups that run them.
#pragma once

#include <memory>

#include "topology/cluster.h"
#include "workloads/compile/stage_program.h"
#include "workloads/groups/groups.h"
#include "workloads/job/job_values.h"

namespace orrery::workloads {

struct StepPlan {
  std::shared_ptr<const Groups> groups;
  StagePrograms stages;
  LayerSplit split;
};

struct PlanOptions {
  Workload workload = Workload::training_step;
  /// Passes that nothing outside them can disturb become one operation each: the same times, fewer operations.
  bool compact = false;
  /// With `compact`: nothing but times is asked for, so that passes that others can disturb may be stretches.
  bool timed = false;
  /// Of the whole step, where the job to compile is a shorter one that stands for it: its ranks keep the pace of the
  /// whole. 0: the job's own.
  std::int64_t step_microbatches = 0;
};
/// Compiles what the options say; `groups` are those of the job.
StepPlan make_plan(const Job& job, const topology::Cluster& cluster, std::shared_ptr<const Groups> groups,
                   const PlanOptions& options = {});

}  // namespace orrery::workloads
