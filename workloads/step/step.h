// One training step of a job: compile to a plan, run it, and account for every picosecond.
#pragma once

#include <cstdint>
#include <vector>

#include "workloads/job/job.h"
#include "workloads/job/result.h"

namespace orrery::workloads {

class StepCache;
struct PlannedStep;

/// Which parts of a step's result are asked for, and how it is simulated.
struct StepOptions {
  bool full = false;                              // simulate every rank instead of one per class
  bool timelines = false;                         // keep what a trace needs: of every class, or of `timeline_ranks`
  bool brief = false;                             // times and rates only: no breakdown, memory, traffic or assumptions
  bool energy = false;                            // with `brief`: energy too
  StepCache* cache = nullptr;                     // of a study with many jobs; not with `full`
  bool count_memory = false;                      // count activations from simulated lifetimes too
  std::vector<std::int64_t> timeline_ranks = {};  // below the number of GPUs, none twice
  bool stage_timelines = false;                   // keep what a report needs: the busiest rank of every stage
  bool stage_bars = false;                        // keep when its passes ran alone, which takes little
  const PlannedStep* planned = nullptr;           // plan_step() of this very job, which then is not planned again
  bool whole_passes = false;                      // with `full`: passes that nothing outside disturbs are one operation
  std::uint32_t threads = 1;                      // with `full`: of this one run (sim/engine_threads.h)
};

/// Simulates one training step (and one evaluation pass where the job asks for it). Throws sim::UserError for what only
/// planning can find out, InternalError for a deadlock (a schedule that locks up is our bug; it names the operations).
StepReport simulate_step(const Job& job, const StepOptions& options = {});

/// A time that the step does not undercut: its programs run by one replica that finds every link free
/// (workloads/groups/lone_replica.h). Closer than StepBound, for a part of what simulating the step takes. Zero where
/// the argument does not hold: noise, drawn loads, stages that step their optimizers apart.
sim::Duration least_step(const Job& job, StepCache& cache);

/// Traffic rows alone, without running the engine.
std::vector<TrafficRow> traffic_table(const Job& job);

}  // namespace orrery::workloads
