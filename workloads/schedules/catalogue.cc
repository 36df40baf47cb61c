// The catalogue of pipeline schedules: name -> function and properties.
#include <fmt/format.h>

#include "sim/error.h"
#include "workloads/schedules/schedule.h"

namespace orrery::workloads {

std::vector<Pass> passes_of(ScheduleKind schedule, std::int32_t stage, std::int32_t stages, std::int32_t chunks,
                            std::int32_t microbatches) {
  switch (schedule) {
    case ScheduleKind::gpipe:
      return gpipe(microbatches);
    case ScheduleKind::one_f_one_b:
      return one_f_one_b(stage, stages, microbatches);
    case ScheduleKind::interleaved_1f1b:
      return interleaved_1f1b(stage, stages, chunks, microbatches);
    case ScheduleKind::zb_h1:
      return zb_h1(stage, stages, microbatches);
    case ScheduleKind::zb_h2:
      return zb_h2(stage, stages, microbatches);
    case ScheduleKind::zb_v:
      return zb_v(stage, stages, microbatches);
    case ScheduleKind::v_half:
      return v_half(stage, stages, microbatches);
    case ScheduleKind::v_min:
      return v_min(stage, stages, microbatches);
    case ScheduleKind::dualpipe:
      return dualpipe(stage, stages, microbatches);
  }
  SIM_CHECK(false, "no passes for schedule {}", name_of(schedule));
  return {};
}

bool splits_backward(ScheduleKind schedule) {
  return schedule != ScheduleKind::gpipe && schedule != ScheduleKind::one_f_one_b &&
         schedule != ScheduleKind::interleaved_1f1b;
}

std::int64_t chunks_of(ScheduleKind schedule) {
  switch (schedule) {
    case ScheduleKind::interleaved_1f1b:
      return 0;
    case ScheduleKind::zb_v:
    case ScheduleKind::v_half:
    case ScheduleKind::v_min:
    case ScheduleKind::dualpipe:
      return 2;
    default:
      return 1;
  }
}

std::vector<Pass> forward_only(std::vector<Pass> passes) {
  std::erase_if(passes, [](const Pass& pass) { return pass.kind != PassKind::forward; });
  for (Pass& pass : passes) pass.with_next = false;
  return passes;
}

char letter_of(PassKind kind) { return "FBbW"[static_cast<std::size_t>(kind)]; }

std::string text(const std::vector<Pass>& passes, bool with_chunks) {
  std::string line;
  for (const Pass& pass : passes) {
    line += letter_of(pass.kind);
    if (with_chunks) line += fmt::format("{}.", pass.chunk);
    line += fmt::format("{}{}", pass.microbatch, pass.with_next ? "" : " ");
  }
  return line;
}

}  // namespace orrery::workloads
