// Order statistics of a fleet, and who waits for whom. See slowest.h.
#include "workloads/groups/slowest.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "sim/noise.h"
#include "sim/real.h"

namespace orrery::workloads {

namespace {

using sim::real;

/// Where the distribution of a standard normal reaches `share`: bisection of erfc, as there is no inverse in the
/// library.
double normal_quantile(double share) {
  double low = -10, high = 10;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (0.5 * std::erfc(-middle / std::numbers::sqrt2) < share ? low : high) = middle;
  }
  return (low + high) / 2;
}

}  // namespace

/// A search asks for the same few numbers of GPUs of all its layouts.
double expected_largest(std::int64_t n) {
  if (n <= 1) return 0;
  struct Known {
    std::int64_t n = 0;
    double largest = 0;
  };
  thread_local std::array<Known, 64> known;
  Known& place = known[static_cast<std::size_t>(n) * 0x9e3779b97f4a7c15u >> 58];
  if (place.n != n) place = {n, normal_quantile((real(n) - 0.375) / (real(n) + 0.25))};
  return place.largest;
}

double expected_slowdown(double spread, const Waiting& waiting) {
  if (spread == 0) return 1;
  const double of_all = expected_largest(waiting.layer_ranks * waiting.stages * waiting.replicas);
  const double of_stage = expected_largest(waiting.layer_ranks);
  const double full = real(waiting.microbatches);
  const double ramp = real(waiting.stages - 1) / real(waiting.chunks);
  return 1 + spread * (full * of_all + ramp * of_stage) / (full + ramp);
}

double drawn_slowdown(double spread, std::uint64_t seed, std::int64_t gpu) {
  return std::clamp(1 + spread * sim::gaussian(seed, static_cast<std::uint64_t>(gpu), 0), 0.1, 2.0);
}

}  // namespace orrery::workloads
