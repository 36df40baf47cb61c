// What a calibration measures, in which order and for how long: a pure function of the device and the models.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "calibration/kernels/abi.h"

namespace orrery::calibration {

/// The kernels of a model on one rank that a calibration times: products of its linear layers and its attention over
/// one sequence.
struct ModelKernels {
  struct Product {
    std::int64_t out = 0, in = 0;  // widths of the layer on the rank
  };
  std::int64_t seq = 0, heads = 0, kv_heads = 0, head_dim = 0;
  std::vector<Product> products;
};

struct PlannedCase {
  Case what;
  double budget = 0;    // seconds of repeats to ask the module for
  double estimate = 0;  // seconds in all, from the data sheet: set-up, reference, repeats
};

/// In the order of use for a profile, so that a run that is cut short leaves the best part: first a coarse grid of
/// every class, then the shapes of the models, then finer grids. Cases that do not fit the device's memory or that its
/// types exclude are left out. `models`: the most telling first. `quick`: the first part with short budgets, under 2
/// minutes; else under 20.
std::vector<PlannedCase> measurement_plan(const GpuFacts& device, const std::vector<ModelKernels>& models, bool quick);

/// A few small shapes of every kernel, type and form, to check results; odd sizes among them.
std::vector<PlannedCase> verification_plan(const GpuFacts& device);

/// Seconds that a case takes at 60 % of the matrix peak and 80 % of the memory bandwidth.
double kernel_seconds(const Case& what, const GpuFacts& device);
/// Bytes of its tensors in device memory.
double memory_bytes(const Case& what);

}  // namespace orrery::calibration
