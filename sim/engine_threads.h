// One run on several threads, and in the parts that run ahead of each other.
#pragma once

#include <cstdint>

#include "sim/engine.h"

namespace orrery::sim {

struct Threads {
  std::uint32_t count = 1;            // parts of the plan that run at a time, at most 64
  std::uint64_t together_from = 256;  // events of an instant from which they do; with fewer, one thread goes through it
  std::size_t ahead_from = 512;       // instances from which islands (islands.h) run ahead of each other, on one thread
                                      // also where there may be two
};

/// As run(), with the same times, on `threads`. Pays where many instances do the same at an instant, as replicas do.
/// Result::solves may differ by a few.
Result run(const Plan& plan, const Network& network, const RunOptions& options, const Threads& threads);

}  // namespace orrery::sim
