// Which passes may be simulated as one operation, from how a job's groups lie on its cluster.
#pragma once

#include <limits>

#include "sim/units.h"

namespace orrery::workloads {

/// Which passes become one operation each.
struct WholePasses {
  /// Bytes/s up to which tensor collectives are sure of their own rate; a pass whose collectives all stay below becomes
  /// one operation (0: none does).
  double sure_rate = 0;
  /// All do that hold nothing but kernels and tensor collectives, which take what they take alone: no less than the
  /// latency of their route, no faster than its links. The step is then never longer than it is.
  bool alone = false;
  /// Those that hold nothing but kernels and tensor collectives, and are not one operation, become a stretch
  /// (sim/plan.h): the same times, but none of what goes on inside.
  bool stretches = false;
  double most_rate = std::numeric_limits<double>::infinity();  // bytes/s
  sim::Duration least_latency{};
};

}  // namespace orrery::workloads
