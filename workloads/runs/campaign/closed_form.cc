// The formulas, as their papers write them.
#include "workloads/runs/campaign/closed_form.h"

#include <cmath>

namespace orrery::campaign {

double young_interval(double delta, double mtbf) { return std::sqrt(2 * delta * mtbf); }

double daly_interval(double delta, double mtbf) {
  if (delta >= 2 * mtbf) return mtbf;
  const double half = delta / (2 * mtbf);
  return young_interval(delta, mtbf) * (1 + std::sqrt(half) / 3 + half / 9) - delta;
}

double expected_time(double work, double interval, double delta, double restart, double mtbf) {
  return mtbf * std::exp(restart / mtbf) * std::expm1((interval + delta) / mtbf) * work / interval;
}

double expected_ettr(double interval, double delta, double restart, double mtbf) {
  return (1 - (restart + interval / 2) / mtbf) / (1 + delta / interval);
}

}  // namespace orrery::campaign
