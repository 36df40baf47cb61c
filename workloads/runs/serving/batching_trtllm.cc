// TensorRT-LLM's capacity schedulers (cpp/tensorrt_llm/batch_manager/capacityScheduler.cpp, v0.9 to v1.2) with
// in-flight batching: prompts and decodes share an iteration of at most max_num_tokens. GUARANTEED_NO_EVICT lets a
// request in where the blocks left hold all that it and those that run may ever write, so that nobody is ever thrown
// out; MAX_UTILIZATION where they hold its prompt, and throws out the last that came where they run out. Prompts
// may wait for more of them (py_executor.py: batch_wait_timeout_iters and batch_wait_max_tokens_ratio; and
// attention_dp_config, by which every rank is to have one). Left out: static batches.
#include <algorithm>

#include "workloads/runs/serving/batching.h"

namespace orrery::serving::policies {

namespace {

void next_of_trtllm(Scheduler& scheduler, Plan& plan, bool no_evict) {
  const Limits& limits = scheduler.limits();
  const bool preempted = scheduler.make_room();
  std::int64_t budget = limits.batched_tokens - scheduler.decoding();
  const auto room = [&] { return scheduler.blocks().free() - scheduler.blocks_of_steps(1); };
  for (std::size_t i = 0; i < scheduler.prefilling().size() && budget > 0;) {
    const std::int32_t id = scheduler.prefilling()[i];
    const Sequence& s = scheduler.sequence(id);
    const std::int64_t fresh = std::min<std::int64_t>(s.prompt - s.computed, budget);
    if (scheduler.blocks_of_chunk(id, fresh) > room()) {
      if (scheduler.preempt() == id) break;
      continue;
    }
    scheduler.add_chunk(plan, id, fresh);
    budget -= fresh;
    ++i;
  }
  if (preempted || scheduler.gathers()) return;
  while (!scheduler.waiting().empty() && budget > 0 && scheduler.running() < limits.sequences) {
    const Scheduler::Found found = scheduler.found();
    const std::int32_t id = scheduler.waiting().front();
    const std::int64_t left = scheduler.sequence(id).prompt - found.tokens;
    std::int64_t fresh = std::min(left, budget);
    if (!limits.chunked_prefill && fresh < left) {
      if (!plan.chunks.empty()) break;
      fresh = left;
    }
    const std::int64_t asked = no_evict ? scheduler.promised_blocks() + found.blocks + scheduler.blocks_at_end(id) -
                                              found.contents * scheduler.blocks().of_content()
                                        : scheduler.blocks_to_begin(found, left);
    if (asked > (no_evict ? scheduler.blocks().free() : room())) break;
    scheduler.add_chunk(plan, scheduler.admit(), fresh);
    budget -= fresh;
  }
}

void next_no_evict(Scheduler& scheduler, Plan& plan) { next_of_trtllm(scheduler, plan, true); }
void next_max_utilization(Scheduler& scheduler, Plan& plan) { next_of_trtllm(scheduler, plan, false); }

constexpr const char* kSource = "NVIDIA/TensorRT-LLM, batch_manager/capacityScheduler.cpp";

}  // namespace

const Batching no_evict{"trtllm-no-evict", kSource, next_no_evict, false, true};
const Batching max_utilization{"trtllm-max-utilization", kSource, next_max_utilization, true, true};

}  // namespace orrery::serving::policies
