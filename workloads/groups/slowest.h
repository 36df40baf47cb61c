// What ranks that wait for each other lose to the slowest of them, where the GPUs of a fleet differ.
//
// GPUs of one model differ in leakage, cooling and the clock that a power limit leaves them, day in day out (Sinha et
// al., Not All GPUs Are Created Equal, SC 2022; MegaScale, arXiv 2402.15627, section 6.3): a kernel takes 1 + s z of
// its mean on a GPU, z of a standard normal distribution, the same for every kernel of a step. A stage goes at the pace
// of the slowest rank that shares its layers, a full pipeline at that of its slowest stage, a step at that of its
// slowest replica; where a pipeline fills and drains, one micro-batch passes through all stages, slow ones and others.
//
// Left out: hosts whose GPUs are slow together; kernels that memory or the host holds, which differ less; ranks that
// wait for their own exchange alone; what a slow GPU hides behind messages that others wait for.
#pragma once

#include <cstdint>

namespace orrery::workloads {

/// Expectation of the largest of `n` draws of a standard normal distribution; 0 for one. Blom's approximation
/// (Statistical Estimates and Transformed Beta-Variables, 1958), within 0.03 of the integral for any n.
double expected_largest(std::int64_t n);

/// Who waits for whom in a step.
struct Waiting {
  std::int64_t layer_ranks = 1;  // that exchange within every layer: tensor and context groups
  std::int64_t stages = 1;
  std::int64_t replicas = 1;  // that exchange once a step
  std::int64_t microbatches = 1;
  std::int64_t chunks = 1;  // of a stage
};

/// Expected time of the kernels of a step over what they take on a GPU of the mean, `spread` the standard deviation.
double expected_slowdown(double spread, const Waiting& waiting);

/// What the kernels of a GPU take over the mean, drawn by `seed`: in (0.1, 2), of mean 1 nearly.
double drawn_slowdown(double spread, std::uint64_t seed, std::int64_t gpu);

}  // namespace orrery::workloads
