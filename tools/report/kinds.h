// Nodes of several kinds in one job: what each computes and holds.
#pragma once

#include <iosfwd>
#include <nlohmann/json_fwd.hpp>

#include "workloads/step/step.h"

namespace orrery::tools {

/// A table of the kinds of nodes: GPUs, stages, layers of a stage, the share of the step that kernels run on its
/// busiest stage, memory. Nothing where all nodes are alike.
void write_kinds(std::ostream& out, const workloads::Job& job, const workloads::StepReport& report);

/// The same, times in seconds and sizes in bytes: `kinds` of a result. Empty where all nodes are alike.
nlohmann::ordered_json kinds_json(const workloads::Job& job, const workloads::StepReport& report);

}  // namespace orrery::tools
