// Reserved memory of a job's stages, walked through the caching allocator.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "workloads/compile/stage_program.h"
#include "workloads/memory/memory.h"

namespace orrery::workloads {

/// What of a job it follows from. Refers to its values, which must stay valid.
struct ReserveInputs {
  const Machine& machine;
  const calibration::Software& software;
  const Parallelism& layout;
  PipelineShape shape;
  ProgramInputs programs;
};

/// Where its groups lie.
struct Grounds {
  const topology::Cluster& cluster;
  const GroupShapes& shapes;
};

/// Bytes by stage; empty where the software does not ask for it, or layers, schedule or sharding are of another make
/// than what is walked. `stages`: what they take by formula, for what lies outside of the allocator. `behind`: a stage
/// whose host is behind its device's work, and has no lead beyond a message.
std::vector<double> walked_reserves(const ReserveInputs& inputs, const LayerSplit& split, const Grounds& grounds,
                                    std::span<const StageMemory> stages, std::optional<std::size_t> behind);

}  // namespace orrery::workloads
