// How much of a device an inference engine has left for the cache: what memory_utilization gives it, less weights, what
// its largest iteration keeps while it runs, what captured graphs and libraries hold. Engines find it by running that
// iteration; nothing here is read from a log. States of mixers have places set aside for as many sequences as may be
// under way, up to 0.9 of what keys get (SGLang's --mamba-full-memory-ratio, srt/server_args.py); vLLM takes pages of
// the same pool for them as sequences come, which leaves more to keys while there are few.
#pragma once

#include <cstdint>

#include "workloads/step/iteration_times.h"

namespace orrery::workloads {

struct ServingLimits {
  std::int64_t max_sequences = 256, max_batched_tokens = 8192, block_tokens = 16;
  double memory_utilization = 0.9;
};

/// Bytes on the fullest GPU.
struct ServingMemory {
  double total = 0, given = 0;  // of the device; what the engine takes of it
  double weights = 0, activations = 0, sampler = 0, reserve = 0, graphs = 0;
  double cache = 0;  // what is left; less than 0: weights do not fit
  /// Of what is left, that is set aside for what sequences hold whatever their length, and how many of them that is
  /// enough for, of an attention group: fewer than the limit where they would take most of the cache.
  double states = 0;
  std::int64_t sequences = 0;
  double bytes_per_block = 0;
  std::int64_t blocks = 0;  // of an attention group
  double held() const { return weights + activations + sampler + reserve + graphs; }
};

ServingMemory serving_memory(const ServedReplica& replica, const ServedPass& pass, double device_bytes,
                             const ServingLimits& limits);

}  // namespace orrery::workloads
