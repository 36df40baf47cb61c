// SGLang's scheduler (python/sglang/srt/managers/scheduler.py and schedule_policy.py, v0.4 to v0.5): prompts first. An
// iteration computes prompts alone as long as any that wait fit, and those that decode stand still meanwhile; a prompt
// longer than the chunk is cut, and its rest comes first in the next. A request is let in where the blocks left hold
// its prompt and, of what it and those that run may still write, a share: the engine begins with 0.7 of it and lets the
// share fall towards 0.1 with every decoding iteration; here it is held at what it comes to in the mean, 0.3. With
// mixed chunks (enable_mixed_chunk) those that decode have their token in iterations with prompts, too. Left out:
// longest prefixes first, and urgent requests that throw out others while there is room.
#include <algorithm>

#include "workloads/runs/serving/batching.h"

namespace orrery::serving::policies {

namespace {

constexpr double kShareOfNew = 0.3;

void next_of_sglang(Scheduler& scheduler, Plan& plan, bool mixed) {
  const Limits& limits = scheduler.limits();
  if (mixed) scheduler.make_room();
  std::int64_t budget = limits.batched_tokens - (mixed ? scheduler.decoding() : 0);
  // Blocks of the decodes are taken when they run: prompts leave them.
  const auto room = [&] { return scheduler.blocks().free() - (mixed ? scheduler.blocks_of_steps(1) : 0); };
  if (!scheduler.prefilling().empty()) {
    const std::int32_t id = scheduler.prefilling().front();
    const Sequence& s = scheduler.sequence(id);
    const std::int64_t fresh = std::min<std::int64_t>(s.prompt - s.computed, budget);
    while (scheduler.blocks_of_chunk(id, fresh) > room() && scheduler.victim() != id) scheduler.preempt();
    if (scheduler.blocks_of_chunk(id, fresh) <= room()) {
      scheduler.add_chunk(plan, id, fresh);
      budget -= fresh;
    }
  }
  // What those that decode may still write, at the mean of what is left to them: half of their answers.
  const auto reserved = [&] {
    return static_cast<std::int64_t>(kShareOfNew * static_cast<double>(scheduler.promised_blocks()));
  };
  while (!scheduler.waiting().empty() && budget > 0 && scheduler.running() < limits.sequences) {
    const Scheduler::Found found = scheduler.found();
    const std::int32_t id = scheduler.waiting().front();
    const std::int64_t left = scheduler.sequence(id).prompt - found.tokens;
    std::int64_t fresh = std::min(left, budget);
    if (!limits.chunked_prefill && fresh < left) {
      if (!plan.chunks.empty()) break;
      fresh = left;
    }
    const std::int64_t own = static_cast<std::int64_t>(
        kShareOfNew * static_cast<double>(scheduler.blocks().of_tokens(scheduler.request(id).output)));
    const bool alone = scheduler.running() == 0;
    const std::int64_t asked = scheduler.blocks_to_begin(found, left) + (alone ? 0 : own + reserved());
    if (asked > room()) break;
    scheduler.add_chunk(plan, scheduler.admit(), fresh);
    budget -= fresh;
    if (fresh < left) break;
  }
  plan.decodes = mixed || plan.chunks.empty();
  if (!mixed && plan.decodes) scheduler.make_room();
}

void next_in_turn(Scheduler& scheduler, Plan& plan) { next_of_sglang(scheduler, plan, false); }
void next_mixed(Scheduler& scheduler, Plan& plan) { next_of_sglang(scheduler, plan, true); }

constexpr const char* kSchedulePolicy = "sgl-project/sglang, managers/schedule_policy.py";

}  // namespace

const Batching sglang{"sglang", kSchedulePolicy, next_in_turn, true, false};
const Batching sglang_mixed{"sglang-mixed", kSchedulePolicy, next_mixed, true, true};

}  // namespace orrery::serving::policies
