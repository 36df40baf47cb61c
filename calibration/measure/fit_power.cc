// What a board draws, from its counter of energy while kernels ran for shares of the time: the constants of power.h
// that a device's own measurements tell. An operation of attention is taken to cost what one of a product does, so that
// its lower rate tells what kernels draw however much they multiply from what multiplying does.
#include <algorithm>
#include <array>
#include <cmath>

#include "calibration/least_squares.h"
#include "calibration/measure/fit.h"

namespace orrery::calibration {
namespace {

// Bounds far beyond any device: watts, and joules of an operation and of a byte.
constexpr double kMostWatts = 600, kMostPerFlop = 10e-12, kMostPerByte = 500e-12;

/// Of each type that has samples, its place among the parameters; -1: none.
std::array<int, kDataTypes> places_of(const std::vector<PowerSample>& samples, int first) {
  std::array<int, kDataTypes> places{};
  places.fill(-1);
  for (const PowerSample& s : samples) {
    int& place = places[static_cast<std::size_t>(s.dtype)];
    if (s.flops > 0 && place < 0) place = first++;
  }
  return places;
}

/// Of a second in which the kernel runs as the sample says.
double watts_of(const PowerModel& power, const PowerSample& s, double boost_mhz) {
  Duty second;
  second.waiting = 1 - s.share;
  if (s.share <= 0) return joules_at(power, second, 1);
  const double clock = s.sm_mhz > 0 ? std::min(s.sm_mhz / boost_mhz, 1.0) : 1;
  (s.flops > 0 ? second.clocked : second.streaming) = s.flops > 0 ? s.share * clock : s.share;
  const double runs = s.share / s.seconds;
  second.flops[static_cast<std::size_t>(s.dtype)] = runs * s.flops;
  second.bytes = runs * s.bytes;
  return joules_at(power, second, clock);
}

}  // namespace

std::optional<PowerFit> fit_power(const std::vector<PowerSample>& samples, double boost_mhz) {
  const auto has = [&](const char* kernel) {
    return std::any_of(samples.begin(), samples.end(), [&](const PowerSample& s) { return s.kernel == kernel; });
  };
  if (!has("idle") || !has("copy") || !has("gemm") || !(boost_mhz > 0)) return std::nullopt;
  const std::array<int, kDataTypes> places = places_of(samples, 3);
  const auto model_at = [&](const Point& at) {
    PowerModel m;
    m.standing = at[0] * kMostWatts;
    m.active = at[1] * kMostWatts;
    m.per_byte = at[2] * kMostPerByte;
    for (std::size_t t = 0; t < kDataTypes; ++t)
      if (places[t] >= 0) m.per_flop[t] = at[static_cast<std::size_t>(places[t])] * kMostPerFlop;
    return m;
  };
  const auto residuals = [&](const std::vector<Point>& points) {
    std::vector<std::vector<double>> all;
    for (const Point& at : points) {
      std::vector<double> of;
      for (const PowerSample& s : samples) of.push_back(watts_of(model_at(at), s, boost_mhz) - s.watts);
      all.push_back(of);
    }
    return all;
  };
  const auto parameters = static_cast<std::size_t>(*std::max_element(places.begin(), places.end()) + 1);
  const LeastSquaresFit fit = least_squares(residuals, Point(parameters, 0.1));
  PowerFit out{model_at(fit.at), 0};
  for (const double r : fit.residuals) out.largest_error = std::max(out.largest_error, std::abs(r));
  return out;
}

}  // namespace orrery::calibration
