// The programs of all stages as data, with what a reader wants to know of each operation beside the engine's columns.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/plan.h"
#include "workloads/collectives/collective.h"
#include "workloads/model/passes.h"
#include "workloads/schedules/schedule.h"

namespace orrery::workloads {

/// One kind of traffic; operations point to it through OpNote::traffic.
struct TrafficKey {
  CommGroup group;
  CollectiveOp op{};
  std::string what;
  std::int64_t ranks = 1;    // of the group
  double bytes = 0;          // whole buffer of one call
  double sent_per_call = 0;  // what one rank sends
};

inline constexpr std::uint32_t kNoTraffic = 0xffffffff;
inline constexpr std::uint32_t kNoWholePass = 0xffffffff;

/// What a reader wants to know of an operation, beside the engine's columns.
struct OpNote {
  std::uint32_t run = 0;  // compute: index into StagePrograms::runs
  std::uint32_t traffic = kNoTraffic;
  std::int32_t microbatch = -1;
  std::int16_t chunk = -1;
  PassKind kind = PassKind::forward;
  bool within_pass = false;            // work of the pass, not a message before or behind it
  bool counts = true;                  // false: the tail of a transfer that was cut in two, its call counted already
  double share = 1.0;                  // of the call's bytes that this operation moves
  std::uint32_t whole = kNoWholePass;  // compute: a pass in one operation, index into StagePrograms::whole_passes
  std::int32_t layer = -1;             // of the network, embedding and head among them; -1: of none
};

/// What an operation that stands for a pass holds.
struct WholePassNote {
  sim::Duration tensor_wait{};    // of its duration
  std::vector<OpNote> transfers;  // one per tensor collective
};

/// The programs of all stages, before instances exist.
struct StagePrograms {
  std::vector<sim::Program> programs;      // by stage
  std::vector<std::vector<OpNote>> notes;  // by stage and operation
  /// By stage, micro-batches whose kernels are slower beside collectives of whole chunks, begun ahead of them.
  std::vector<std::vector<std::int32_t>> slowed;
  std::vector<std::vector<Kernel>> runs;  // kernels of compute operations
  std::vector<WholePassNote> whole_passes;
  std::vector<TrafficKey> traffic;
  StageOrders orders;  // the passes of each stage
};

}  // namespace orrery::workloads
