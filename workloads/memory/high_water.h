// The fullest moment of a stage: walks its passes, allocating what a forward pass keeps and freeing it with the
// backward pass.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/engine.h"
#include "workloads/compile/program_notes.h"
#include "workloads/model/kept.h"
#include "workloads/schedules/schedule.h"

namespace orrery::workloads {

/// Activations at their fullest, in bytes, and when that is.
struct HighWater {
  double held = 0;                      // kept by passes whose backward pass is not over
  double working = 0;                   // needed beside it by the pass of that moment
  double gradients = 0;                 // of weights, held whole between the first and the last pass over a chunk
  Pass pass;                            // the pass of that moment
  std::vector<std::int32_t> in_flight;  // micro-batches held, by chunk
  double units = 0;                     // of `working`, what units of sharded parameters take
  double at_s = 0;                      // seconds into the step; 0 where only the order of passes is known
  double bytes() const { return held + working + gradients; }
};

/// In the order in which the schedule runs the passes. `chunks`: what a pass over each chunk of the stage takes.
HighWater high_water(const std::vector<Pass>& passes, const std::vector<PassBytes>& chunks);

/// Counted in a simulated step, from when the operations of each pass really started and finished.
HighWater counted_high_water(const sim::Record& record, const sim::Program& program, const std::vector<OpNote>& notes,
                             const std::vector<PassBytes>& chunks);

/// Activations and whole gradients held from a moment on, in bytes, and what the pass that begins then needs beside
/// them.
struct HeldBytes {
  std::int64_t at = 0;  // picoseconds into the step
  double bytes = 0;
};
/// In the order of simulated time; frees come before what else happens at the same instant.
std::vector<HeldBytes> held_over_time(const sim::Record& record, const sim::Program& program,
                                      const std::vector<OpNote>& notes, const std::vector<PassBytes>& chunks);

}  // namespace orrery::workloads
