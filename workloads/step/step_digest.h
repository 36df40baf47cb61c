// A number for all that a simulation's times follow from, so that a study simulates equal steps once: layouts that
// differ in what they hold but in nothing that they do, as sharded gradients that are reduced once a step do from
// sharded optimizers.
#pragma once

#include <cstdint>

#include "workloads/job/step_plan.h"
#include "workloads/step/steady_state.h"

namespace orrery::workloads {

/// 128 bits: of the few thousand steps of a search, two that differ have equal digests about once in 10^31 searches.
struct StepDigest {
  std::uint64_t one = 0, other = 0;
  bool operator==(const StepDigest&) const = default;
};

/// Of the folded run of `step`: its programs, the classes of ranks and communicators, links and routes, and the passes
/// that its operations belong to. `jump`: which part of it is to repeat; null: none is looked for.
/// `longest_at_work`: which of the two ways its times are read.
StepDigest digest_of(const StepPlan& step, const Jump* jump, bool longest_at_work);

}  // namespace orrery::workloads
