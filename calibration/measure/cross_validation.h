// Five-fold cross-validation as every kernel model is judged by: fit on all folds but one, predict that one.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "calibration/device/uncertainty.h"
#include "calibration/measure/fit.h"

namespace orrery::calibration {

/// The quality of `fit(train)`, a model, on samples that it has not seen, as `judge(model, sample)` says; the range is
/// that of `sizes(sample)` over all samples. Folds without a sample to train on are left out.
template <typename Sample, typename Fit, typename Judge, typename SizesOf>
FitQuality cross_validate(std::span<const Sample> samples, int folds, Fit fit, Judge judge, SizesOf sizes) {
  std::vector<Judged> held_out;
  for (int fold = 0; fold < folds; ++fold) {
    std::vector<Sample> train, test;
    for (std::size_t i = 0; i < samples.size(); ++i) (fold_of(i, folds) == fold ? test : train).push_back(samples[i]);
    if (train.empty()) continue;
    const auto model = fit(train);
    for (const Sample& sample : test) held_out.push_back(judge(model, sample));
  }
  FitQuality out = quality_of(held_out, folds);
  for (std::size_t axis = 0; axis < out.from.size(); ++axis) {
    out.from[axis] = 1e18;
    out.to[axis] = 1;
    for (const Sample& sample : samples) {
      out.from[axis] = std::min(out.from[axis], sizes(sample)[axis]);
      out.to[axis] = std::max(out.to[axis], sizes(sample)[axis]);
    }
  }
  return out;
}

}  // namespace orrery::calibration
