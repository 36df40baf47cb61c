// Which operations made a step as long as it is: the chain from its end back to its beginning.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "workloads/step/step.h"

namespace orrery::tools {

/// A stretch of the path on one rank. What fills it is an operation of that rank, or nothing that was recorded.
struct PathPart {
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  std::size_t timeline = 0;
  std::size_t span = kNone;  // of the timeline; kNone: the host, or a rank that was not recorded
  sim::SimTime from{}, to{};
};

/// The parts in order of time; they lie end to end from 0 to the end of the last operation. Backwards from there:
/// before an operation comes the one that ended last on its stream, its rank, or where a transfer waited for a rank
/// that rank. Left out: ranks that were not recorded, and which of several operations that end in one instant was
/// needed; that of the same stream is taken.
std::vector<PathPart> critical_path(const std::vector<workloads::Timeline>& timelines);

}  // namespace orrery::tools
