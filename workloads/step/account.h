// Where a rank's time went: every picosecond of the step attributed to one category.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "sim/engine.h"
#include "sim/plan.h"
#include "workloads/groups/comm_groups.h"
#include "workloads/groups/streams.h"
#include "workloads/step/step.h"

namespace orrery::workloads {

/// A recorded rank: when its operations ran, what they are, whom they are among, and its factor on compute times.
struct RankRecord {
  const sim::Record* record = nullptr;
  const sim::Program* program = nullptr;
  const std::vector<GroupSlot>* slots = nullptr;  // sim::Program::slot's
  double slowdown = 1.0;                          // sim::Instance's
  bool pipelined = true;                          // there are other stages to wait for
};

/// Exposed time by category: whole picoseconds, so that a step and a shorter one that repeats differ by nothing.
using TimeByCategory = std::array<sim::Duration, kCategories>;
std::array<double, kCategories> in_seconds(const TimeByCategory& parts);

/// Exposed time of one recorded rank over [begin, end]; sums to end - begin. All its kernels lie between the two.
/// `tensor_wait`: by operation, the part of its duration that is waiting for tensor collectives (an operation that
/// stands for a pass); empty where no operation does. `gaps`: where given, the time between kernels is added to it, in
/// order.
TimeByCategory account(const RankRecord& rank, sim::SimTime begin, sim::SimTime end,
                       std::span<const sim::Duration> tensor_wait = {}, std::vector<Timeline::Gap>* gaps = nullptr);

/// Device time of the rank's kernels; not what they wait for their launches.
sim::Duration busy_time(const RankRecord& rank, std::span<const sim::Duration> tensor_wait = {});

/// Whether launches stretch an operation that stands for a pass: account() cannot say where in the pass they did.
bool is_launch_bound(const RankRecord& rank, std::span<const sim::Duration> tensor_wait);

}  // namespace orrery::workloads
