// What is run: passes of every stage, and what follows them. A training step and an evaluation are two values of it.
#pragma once

#include <string_view>
#include <vector>

#include "workloads/schedules/schedule.h"

namespace orrery::workloads {

struct Workload {
  std::string_view name;
  /// The passes of a stage, from those that the job's schedule orders.
  std::vector<Pass> (*passes)(std::vector<Pass> scheduled);
  /// The weights were updated since they were last used: what is gathered and cast of them once per step precedes their
  /// first use.
  bool new_weights = false;
  /// Backward passes leave gradients, and the scales of fp8 tensors follow what passes have seen.
  bool gradients = false;
  /// What follows the passes: gradients are reduced and the weights updated, or nothing.
  enum class Ending : std::uint8_t { nothing, update };
  Ending ending = Ending::nothing;

  static const Workload training_step, evaluation;
};

/// All passes of the schedule, then an update of the weights.
inline constexpr Workload Workload::training_step{
    "training step", [](std::vector<Pass> scheduled) { return scheduled; }, true, true, Workload::Ending::update};
/// The forward passes of one global batch.
inline constexpr Workload Workload::evaluation{"evaluation", forward_only, false, false, Workload::Ending::nothing};

}  // namespace orrery::workloads
