// Medians and quartiles: a stray interrupt or a clock step moves a mean, not these. Tukey, Exploratory Data Analysis,
// 1977, for the fences.
#include "calibration/measure/statistics.h"

#include <algorithm>

#include "sim/error.h"

namespace orrery::calibration {
namespace {

double sorted_quantile(const std::vector<double>& sorted, double share) {
  const double at = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(at), above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

}  // namespace

Spread spread_of(std::vector<double> values) {
  SIM_CHECK(!values.empty(), "no measurement to summarise");
  std::sort(values.begin(), values.end());
  const double low = sorted_quantile(values, 0.25), high = sorted_quantile(values, 0.75), range = high - low;
  Spread s;
  s.median = sorted_quantile(values, 0.5);
  s.spread_pct = s.median > 0 ? 50 * range / s.median : 0;
  for (const double v : values) s.outliers += v < low - 3 * range || v > high + 3 * range ? 1 : 0;
  return s;
}

}  // namespace orrery::calibration
