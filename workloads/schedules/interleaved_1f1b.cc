// Interleaved 1F1B (Narayanan et al., arXiv 2104.04473, section 2.2 and figure 4 bottom), in the order of Megatron-LM:
// the k-th forward pass of a stage takes chunk (k mod p v) / p and micro-batch (k / p v) p + k mod p; backward passes
// run through the chunks from the last to the first. Stage s warms up with 2 (p-1-s) + (v-1) p forward passes. Bubble
// (p-1)/(v m) of the ideal time.
#include <algorithm>

#include "sim/error.h"
#include "workloads/schedules/schedule.h"

namespace orrery::workloads {

namespace {
Pass nth_pass(PassKind kind, std::int64_t k, std::int32_t stages, std::int32_t chunks) {
  const std::int64_t round = static_cast<std::int64_t>(stages) * chunks;
  const auto chunk = static_cast<std::int32_t>(k % round / stages);
  const auto microbatch = static_cast<std::int32_t>(k / round * stages + k % stages);
  return {kind, kind == PassKind::backward ? chunks - 1 - chunk : chunk, microbatch};
}
}  // namespace

std::vector<Pass> interleaved_1f1b(std::int32_t stage, std::int32_t stages, std::int32_t chunks,
                                   std::int32_t microbatches) {
  SIM_CHECK(microbatches % stages == 0, "{} micro-batches do not come in groups of {} stages", microbatches, stages);
  const std::int64_t total = static_cast<std::int64_t>(microbatches) * chunks;
  // With one group of micro-batches Megatron-LM runs every forward pass before the first backward pass.
  const std::int64_t ahead = 2LL * (stages - 1 - stage) + static_cast<std::int64_t>(chunks - 1) * stages;
  const std::int64_t warm_up = microbatches == stages ? total : std::min(total, ahead);
  std::vector<Pass> passes;
  passes.reserve(2 * static_cast<std::size_t>(total));
  for (std::int64_t k = 0; k < warm_up; ++k) passes.push_back(nth_pass(PassKind::forward, k, stages, chunks));
  for (std::int64_t k = warm_up; k < total; ++k) {
    passes.push_back(nth_pass(PassKind::forward, k, stages, chunks));
    passes.push_back(nth_pass(PassKind::backward, k - warm_up, stages, chunks));
  }
  for (std::int64_t k = total - warm_up; k < total; ++k)
    passes.push_back(nth_pass(PassKind::backward, k, stages, chunks));
  return passes;
}

}  // namespace orrery::workloads
