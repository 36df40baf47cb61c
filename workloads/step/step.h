// One training step of a job: compile to a plan, run it, and account for every picosecond.
#pragma once

#include "workloads/job/job.h"
#include "workloads/job/question.h"
#include "workloads/job/result.h"

namespace orrery::workloads {

/// Simulates one training step (and one evaluation pass where the job asks for it). Throws sim::UserError for what only
/// planning can find out, InternalError for a deadlock (a schedule that locks up is our bug; it names the operations).
StepReport simulate_step(const Job& job, const Question& question = {});

/// A time that the step does not undercut: its programs run by one replica that finds every link free
/// (workloads/groups/lone_replica.h). Closer than StepBound, for a part of what simulating the step takes. Zero where
/// the argument does not hold: noise, drawn loads, stages that step their optimizers apart.
sim::Duration least_step(const Job& job, StepCache& cache);

/// Traffic rows alone, without running the engine.
std::vector<TrafficRow> traffic_table(const Job& job);

}  // namespace orrery::workloads
