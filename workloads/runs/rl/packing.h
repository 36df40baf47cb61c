// Answers of many lengths as micro-batches of the trainer: so many tokens at most, the longest first to where they fit
// best (best fit decreasing, Johnson et al., SIAM J. Computing 3 (1974); NeMo-RL packs by first fit decreasing, verl
// balances by Karmarkar-Karp, whose numbers of bins differ by little). All ranks run as many micro-batches.
#pragma once

#include <cstdint>
#include <span>

#include "workloads/runs/rl/batch.h"

namespace orrery::rl {

struct Packed {
  std::int64_t each = 0;  // micro-batches of a rank
  double tokens = 0;      // of a micro-batch in the mean
  std::int64_t most = 0;  // tokens of the fullest
  double document = 0;    // length of an answer with its prompt, weighted by tokens
};

/// `several`: whether a micro-batch may hold more than one; what is longer than `most` has one to itself.
Packed pack(std::span<const Sample> samples, std::int64_t most, std::int64_t ranks, bool several);

}  // namespace orrery::rl
