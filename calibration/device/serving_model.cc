// The correction and the answer of serving_model.h.
#include "calibration/device/serving_model.h"

#include <algorithm>
#include <cmath>

namespace orrery::calibration {

std::size_t Correction::Grid::knots() const {
  std::size_t out = 1;
  for (const Axis& axis : axes) out *= axis.knots.size();
  return out;
}

std::size_t Correction::shares(const Grid& grid, const Sizes& sizes, Corners& out) {
  std::size_t count = 1;
  out[0] = {0, 1};
  for (const Axis& axis : grid.axes) {
    const std::vector<double>& knots = axis.knots;
    const double size = sizes[axis.size];
    std::size_t low = 0;
    double upper = 0;
    if (size >= knots.back()) {
      low = knots.size() - 1;
    } else if (size > knots.front()) {
      while (size > knots[low + 1]) ++low;
      upper = std::log(size / knots[low]) / std::log(knots[low + 1] / knots[low]);
    }
    for (std::size_t i = 0; i < count; ++i) out[i].knot = out[i].knot * knots.size() + low;
    if (!(upper > 0)) continue;
    for (std::size_t i = 0; i < count; ++i) {
      out[count + i] = {out[i].knot + 1, out[i].weight * upper};
      out[i].weight *= 1 - upper;
    }
    count *= 2;
  }
  return count;
}

double Correction::at(const Sizes& sizes) const {
  double sum = 0;
  Corners around;
  for (const Grid& grid : grids) {
    const std::size_t count = shares(grid, sizes, around);
    for (std::size_t i = 0; i < count; ++i) sum += around[i].weight * grid.value[around[i].knot];
  }
  return sum;
}

double ServingKernel::seconds(const ServingFacts& facts, const Work& work) const {
  const double time = family->structure(facts, parameters, work) * std::exp(correction.at(family->sizes(work)));
  return std::max(time, family->roofline(facts, work));
}

double together(double a, double b) {
  const double high = std::max(a, b);
  if (!(high > 0)) return 0;
  const double ratio = std::min(a, b) / high, square = ratio * ratio;
  return high * std::sqrt(std::sqrt(1 + square * square));
}

ServingFacts facts_of(const DeviceProfile& device) {
  ServingFacts out;
  out.processors = static_cast<double>(device.processors());
  out.bandwidth = device.memory_bandwidth().value();
  for (std::size_t t = 0; t < kDataTypes; ++t) out.peak[t] = device.peak(static_cast<DataType>(t)).value();
  return out;
}

}  // namespace orrery::calibration
