// What a report says of a recommender's embedding tables.
#pragma once

#include <iosfwd>

#include "scenarios/scenario.h"
#include "workloads/step/step.h"

namespace orrery::tools {

/// The tables' kernels beside what the memory's full bandwidth would take, and their exchanges beside what the links
/// would. Nothing for other models.
void write_tables(std::ostream& out, const scenarios::Scenario& scenario, const workloads::StepReport& report);

}  // namespace orrery::tools
