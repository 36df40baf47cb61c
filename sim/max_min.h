// Max-min fair rates with weights: progressive filling. All transfers raise their rates together; when a link is full
// (sum of weight * rate = capacity) or a transfer reaches its own cap, the transfers on it stop there and the others
// go on. (Bertsekas & Gallager, Data Networks, 6.5.2.)
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/network.h"

namespace orrery::sim {

struct Demand {
  std::span<const WeightedLink> links;
  double cap = 0;  // bytes/s; 0 = none
};

/// The rates of `demands` that share links of `capacity`. A demand without links and without cap gets infinity.
/// Relative error below 1e-11; independent of the order of demands up to rounding.
std::vector<double> max_min_rates(std::span<const Demand> demands, const Table<LinkId, double>& capacity);

}  // namespace orrery::sim
