// What a board draws, from its counter of energy while kernels ran for shares of the time: the constants of power.h
// that a device's own measurements tell. Products that ran at several clocks tell how much of the clock they use and
// how power follows their speed. What a copy draws is activity and bytes together, so that the energy of a byte is
// assumed: HBM at 3.9 pJ a bit (O'Connor et al., MICRO 2017) and as much half again on the way.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "calibration/device/least_squares.h"
#include "calibration/measure/fit.h"

namespace orrery::calibration {
namespace {

constexpr double kPerByte = 45e-12;  // J
// Bounds far beyond any device: watts, joules of an operation, and what attention may take more of them.
constexpr double kMostWatts = 600, kMostPerFlop = 10e-12, kMostAttention = 4;
constexpr double kLeastExponent = 1, kMostExponent = 4, kLeastProductClock = 0.5;
constexpr double kApart = 1.03;       // highest clock over the lowest: more than a board's own wavering
constexpr double kWattsOfTime = 700;  // a relative error of time counts as that of a board's power

/// Places of the parameters; those of the types that samples have follow.
enum : std::size_t { kActive, kExponent, kProductClock, kAttention, kTypes };

/// Of each type that has samples, its place among the parameters; 0: none.
std::array<std::size_t, kDataTypes> places_of(const std::vector<PowerSample>& samples) {
  std::array<std::size_t, kDataTypes> places{};
  std::size_t next = kTypes;
  for (const PowerSample& s : samples) {
    std::size_t& place = places[static_cast<std::size_t>(s.dtype)];
    if (s.flops > 0 && place == 0) place = next++;
  }
  return places;
}

double clock_of(const PowerSample& s, double boost_mhz) {
  return s.sm_mhz > 0 ? std::min(s.sm_mhz / boost_mhz, 1.0) : 1;
}

/// Of a second in which the kernel runs as the sample says.
double watts_of(const PowerModel& power, const PowerSample& s, double clock) {
  if (s.share <= 0) return power.standing;
  const bool attention = s.kernel == "attention";
  Duty second;
  (attention ? second.attention : s.flops > 0 ? second.products : second.streaming) = s.share;
  const double runs = s.share / s.seconds;
  (attention ? second.attention_flops : second.flops)[static_cast<std::size_t>(s.dtype)] = runs * s.flops;
  second.bytes = runs * s.bytes;
  return power.standing + activity_of(power, second, clock).sum();
}

/// What is wrong with watts and, of products of one size, with how their times differ.
std::vector<double> errors_of(const PowerModel& power, const std::vector<PowerSample>& samples, double boost_mhz) {
  std::vector<double> errors;
  std::map<std::pair<DataType, double>, std::vector<double>> times;  // logarithms, at full speed
  for (const PowerSample& s : samples) {
    const double clock = clock_of(s, boost_mhz);
    errors.push_back(watts_of(power, s, clock) - s.watts);
    if (s.kernel == "gemm") times[{s.dtype, s.flops}].push_back(std::log(s.seconds * power.product_speed(clock)));
  }
  for (const auto& [size, logs] : times) {
    double mean = 0;
    for (const double t : logs) mean += t / static_cast<double>(logs.size());
    for (const double t : logs) errors.push_back(kWattsOfTime * (t - mean));
  }
  return errors;
}

/// Whether products of one kind ran at clocks that differ by more than a board's own wavering.
bool ran_at_several_clocks(const std::vector<PowerSample>& samples) {
  std::map<std::pair<DataType, double>, std::pair<double, double>> range;  // lowest and highest
  for (const PowerSample& s : samples) {
    if (s.kernel != "gemm" || !(s.sm_mhz > 0)) continue;
    auto& [low, high] = range.try_emplace({s.dtype, s.flops}, s.sm_mhz, s.sm_mhz).first->second;
    low = std::min(low, s.sm_mhz);
    high = std::max(high, s.sm_mhz);
  }
  return std::any_of(range.begin(), range.end(),
                     [](const auto& r) { return r.second.second > kApart * r.second.first; });
}

}  // namespace

std::optional<PowerFit> fit_power(const std::vector<PowerSample>& samples, double boost_mhz,
                                  const PowerModel& inherited) {
  const auto first = [&](const char* kernel) {
    return std::find_if(samples.begin(), samples.end(), [&](const PowerSample& s) { return s.kernel == kernel; });
  };
  const auto idle = first("idle");
  if (idle == samples.end() || first("copy") == samples.end() || first("gemm") == samples.end() || !(boost_mhz > 0))
    return std::nullopt;
  const std::array<std::size_t, kDataTypes> places = places_of(samples);
  const bool tells_clock = ran_at_several_clocks(samples), tells_attention = first("attention") != samples.end();
  const auto model_at = [&](const Point& at) {
    PowerModel m;
    m.standing = idle->watts;
    m.per_byte = kPerByte;
    m.active = at[kActive] * kMostWatts;
    m.exponent = inherited.exponent;
    m.product_clock = inherited.product_clock;
    if (tells_clock) {
      m.exponent = kLeastExponent + at[kExponent] * (kMostExponent - kLeastExponent);
      m.product_clock = kLeastProductClock + at[kProductClock] * (1 - kLeastProductClock);
    }
    m.attention = tells_attention ? at[kAttention] * kMostAttention : inherited.attention;
    for (std::size_t t = 0; t < kDataTypes; ++t)
      if (places[t] > 0) m.per_flop[t] = at[places[t]] * kMostPerFlop;
    return m;
  };
  const auto residuals = [&](const std::vector<Point>& points) {
    std::vector<std::vector<double>> all;
    for (const Point& at : points) all.push_back(errors_of(model_at(at), samples, boost_mhz));
    return all;
  };
  Point start(std::max<std::size_t>(kTypes, *std::max_element(places.begin(), places.end()) + 1), 0.1);
  start[kActive] = start[kExponent] = start[kProductClock] = 0.5;
  start[kAttention] = 0.25;
  LeastSquaresOptions options;
  options.iterations = 200;
  const LeastSquaresFit fit = least_squares(residuals, start, options);
  PowerFit out{model_at(fit.at), 0, tells_clock, tells_attention};
  for (std::size_t i = 0; i < samples.size(); ++i)
    out.largest_error = std::max(out.largest_error, std::abs(fit.residuals[i]));
  return out;
}

}  // namespace orrery::calibration
