// What a GPU that serves holds: weights, activations, graphs, and the rest for the cache. See serving_memory.h.
#include "workloads/step/serving_memory.h"

#include <algorithm>
#include <cmath>

namespace orrery::workloads {

namespace {

constexpr double kStatesToKeys = 0.9;  // SGLang's default
constexpr double kMostBlocks = 1e12;   // of a model that leaves no keys

}  // namespace

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
  memory.sequences = limits.max_sequences;
  if (const double each = cache_bytes_per_sequence(pass); each > 0 && memory.cache > 0) {
    const double room = memory.cache * kStatesToKeys / (1 + kStatesToKeys);
    memory.sequences = std::min(limits.max_sequences, static_cast<std::int64_t>(room / each));
    memory.states = each * real(memory.sequences);
    memory.cache -= memory.states;
  }
  memory.bytes_per_block = cache_bytes_per_token(pass) * real(limits.block_tokens);
  if (memory.cache > 0 && memory.sequences > 0)
    memory.blocks =
        static_cast<std::int64_t>(std::min(kMostBlocks, memory.cache / std::max(1.0, memory.bytes_per_block)));
  return memory;
}

}  // namespace orrery::workloads
