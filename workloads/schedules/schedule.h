// Pipeline schedules: in which order a stage runs the forward and backward passes of its micro-batches and chunks. Each
// schedule is a pure function in a file of its own; the catalogue lists them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "workloads/job.h"

namespace orrery::workloads {

/// One pass of one micro-batch through one chunk of a stage's layers.
struct Pass {
  bool backward = false;
  std::int32_t chunk = 0;  // 0 .. virtual_pipeline - 1, counted on the stage
  std::int32_t microbatch = 0;
  friend bool operator==(const Pass&, const Pass&) = default;
};

/// "F0 F1 B0 B1 " for one chunk, "F0.0 F0.1 B1.0 " (chunk.microbatch) for more, as papers draw schedules.
std::string text(const std::vector<Pass>& passes, bool with_chunks = false);

/// GPipe (Huang et al., arXiv 1811.06965): all forward passes, then all backward passes in reverse order.
std::vector<Pass> gpipe(std::int32_t microbatches);

/// 1F1B (PipeDream-flush; Narayanan et al., arXiv 2104.04473): stage s runs p - 1 - s forward passes ahead, then one
/// forward and one backward in turn.
std::vector<Pass> one_f_one_b(std::int32_t stage, std::int32_t stages, std::int32_t microbatches);

/// Interleaved 1F1B (arXiv 2104.04473, section 2.2): the stage's layers are cut into chunks; micro-batches go through
/// in groups of p, chunk by chunk. microbatches must be a multiple of stages.
std::vector<Pass> interleaved_1f1b(std::int32_t stage, std::int32_t stages, std::int32_t chunks,
                                   std::int32_t microbatches);

/// The passes of one stage under the schedule of that name; the catalogue of schedules.
std::vector<Pass> passes_of(ScheduleKind schedule, std::int32_t stage, std::int32_t stages, std::int32_t chunks,
                            std::int32_t microbatches);
/// Whether passes_of knows the schedule.
bool is_modelled(ScheduleKind schedule);

/// Forward passes alone, in the order in which `schedule` would run them: an evaluation.
std::vector<Pass> forward_only(ScheduleKind schedule, std::int32_t stage, std::int32_t stages, std::int32_t chunks,
                               std::int32_t microbatches);

}  // namespace orrery::workloads
