// Where a rank's time went: every picosecond of the step attributed to one category.
#pragma once

#include <array>

#include "sim/engine.h"
#include "sim/plan.h"
#include "workloads/step.h"

namespace orrery::workloads {

/// Exposed time of one recorded rank over [begin, end], in seconds by category; sums to end - begin. All its kernels
/// lie between the two.
std::array<double, kCategories> account(const sim::Record& record, const sim::Program& program, sim::SimTime begin,
                                        sim::SimTime end);

/// Seconds of device time of the rank's compute operations.
double busy_seconds(const sim::Record& record, const sim::Program& program);

}  // namespace orrery::workloads
