// Draws of prompts and answers.
#include "workloads/runs/rl/batch.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "sim/hash.h"

namespace orrery::rl {

namespace {

enum class RlDrawn : std::uint64_t { prompt = 11, answer, accepted };

/// Uniform in (0, 1).
double rl_uniform(std::uint64_t key, std::uint64_t number) {
  return (static_cast<double>(sim::mix64(sim::hash_pair(key, number)) >> 11) + 0.5) * 0x1p-53;
}

double normal_share(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }

/// Of a log-normal that is cut off at `most`.
double cut_mean(const LogNormal& l, double most) {
  const double at = (std::log(most) - l.location) / l.scale;
  return std::exp(l.location + l.scale * l.scale / 2) * normal_share(at - l.scale) + most * normal_share(-at);
}

class LengthDraws {
 public:
  explicit LengthDraws(const Lengths& lengths) : lengths_(lengths) {
    if (lengths.percentiles.empty() && lengths.variation > 0 && lengths.mean > 0)
      spread_ = cut_log_normal(lengths.mean, lengths.variation, lengths.most);
  }
  /// `a` and `b`: uniform draws.
  std::int32_t at(double a, double b) const {
    double tokens = lengths_.mean;
    if (!lengths_.percentiles.empty()) {
      tokens = between(100 * a);
    } else if (spread_.scale > 0) {
      const double normal = std::sqrt(-2 * std::log(a)) * std::cos(2 * std::numbers::pi * b);
      tokens = std::exp(spread_.location + spread_.scale * normal);
    } else if (tokens <= 0) {
      return 0;
    }
    return static_cast<std::int32_t>(std::llround(std::clamp(tokens, 1.0, lengths_.most)));
  }

 private:
  double between(double percent) const {
    std::pair<double, double> low{0, 1};
    for (const auto& high : lengths_.percentiles) {
      if (percent <= high.first) {
        const double share = (percent - low.first) / (high.first - low.first);
        return std::exp(std::log(low.second) + share * (std::log(high.second) - std::log(low.second)));
      }
      low = high;
    }
    return lengths_.percentiles.back().second;
  }
  const Lengths& lengths_;
  LogNormal spread_;
};

}  // namespace

LogNormal cut_log_normal(double mean, double variation, double most) {
  LogNormal spread{0, std::sqrt(std::log(1 + variation * variation))};
  // The mean of the cut one rises with the location, from 0 towards `most`.
  double low = std::log(mean) - spread.scale * spread.scale - 1, high = std::log(most) + 40 * spread.scale;
  for (int i = 0; i < 200; ++i) {
    spread.location = (low + high) / 2;
    (cut_mean(spread, most) < mean ? low : high) = spread.location;
  }
  return spread;
}

std::int64_t Batch::written() const {
  std::int64_t tokens = 0;
  for (const auto& round : rounds)
    for (const Sample& sample : round) tokens += sample.output;
  return tokens;
}

Batch draw_batch(const BatchSpec& spec, std::int64_t step) {
  const LengthDraws prompts(spec.prompt), answers(spec.answer);
  const auto key_of = [&](RlDrawn what) {
    return sim::hash_pair(sim::hash_pair(spec.seed, static_cast<std::uint64_t>(what)),
                          static_cast<std::uint64_t>(step));
  };
  const std::uint64_t of_prompt = key_of(RlDrawn::prompt), of_answer = key_of(RlDrawn::answer),
                      of_accepted = key_of(RlDrawn::accepted);
  const std::int64_t each = spec.round > 0 ? spec.round : spec.prompts;
  Batch batch;
  std::int64_t prompt = 0, counted = 0;
  while (counted < spec.prompts && static_cast<std::int64_t>(batch.rounds.size()) < kMostRounds) {
    std::vector<Sample>& round = batch.rounds.emplace_back();
    for (std::int64_t i = 0; i < each; ++i, ++prompt) {
      const auto p = static_cast<std::uint64_t>(prompt);
      const std::int32_t input =
          std::max(1, prompts.at(rl_uniform(of_prompt, 2 * p), rl_uniform(of_prompt, 2 * p + 1)));
      const bool counts = counted < spec.prompts && (spec.accepted >= 1 || rl_uniform(of_accepted, p) < spec.accepted);
      for (std::int64_t j = 0; j < spec.samples; ++j) {
        // Of a prompt's samples the first are those of a step with fewer.
        const std::uint64_t n = sim::hash_pair(p, static_cast<std::uint64_t>(j));
        const Sample sample{static_cast<std::int32_t>(prompt), input,
                            answers.at(rl_uniform(of_answer, n), rl_uniform(of_answer, n ^ 0x5bd1e995u))};
        round.push_back(sample);
        if (counts) batch.trained.push_back(sample);
      }
      counted += counts ? 1 : 0;
    }
  }
  return batch;
}

}  // namespace orrery::rl
