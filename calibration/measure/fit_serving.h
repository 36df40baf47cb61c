// Fits of engines' kernels to published tables, and how well they hold: pure functions, no files. Parameters by
// Levenberg-Marquardt on the mean robust log error; the correction by ridge regression, reweighted against outliers,
// with a price on bends along each axis. Shapes whose hash falls into three tenths are held out of a first fit and
// predicted by it; the fit that is kept has seen all.
#pragma once

#include <span>
#include <string>

#include "calibration/device/serving_sections.h"
#include "calibration/measure/serving_samples.h"

namespace orrery::calibration {

/// Whether the shape is held out.
bool held_out(const ServingSample& sample);

/// Of one engine, family and variant.
ServingKernel fit_serving_kernel(const ServingFamily& family, const ServingFacts& facts,
                                 std::span<const ServingSample> samples);
FitError serving_error(const ServingKernel& kernel, const ServingFacts& facts, std::span<const ServingSample> samples);

/// A kernel with how well it holds.
struct FittedServingKernel {
  ServingKernel kernel;
  ServingError error;
};
/// Of one family and variant: judged on shapes that are held out, where there are some, then fitted to all.
FittedServingKernel fit_and_judge(const ServingFamily& family, const ServingFacts& facts,
                                  std::span<const ServingSample> samples);

/// `engines` of a document, with its key, from samples of one device; `summary`: a line a kernel.
struct FittedServing {
  std::string yaml, summary;
};
FittedServing fit_serving(const ServingFacts& facts, std::span<const ServingSample> samples);

}  // namespace orrery::calibration
