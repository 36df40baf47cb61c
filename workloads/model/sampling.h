// What requests ask of each token: the greatest logit, or one that is drawn. Bytes beyond a greatest logit's are those
// that vLLM's operations move of each logit (v1/sample/sampler.py, model_executor/layers/utils.py, PyTorch's kernels
// one by one), which other engines are taken to share but for FlashInfer's draw, which is a softmax and its own kernel.
#pragma once

#include <cstdint>

#include "calibration/device/served_sampler.h"

namespace orrery::workloads {

struct Sampling {
  double temperature = 0;  // 0: the greatest logit
  double top_p = 1, min_p = 0;
  std::int64_t top_k = 0;      // 0: all
  std::int64_t logprobs = -1;  // of the most probable so many beside the token's own; -1: none are asked for
  double penalty = 0;          // how far repetition, frequency and presence penalties are from none
  bool draws() const { return temperature > 0; }
  calibration::Cut cut() const {
    using calibration::Cut;
    if (!draws()) return Cut::none;
    if (top_k > 0) return top_p < 1 ? Cut::both : Cut::top_k;
    return top_p < 1 ? Cut::top_p : Cut::none;
  }
};

/// Of a row of logits, beside what taking the greatest moves.
inline double bytes_of_a_logit(const Sampling& s, calibration::Truncation way) {
  // Temperature, softmax, noise, their quotient, its greatest; with FlashInfer the softmax alone.
  const double drawn = way == calibration::Truncation::rejection ? 12 : 36;
  constexpr double kMinP = 30;       // a softmax, its greatest, a mask
  constexpr double kPenalties = 85;  // counts and masks of tokens of the prompt and of the answer, three corrections
  constexpr double kLogprobs = 38;   // a log-softmax, the most probable, the rank of the token that was taken
  return (s.draws() ? drawn : 0) + (s.draws() && s.min_p > 0 ? kMinP : 0) + (s.penalty > 0 ? kPenalties : 0) +
         (s.logprobs >= 0 ? kLogprobs : 0);
}

}  // namespace orrery::workloads
