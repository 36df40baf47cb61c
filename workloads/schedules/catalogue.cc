// The catalogue of pipeline schedules: name -> function.
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
    default:
      break;
  }
  SIM_CHECK(false, "no passes for schedule {}", name_of(schedule));
  return {};
}

bool is_modelled(ScheduleKind schedule) {
  return schedule == ScheduleKind::gpipe || schedule == ScheduleKind::one_f_one_b ||
         schedule == ScheduleKind::interleaved_1f1b;
}

std::vector<Pass> forward_only(ScheduleKind schedule, std::int32_t stage, std::int32_t stages, std::int32_t chunks,
                               std::int32_t microbatches) {
  std::vector<Pass> passes = passes_of(schedule, stage, stages, chunks, microbatches);
  std::erase_if(passes, [](const Pass& pass) { return pass.backward; });
  return passes;
}

std::string text(const std::vector<Pass>& passes, bool with_chunks) {
  std::string line;
  for (const Pass& pass : passes) {
    line += pass.backward ? 'B' : 'F';
    if (with_chunks) line += fmt::format("{}.", pass.chunk);
    line += fmt::format("{} ", pass.microbatch);
  }
  return line;
}

}  // namespace orrery::workloads
