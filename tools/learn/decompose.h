// Where a rank's step goes, from its trace: every nanosecond of it belongs to a kernel of computing, to a collective or
// copy that nothing hides, or to nothing at all; so the parts add up to the step, and differences of two traces' parts
// to the difference of their steps.
#pragma once

#include <compare>
#include <map>
#include <vector>

#include "tools/learn/trace.h"

namespace orrery::tools {

/// What a part is of. Collectives count in no phase: frameworks begin them early or late.
struct Part {
  Phase phase = Phase::other;
  bool exposed = false;  // communication, or no work at all (`idle`)
  bool idle = false;
  OpClass what = OpClass::unknown;
  auto operator<=>(const Part&) const = default;
};
/// "forward: matrix products", "exposed all-reduce", "idle in the backward pass".
std::string text(const Part& part);
/// "compute" or "communication", or "idle".
std::string_view stream_of(const Part& part);

struct Tally {
  double seconds = 0;  // per step: of the step's own time
  double busy_s = 0;   // per step: of the device's, hidden or not
  double count = 0;    // per step
};

struct Decomposition {
  double step_s = 0;
  std::size_t steps = 0;
  std::size_t read = 0, within = 0;  // pieces of the device's work: in the trace, and within its steps; of all ranks
  std::map<Part, Tally> parts;       // their seconds add up to step_s
  double device_s = 0;               // busy time of all kernels, per step
  double unnamed_s = 0;              // of it, of kernels whose names the table does not have
  std::vector<std::pair<std::string, double>> unnamed;  // the longest of these, seconds per step
};

/// Of one trace.
Decomposition decompose(const Trace& trace);
/// The mean over ranks.
Decomposition mean_of(const std::vector<Decomposition>& ranks);

/// The part of `all` (its device's events, sorted by start) within steps: launched there, or begun where no launch is
/// known.
std::vector<DeviceEvent> within_steps(const Trace& trace);

/// Lines that say how much of the device's time is explained by name, and the longest names that are not.
std::string naming_text(const Decomposition& d);

}  // namespace orrery::tools
