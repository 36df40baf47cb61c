// vLLM's scheduler since V1 (vllm/v1/core/sched/scheduler.py, v0.8 to v0.19): one budget of tokens an iteration. What
// runs comes first, in the order in which it began, so that all that decode have their token and prompts that were
// begun go on; what is left of the budget goes to requests that wait, first come first served, in chunks where a prompt
// is longer. A sequence that finds no block takes those of the one that began last, which computes all of its tokens
// again later; in such an iteration nobody new is let in. By priority the most urgent come first, and the least urgent
// without a chunk in the iteration are thrown out first. Left out: structured output, encoders, the threshold of long
// prefills.
#include <algorithm>

#include "workloads/runs/serving/batching.h"

namespace orrery::serving::policies {

namespace {

void next_of_vllm(Scheduler& scheduler, Plan& plan) {
  const Limits& limits = scheduler.limits();
  bool preempted = scheduler.make_room();
  std::int64_t budget = limits.batched_tokens - scheduler.decoding();
  // Blocks of the decodes are taken when they run: chunks leave them.
  const auto room = [&] { return scheduler.blocks().free() - scheduler.blocks_of_steps(1); };
  for (std::size_t i = 0; i < scheduler.prefilling().size() && budget > 0;) {
    const std::int32_t id = scheduler.prefilling()[i];
    const Sequence& s = scheduler.sequence(id);
    const std::int64_t fresh = std::min<std::int64_t>(s.prompt - s.computed, budget);
    if (scheduler.blocks_of_chunk(id, fresh) > room()) {
      const std::int32_t out = scheduler.preempt();
      preempted = true;
      if (out == id) break;
      continue;
    }
    scheduler.add_chunk(plan, id, fresh);
    budget -= fresh;
    ++i;
  }
  if (preempted || scheduler.gathers()) return;
  while (!scheduler.waiting().empty() && budget > 0 && scheduler.running() < limits.sequences) {
    const Scheduler::Found found = scheduler.found();
    const std::int64_t left = scheduler.sequence(scheduler.waiting().front()).prompt - found.tokens;
    std::int64_t fresh = std::min(left, budget);
    // Without chunks a prompt waits for an iteration that has room for all of it, or has none but it.
    if (!limits.chunked_prefill && fresh < left) {
      if (!plan.chunks.empty()) break;
      fresh = left;
    }
    if (scheduler.blocks_to_begin(found, fresh) > room()) break;
    scheduler.add_chunk(plan, scheduler.admit(), fresh);
    budget -= fresh;
  }
}

}  // namespace

const Batching vllm_v1{"vllm-v1", "vllm/v1/core/sched/scheduler.py", next_of_vllm, true, true};

}  // namespace orrery::serving::policies
