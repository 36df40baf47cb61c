// See served_sampler.h.
#include "calibration/device/served_sampler.h"

#include <algorithm>

namespace orrery::calibration {

namespace {

constexpr double kH100Bandwidth = 3.35e12;
constexpr double kFewestByRow = 8;

double sorted_seconds(const DeviceProfile& device, double rows, double logits) {
  constexpr double kLaunches = 0.16e-3, kLogit = 0.101e-9;
  return kLaunches + kLogit * rows * logits * kH100Bandwidth / device.memory_bandwidth().value();
}

double by_row_seconds(const DeviceProfile& device, Cut cut, double rows, double logits) {
  const bool alone = cut == Cut::top_p;
  const double row = alone ? 0.165e-3 + 2.3e-9 * logits : 0.066e-3 + 1.8e-9 * logits;
  return row * std::max(1.0, rows / static_cast<double>(device.processors()));
}

double rejection_seconds(const DeviceProfile& device, Cut cut, double rows, double logits) {
  constexpr double kLaunch = 29e-6, kOfRow = 0.3e-9, kBytes = 14, kPace = 0.9;
  const double one = kLaunch + kOfRow * logits + kBytes * rows * logits / (kPace * device.memory_bandwidth().value());
  return cut == Cut::both ? 2 * one : one;
}

}  // namespace

double truncation_seconds(const DeviceProfile& device, Truncation way, Cut cut, double rows, double logits) {
  if (cut == Cut::none || !(rows > 0)) return 0;
  if (way == Truncation::rejection) return rejection_seconds(device, cut, rows, logits);
  if (way == Truncation::sorted || rows < kFewestByRow) return sorted_seconds(device, rows, logits);
  return by_row_seconds(device, cut, rows, logits);
}

}  // namespace orrery::calibration
