// Where a rank's time went: every picosecond of the step attributed to one category.
#pragma once

#include <array>
#include <span>

#include "sim/engine.h"
#include "sim/plan.h"
#include "workloads/step.h"

namespace orrery::workloads {

/// Exposed time of one recorded rank over [begin, end], in seconds by category; sums to end - begin. All its kernels
/// lie between the two. `tensor_wait`: by operation, the part of its duration that is waiting for tensor collectives
/// (an operation that stands for a pass); empty where no operation does.
std::array<double, kCategories> account(const sim::Record& record, const sim::Program& program, sim::SimTime begin,
                                        sim::SimTime end, std::span<const sim::Duration> tensor_wait = {});

/// Seconds of device time of the rank's compute operations.
double busy_seconds(const sim::Record& record, const sim::Program& program,
                    std::span<const sim::Duration> tensor_wait = {});

/// Whether launches stretch an operation that stands for a pass: account() cannot say where in the pass they did.
bool is_launch_bound(const sim::Record& record, const sim::Program& program,
                     std::span<const sim::Duration> tensor_wait);

}  // namespace orrery::workloads
