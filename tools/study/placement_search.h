// A better placement, found by swaps.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "tools/study/placements.h"

namespace orrery::tools {

/// Swaps two nodes of different jobs, two of one job, or one with a free node (of `free`), at random, and keeps what
/// `cost` says is cheaper; stops after `tries`, or as soon as the cost is no more than `bound`. Returns the best lists.
/// The same arguments give the same lists. `alike`: whether one of two nodes can stand where the other does; empty:
/// all.
NodeLists swapped(NodeLists lists, std::vector<std::int64_t> free, std::int64_t tries, double bound, std::uint64_t seed,
                  const std::function<double(const NodeLists&)>& cost,
                  const std::function<bool(std::int64_t, std::int64_t)>& alike = {});

}  // namespace orrery::tools
