// Steady state: a long run of micro-batches repeats itself, and what repeats exactly need not be simulated again.
//
// The argument. Cut every stage's program, away from both ends of the step, into iterations that hold the passes of
// one period q of the schedule each. Let every operation of three iterations in a row end exactly one shift later than
// its like an iteration before, in every class of ranks. An operation depends on operations at most an iteration apart
// (its stream, its pass, its partner on the next stage), and rates depend on what is under way at the same time only;
// so one more iteration inserted there repeats the last one, and everything behind it moves by the shift; unless a
// transfer from before them is still under way beside the last, whose end would change the rates, or their kernels are
// slower for such a one, or a host takes longer over a period than it lasts and so comes less far ahead each time. The
// step of m micro-batches is then that of m' < m plus (m - m') / q shifts. Within an iteration forward passes are some
// micro-batches ahead of backward passes, so all operations of three periods and that lead are looked at.
#pragma once

#include <cstdint>
#include <optional>

#include "sim/engine.h"
#include "workloads/job/step_plan.h"

namespace orrery::workloads {

/// A shorter step to simulate in place of the job's.
struct Jump {
  std::int64_t microbatches = 0;  // of the shorter step
  std::int64_t period = 0;        // in micro-batches
  std::int64_t periods = 0;       // left out
  std::int64_t first = 0;         // the micro-batches from here ...
  std::int64_t window = 0;        // ... and so many must repeat
};

/// The shortest step that can show a repetition; each `attempt` (0, 1, ...) doubles the room for it to settle. None
/// where the step is short, noisy, or its schedule does not repeat.
std::optional<Jump> choose_jump(const Schedule& schedule, const PipelineShape& shape, const Perturbation& perturbed,
                                int attempt);

/// The shift by which the simulated step repeats; none if it does not, to the picosecond. `records`: one per class.
std::optional<sim::Duration> shift_of(const Jump& jump, std::int64_t chunks, const StagePrograms& stages,
                                      const sim::Plan& plan, const std::vector<sim::Record>& records);

}  // namespace orrery::workloads
