// Fit of kernels bound by memory traffic: time = floor + bytes / (share * bandwidth). The floor is shared, as it is the
// launch and the ramp of any kernel; for a given floor each kernel's share is the median of its samples.
#include <algorithm>
#include <array>
#include <cmath>

#include "calibration/measure/fit.h"
#include "sim/error.h"

namespace orrery::calibration {
namespace {

/// Samples of small tensors say how long the floor is, not how fast bytes move.
bool shows_rate(const StreamingSample& s, double floor) { return s.seconds > 1.5 * floor; }

StreamingModel with_floor(StreamingModel model, double floor, std::span<const StreamingSample> samples,
                          double memory_bandwidth) {
  model.floor = floor;
  std::array<std::vector<double>, kStreamingKernels> shares;
  for (const StreamingSample& s : samples)
    if (shows_rate(s, floor))
      shares[static_cast<std::size_t>(s.kernel)].push_back(s.bytes / ((s.seconds - floor) * memory_bandwidth));
  for (std::size_t i = 0; i < kStreamingKernels; ++i)
    if (!shares[i].empty()) model.efficiency[i] = std::max(quantile(std::move(shares[i]), 0.5), 0.01);
  return model;
}

double predicted(const StreamingModel& model, const StreamingSample& s, double memory_bandwidth) {
  return model.floor + s.bytes / (model.efficiency[static_cast<std::size_t>(s.kernel)] * memory_bandwidth);
}

}  // namespace

StreamingModel fit_streaming(const StreamingModel& start, std::span<const StreamingSample> samples,
                             double memory_bandwidth) {
  SIM_CHECK(!samples.empty(), "no samples");
  double shortest = 1e300;
  for (const StreamingSample& s : samples) shortest = std::min(shortest, s.seconds);
  StreamingModel best = start;
  double least = 1e300;
  constexpr int kSteps = 200;
  for (int i = 0; i <= kSteps; ++i) {  // no kernel takes less than the floor
    const StreamingModel model = with_floor(start, shortest * i / kSteps, samples, memory_bandwidth);
    double cost = 0;
    for (const StreamingSample& s : samples)
      cost += robust_error(std::log(predicted(model, s, memory_bandwidth) / s.seconds));
    if (cost < least) {
      least = cost;
      best = model;
    }
  }
  return best;
}

FitQuality judge_streaming(const StreamingModel& model, std::span<const StreamingSample> samples,
                           double memory_bandwidth) {
  std::vector<Judged> judged;
  Sizes from{1e18, 1, 1}, to{1, 1, 1};
  for (const StreamingSample& s : samples) {
    judged.push_back({predicted(model, s, memory_bandwidth) / s.seconds - 1, kByBytes.of(s.bytes)});
    from[0] = std::min(from[0], s.bytes);
    to[0] = std::max(to[0], s.bytes);
  }
  FitQuality out = quality_of(judged, 0);
  if (!samples.empty()) {
    out.from = from;
    out.to = to;
  }
  return out;
}

}  // namespace orrery::calibration
