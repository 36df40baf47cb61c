// What a calibration measures, in which order and for how long: a pure function of the device and the models.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "calibration/kernels/abi.h"

namespace orrery::calibration {

/// The sizes of a transformer that decide the shapes of its kernels.
struct ModelShape {
  std::string name;
  std::int64_t hidden = 0, ffn_hidden = 0, heads = 0, kv_heads = 0, vocab = 0, seq = 0;
  bool gated_mlp = false;
};

struct PlannedCase {
  Case what;
  double budget = 0;    // seconds of repeats to ask the module for
  double estimate = 0;  // seconds in all, from the data sheet: set-up, reference, repeats
};

/// In the order of use for a profile, so that a run that is cut short leaves the best part: first a coarse grid of
/// every class, then the shapes of the models, then finer grids. Cases that do not fit the device's memory or that its
/// types exclude are left out. `quick`: the first part with short budgets, under 2 minutes; else under 20.
std::vector<PlannedCase> measurement_plan(const GpuFacts& device, const std::vector<ModelShape>& models, bool quick);

/// A few small shapes of every kernel, type and form, to check results; odd sizes among them.
std::vector<PlannedCase> verification_plan(const GpuFacts& device);

/// Seconds that a case takes at 60 % of the matrix peak and 80 % of the memory bandwidth.
double kernel_seconds(const Case& what, const GpuFacts& device);
/// Bytes of its tensors in device memory.
double memory_bytes(const Case& what);

}  // namespace orrery::calibration
