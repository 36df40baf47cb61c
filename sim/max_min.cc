// Max-min rates of one set of demands: FairSharing with everything added at once.
#include "sim/max_min.h"

#include <limits>

#include "sim/fair_sharing.h"

namespace orrery::sim {

std::vector<double> max_min_rates(std::span<const Demand> demands, const Table<LinkId, double>& capacity) {
  FairSharing sharing(capacity);
  std::vector<double> rates(demands.size());
  for (std::uint32_t d = 0; d < demands.size(); ++d) {
    if (!demands[d].links.empty()) sharing.add(d, demands[d].links, demands[d].cap);
  }
  sharing.solve();
  for (std::uint32_t d = 0; d < demands.size(); ++d) {
    const double alone = demands[d].cap > 0 ? demands[d].cap : std::numeric_limits<double>::infinity();
    rates[d] = demands[d].links.empty() ? alone : sharing.rate(d);
  }
  return rates;
}

}  // namespace orrery::sim
