// Fits of a dispatcher's kernels to tables of exchanges, and how well they hold: pure functions, no files.
#pragma once

#include <span>
#include <string>

#include "calibration/measure/samples.h"

namespace orrery::calibration {

/// What a kernel's rows have in common.
struct ExchangeKind {
  std::string device;
  ExchangePass pass = ExchangePass::dispatch;
  bool network = false;
  bool chosen_processors = true;  // whether rows say how many SMs the kernel took
  double line_rate = 0;           // bytes/s of a GPU's links, one direction
};

/// The kernel fitted to all rows, with the error on one half of them when the other was fitted, and the other way
/// round. Throws nothing; SIM_CHECKs that there are rows.
ExchangeKernel fit_exchange(const ExchangeKind& kind, std::span<const ExchangeSample> samples);

/// The kernel as an item of a document's `kernels`, indented by two.
std::string to_yaml(const ExchangeKernel& kernel, const FitError& held_out);
/// Errors of fits on one half, on the other.
FitError judge_exchange(const ExchangeKind& kind, std::span<const ExchangeSample> samples);

}  // namespace orrery::calibration
