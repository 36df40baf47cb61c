// What a GPU that serves holds: weights, activations, graphs, and the rest for the cache. See serving_memory.h.
#include "workloads/step/serving_memory.h"

#include <algorithm>
#include <cmath>

namespace orrery::workloads {

ServingMemory serving_memory(const ServedReplica& replica, const ServedPass& pass, double device_bytes,
                             const ServingLimits& limits) {
  const calibration::ServingEngine::Reserve& reserve = replica.engine.reserve;
  const auto real = [](std::int64_t n) { return static_cast<double>(n); };
  ServingMemory memory;
  memory.total = device_bytes;
  memory.weights = weight_bytes(pass);
  memory.reserve = reserve.context + reserve.per_gpu * real(replica.layout.tensor - 1);
  memory.sampler = reserve.per_logit * real(replica.model.vocab) * real(limits.max_sequences);
  memory.activations = reserve.per_activation * real(replica.model.hidden) * real(limits.max_batched_tokens);
  memory.graphs = reserve.per_graph * static_cast<double>(replica.engine.graph_sizes.size());
  const double others = memory.held() - memory.weights;
  memory.given = limits.memory_utilization * (reserve.of_free ? device_bytes - memory.weights : device_bytes) +
                 (reserve.of_free ? memory.weights : 0);
  memory.cache = memory.given - memory.weights - others;
  memory.bytes_per_block = cache_bytes_per_token(pass) * real(limits.block_tokens);
  memory.blocks = memory.cache > 0 ? static_cast<std::int64_t>(memory.cache / memory.bytes_per_block) : 0;
  return memory;
}

}  // namespace orrery::workloads
