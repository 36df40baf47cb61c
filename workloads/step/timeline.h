// What readers want to see of a simulated step: recorded ranks as spans with names, the memory that they hold, and the
// load of links.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "sim/engine.h"
#include "workloads/job/step_plan.h"
#include "workloads/model/kept.h"
#include "workloads/step/step.h"

namespace orrery::workloads {

/// A rank that ran, or that one like it stands for.
struct RecordedRank {
  const sim::Record* record = nullptr;
  std::int64_t rank = 0, ranks = 1, stage = 0;
};

/// Spans of every operation, in issue order. `program`: the stage's, which has moved out of `step`. `host`: what
/// launches cost in it.
Timeline timeline_of(const Dims& dims, const StepPlan& step, const sim::Program& program, const RecordedRank& rank,
                     const calibration::HostCosts& host);

/// When they ran, alone.
StageBars bars_of(const StepPlan& step, const sim::Program& program, const RecordedRank& rank);

/// The kernels of ranks, those of one name and size together, in their order.
class KernelUses {
 public:
  /// `program`: as for timeline_of.
  void add(const StepPlan& step, const sim::Program& program, std::int64_t stage);
  std::vector<KernelUse> list() const;

 private:
  using Key = std::tuple<std::string, double, double, calibration::DataType>;
  std::map<Key, KernelUse> uses_;
};

/// Bytes held over the step: `memory` at the fullest moment says what stays, `record` when activations come and go. Its
/// highest point is memory.total, as far as the fullest moment of simulated time is that of the schedule's order.
/// `chunks`: what a pass over each chunk of the rank's stage takes.
std::vector<Timeline::Memory> memory_over_time(const StepPlan& step, const sim::Program& program,
                                               const RecordedRank& rank, const StageMemory& memory,
                                               const std::vector<PassBytes>& chunks);

/// The load of the links of `network` that recorded transfers cross, the busiest (by share of its capacity) first, at
/// most kMostLinkLoads. `records`: of at least one member of every communicator. `full_link`: the cluster's link that
/// each link of `network` stands for.
inline constexpr std::size_t kMostLinkLoads = 64;
std::vector<LinkLoad> link_loads(const sim::Plan& plan, const sim::Network& network,
                                 std::span<const sim::Record> records, std::span<const sim::LinkId> full_link,
                                 const topology::Cluster& cluster);

}  // namespace orrery::workloads
