// What the kin of 1F1B share: forward passes ahead, then one forward and one backward in turn.
#pragma once

#include <cstdint>
#include <vector>

#include "workloads/schedules/schedule.h"

namespace orrery::workloads {

/// `warm_up` of `total` forward passes, then one forward and one backward in turn, then the backward passes that are
/// left. `nth(kind, k)`: the k-th pass of that kind.
template <class Nth>
std::vector<Pass> in_turn(std::int64_t warm_up, std::int64_t total, Nth nth) {
  std::vector<Pass> passes;
  passes.reserve(2 * static_cast<std::size_t>(total));
  for (std::int64_t k = 0; k < warm_up; ++k) passes.push_back(nth(PassKind::forward, k));
  for (std::int64_t k = warm_up; k < total; ++k) {
    passes.push_back(nth(PassKind::forward, k));
    passes.push_back(nth(PassKind::backward, k - warm_up));
  }
  for (std::int64_t k = total - warm_up; k < total; ++k) passes.push_back(nth(PassKind::backward, k));
  return passes;
}

/// The same with one chunk per stage, micro-batch after micro-batch.
inline std::vector<Pass> in_turn(std::int64_t warm_up, std::int64_t microbatches) {
  return in_turn(warm_up, microbatches, [](PassKind kind, std::int64_t k) {
    return Pass{kind, 0, static_cast<std::int32_t>(k)};
  });
}

}  // namespace orrery::workloads
