// What a step of reinforcement learning asks to be written: prompts, several answers to each, and how long they turn
// out. Answers have a long tail and a limit that the longest are cut off at, so a mean says little: lengths are
// log-normal below the limit, or follow stated percentiles. Draws are hashes of (seed, step, what, number), so that a
// step with more samples begins with those of the smaller one. Left out: answers of one prompt alike in length, tools
// and turns, lengths that grow as training goes on.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "workloads/runs/serving/trace.h"

namespace orrery::rl {

using serving::Time;

struct Lengths {
  double mean = 0;       // tokens, of what is drawn: cut off at `most`
  double variation = 0;  // standard deviation over mean ahead of the cut; 0: all alike
  double most = 1e9;
  /// Instead: (per cent, tokens), rising; between two of them the logarithm goes evenly, ahead of the first from a
  /// token.
  std::vector<std::pair<double, double>> percentiles;
};

/// How a log-normal's logarithm is spread whose mean is `mean` once it is cut off at `most`.
struct LogNormal {
  double location = 0, scale = 0;
};
LogNormal cut_log_normal(double mean, double variation, double most);

struct Sample {
  std::int32_t prompt = 0;  // which
  std::int32_t input = 1, output = 0;
  std::int32_t carried = 0;  // of the input, what it had written before: shared with no other sample
};

struct BatchSpec {
  std::int64_t prompts = 1, samples = 1;
  Lengths prompt, answer;
  /// Dynamic sampling: of the prompts so many have answers that are not all right or all wrong, and count; prompts are
  /// drawn round by round, of `round` each, until enough of them do.
  double accepted = 1;
  std::int64_t round = 0;  // 0: as many as count
  std::uint64_t seed = 1;
  std::int64_t count() const { return prompts * samples; }
};

struct Batch {
  std::vector<std::vector<Sample>> rounds;
  std::vector<Sample> trained;   // those that count
  std::int64_t written() const;  // tokens of answers, whether they count or not
};

inline constexpr std::int64_t kMostRounds = 1000;

Batch draw_batch(const BatchSpec& spec, std::int64_t step);

}  // namespace orrery::rl
