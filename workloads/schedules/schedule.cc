// Orders as texts, and what holds for the orders of any schedule. See schedule.h.
#include "workloads/schedules/schedule.h"

#include <fmt/format.h>

namespace orrery::workloads {

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

std::vector<Pass> forward_only(std::vector<Pass> passes) {
  std::erase_if(passes, [](const Pass& pass) { return pass.kind != PassKind::forward; });
  for (Pass& pass : passes) pass.with_next = false;
  return passes;
}

StageOrders paper_orders(const Schedule& schedule, const PipelineShape& shape) {
  StageOrders orders;
  for (std::int32_t stage = 0; stage < shape.stages; ++stage) orders.push_back(schedule.passes(stage, shape));
  return orders;
}

}  // namespace orrery::workloads
