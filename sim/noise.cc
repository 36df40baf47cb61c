// Noise by hashing; see noise.h.
#include "sim/noise.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "sim/hash.h"

namespace orrery::sim {

namespace {
/// Whole picoseconds, or what the engine refuses: it adds a few of these without overflow.
std::int64_t bounded(double picoseconds) {
  constexpr std::int64_t kMost = std::int64_t{1} << 61;
  return std::min(saturating_round(picoseconds), kMost);
}

double gaussian_of(std::uint64_t stream, std::uint64_t op) {
  const std::uint64_t first = hash_pair(stream, op);
  const std::uint64_t second = mix64(first);
  constexpr double kUnit = 0x1p-53;
  const double u = (static_cast<double>(first >> 11) + 0.5) * kUnit;  // never 0, so the logarithm is finite
  const double v = static_cast<double>(second >> 11) * kUnit;
  return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v);
}

}  // namespace

std::uint64_t noise_stream(std::uint64_t seed, std::uint64_t key) { return hash_pair(seed, key); }

double gaussian(std::uint64_t seed, std::uint64_t key, std::uint64_t op) {
  return gaussian_of(noise_stream(seed, key), op);
}

double noise_factor(const Noise& noise, std::uint64_t key, std::uint64_t op) {
  return noise_factor_of(noise, noise_stream(noise.seed, key), op);
}

double noise_factor_of(const Noise& noise, std::uint64_t stream, std::uint64_t op) {
  return noise.sigma > 0 ? std::exp(noise.sigma * gaussian_of(stream, op)) : 1.0;
}

std::int64_t noisy_latency(const Noise& noise, std::uint64_t key, std::uint64_t occurrence, std::int64_t latency) {
  if (!(noise.sigma > 0)) return latency;
  return bounded(static_cast<double>(latency) * noise_factor(noise, key, occurrence));
}

double load_factor(const Loads& loads, std::uint64_t group, std::uint32_t place, std::uint64_t op) {
  if (!loads.any()) return 1;
  const std::uint64_t rows = loads.factors.size() / loads.places;
  const std::uint64_t row = mix64(hash_pair(hash_pair(loads.seed, group), op)) % rows;
  return loads.factors[row * loads.places + place];
}

ScaledCompute scale_compute(std::int64_t duration, std::int64_t issue_bound, std::int64_t issue, double factor) {
  const std::int64_t scaled = bounded(static_cast<double>(duration) * factor);
  return {scaled, std::max(issue, issue_bound + (scaled - duration))};
}

}  // namespace orrery::sim
