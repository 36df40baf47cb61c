// Naive progressive filling (Bertsekas & Gallager, Data Networks, 6.5.2): raise all rates together to the first level
// at which a link is full or a cap is reached; stop who is there; repeat.
#include <cmath>
#include <limits>

#include "tests/reference/reference.h"

namespace orrery::reference {

std::vector<double> max_min_rates(std::span<const sim::Demand> demands,
                                  const sim::Table<sim::LinkId, double>& capacity) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kTie = 1 + 1e-12;
  std::vector<double> rates(demands.size(), -1);  // negative: still rising
  while (true) {
    std::vector<double> left = capacity.rows();
    std::vector<double> rising(capacity.size(), 0.0);
    bool any = false;
    for (std::size_t d = 0; d < demands.size(); ++d) {
      any = any || rates[d] < 0;
      for (const auto& link : demands[d].links) {
        if (rates[d] < 0) {
          rising[sim::index(link.link)] += link.weight;
        } else {
          left[sim::index(link.link)] -= link.weight * rates[d];
        }
      }
    }
    if (!any) return rates;

    const auto level_of = [&](std::size_t d) {
      double level = demands[d].cap > 0 ? demands[d].cap : kInfinity;
      for (const auto& link : demands[d].links) {
        level = std::min(level, left[sim::index(link.link)] / rising[sim::index(link.link)]);
      }
      return level;
    };
    double level = kInfinity;
    for (std::size_t d = 0; d < demands.size(); ++d) {
      if (rates[d] < 0) level = std::min(level, level_of(d));
    }
    std::vector<std::size_t> stopped;
    for (std::size_t d = 0; d < demands.size(); ++d) {
      if (rates[d] < 0 && (level_of(d) <= level * kTie || std::isinf(level))) stopped.push_back(d);
    }
    for (const std::size_t d : stopped) rates[d] = level;
  }
}

}  // namespace orrery::reference
