// What an iteration takes, as the loop of requests asks it: nothing here knows models, kernels or devices.
//
// Between two arrivals, ends and chunks the batch stays as it is but for its caches, which grow by a token a sequence
// and iteration. So the time of an iteration that only decodes is given as pieces that are linear in the keys of the
// batch, in whole picoseconds: sums over iterations are then closed forms, and equal to those taken one by one.
#pragma once

#include <cstdint>
#include <span>

#include "workloads/runs/serving/trace.h"

namespace orrery::serving {

/// For keys in [from, until): at_from + per_key (keys - from).
struct Segment {
  std::int64_t from = 0, until = INT64_MAX;
  Time at_from = 0, per_key = 0;
  Time at(std::int64_t keys) const { return at_from + per_key * (keys - from); }
};

/// A part of a prompt that an iteration computes, on what is cached ahead of it.
struct Piece {
  std::int64_t fresh = 1, cached = 0;
};

/// An iteration with parts of prompts in it.
struct Mixed {
  std::int64_t decodes = 0;  // sequences that decode beside them
  std::int64_t keys = 0;     // that their queries see, summed, their own among them
  std::span<const Piece> pieces;
  std::int64_t sampled = 0;  // sequences that get a token
};

class StepTimes {
 public:
  virtual ~StepTimes() = default;
  /// Of an iteration in which so many sequences decode, whose queries see `keys` keys in all; keys >= sequences >= 1.
  virtual Segment decode(std::int64_t sequences, std::int64_t keys) = 0;
  virtual Time mixed(const Mixed& batch) = 0;
};

/// What `steps` iterations take whose keys grow by one a sequence each.
Time time_of_steps(StepTimes& times, std::int64_t sequences, std::int64_t keys, std::int64_t steps);
/// The fewest iterations, of at most `most`, that take `at_least` or more; `most` where all together take less.
std::int64_t steps_to_reach(StepTimes& times, std::int64_t sequences, std::int64_t keys, std::int64_t most,
                            Time at_least);

}  // namespace orrery::serving
