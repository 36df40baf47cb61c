// Balls into bins: what hashing flows onto parallel lanes costs on average. A flow shares its lane with X others, X
// binomial; when they want more than the lane carries, each gets an equal part. Averaged over flows this is how much
// longer a transfer takes whose every flow must finish at its own pace. The part that is no collision (more flows than
// all lanes together carry) is divided out. Left out: that a collective waits for its slowest flow (seeded ECMP shows
// it), rehashing, flowlets.
#include <algorithm>
#include <cmath>

#include "topology/cluster.h"

namespace orrery::topology {

double expected_collision_factor(std::int64_t flows, std::int64_t lanes, Bandwidth flow_rate, Bandwidth lane_rate) {
  SIM_CHECK(flows >= 1 && lanes >= 1, "{} flows on {} lanes", flows, lanes);
  const double ratio = flow_rate.value() / lane_rate.value();
  const double even = std::max(1.0, static_cast<double>(flows) * ratio / static_cast<double>(lanes));
  if (lanes == 1) return 1.0;
  const double n = static_cast<double>(flows - 1), p = 1.0 / static_cast<double>(lanes);
  // Terms further than this from the mean are below 1e-20 of the whole.
  const double mean = n * p, reach = 12 * std::sqrt(mean) + 40;
  const auto first = static_cast<std::int64_t>(std::max(0.0, std::floor(mean - reach)));
  const auto last = static_cast<std::int64_t>(std::min(n, std::ceil(mean + reach)));
  double sum = 0, weight = 0;
  for (std::int64_t j = first; j <= last; ++j) {
    const double x = static_cast<double>(j);
    const double log_term =
        std::lgamma(n + 1) - std::lgamma(x + 1) - std::lgamma(n - x + 1) + x * std::log(p) + (n - x) * std::log1p(-p);
    const double term = std::exp(log_term);
    weight += term;
    sum += term * std::max(1.0, (1 + x) * ratio);
  }
  return sum / weight / even;
}

}  // namespace orrery::topology
