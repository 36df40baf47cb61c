// See served_tables.h.
#include "tools/study/served_tables.h"

#include <utility>

namespace orrery::tools {

const calibration::ServingKernels& ServedTables::kernels_of(const scenarios::ServingScenario& scenario) {
  const std::lock_guard lock(mutex_);
  if (!kernels_) kernels_ = scenarios::kernels_of(scenario.machine.device, scenario.replica.engine.kernels);
  return *kernels_;
}

std::shared_ptr<workloads::IterationTimes> ServedTables::times_of(const scenarios::ServingScenario& scenario,
                                                                  const scenarios::ServedPool& pool) {
  const workloads::ServedLayout& l = pool.replica.layout;
  const Layout layout{l.tensor,      l.pipeline,     l.expert, l.attention_data, l.redundant_experts,
                      l.expert_gpus, l.micro_batches};
  Times times;
  {
    const std::lock_guard lock(mutex_);
    std::vector<Times>& idle = idle_[layout];
    if (!idle.empty()) {
      times = std::move(idle.back());
      idle.pop_back();
    }
  }
  if (times == nullptr) times = std::make_unique<workloads::IterationTimes>(pool.replica, kernels_of(scenario));
  return {times.release(), [this, layout](workloads::IterationTimes* back) {
            const std::lock_guard lock(mutex_);
            idle_[layout].emplace_back(back);
          }};
}

}  // namespace orrery::tools
