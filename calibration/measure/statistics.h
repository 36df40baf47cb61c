// What repeated measurements of one thing say.
#pragma once

#include <vector>

namespace orrery::calibration {

struct Spread {
  double median = 0;
  double spread_pct = 0;  // half the interquartile range over the median, in percent
  int outliers = 0;       // beyond three interquartile ranges outside the quartiles (Tukey's far out values)
};

/// Quartiles lie between neighbours by straight line. At least one value.
Spread spread_of(std::vector<double> values);

}  // namespace orrery::calibration
