// How an engine puts an iteration together: a policy, one file each and a row of the catalogue.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "workloads/runs/serving/scheduler.h"

namespace orrery::serving {

struct Batching {
  std::string_view name, source;
  /// Admits, cuts chunks and preempts; the plan is empty where nothing can run.
  void (*next)(Scheduler& scheduler, Plan& plan);
  /// Whether the first that waits may begin to run while nothing ends and no chunk is left, once it was turned away.
  bool preempts, mixes;
};

namespace policies {
extern const Batching vllm_v1, sglang, sglang_mixed, no_evict, max_utilization;
}

std::span<const Batching* const> batching_policies();
/// The policy of that name; null where there is none.
const Batching* find_batching(std::string_view name);
std::vector<std::string> batching_names();

}  // namespace orrery::serving
