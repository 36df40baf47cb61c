// Lognormal noise on compute durations and on latencies: a pure function of (seed, key, operation), so that neither the
// order of events nor folding can change what an operation draws. Left out: correlation in time, heavier tails than the
// lognormal.
#pragma once

#include <cstdint>

#include "sim/plan.h"

namespace orrery::sim {

/// A standard normal deviate (Box and Muller 1958) drawn by hashing.
double gaussian(std::uint64_t seed, std::uint64_t key, std::uint64_t op);

/// What the seed and a key make of a draw, for the many draws that have both in common.
std::uint64_t noise_stream(std::uint64_t seed, std::uint64_t key);

/// exp(sigma * gaussian): median 1.
double noise_factor(const Noise& noise, std::uint64_t key, std::uint64_t op);
/// The same of noise_stream(noise.seed, key).
double noise_factor_of(const Noise& noise, std::uint64_t stream, std::uint64_t op);

/// The latency of the k-th transfer on a communicator, in ps, with that noise.
std::int64_t noisy_latency(const Noise& noise, std::uint64_t key, std::uint64_t occurrence, std::int64_t latency);

/// What the loaded share of an operation takes on this instance, over the mean; 1 without loads.
double load_factor(const Loads& loads, std::uint64_t group, std::uint32_t place, std::uint64_t op);

/// A compute operation of `duration` and `issue_bound` ps as one instance runs it: the device part is scaled by
/// slowdown and noise; issue_bound, whose tail is device time, moves by the same amount but stays at least `issue`.
struct ScaledCompute {
  std::int64_t duration = 0;
  std::int64_t issue_bound = 0;
};
ScaledCompute scale_compute(std::int64_t duration, std::int64_t issue_bound, std::int64_t issue, double factor);

}  // namespace orrery::sim
