// Descent by single swaps: it ends in a placement that few swaps better, and says nothing of how good that is; the
// bound does. Left out: swaps of several nodes at once, steps uphill.
#include "tools/study/placement_search.h"

#include <utility>

#include "sim/hash.h"

namespace orrery::tools {

namespace {

/// The i-th node of all lists, one behind the other, then of the free ones.
std::int64_t& node_at(NodeLists& lists, std::vector<std::int64_t>& free, std::size_t i) {
  for (std::vector<std::int64_t>& list : lists) {
    if (i < list.size()) return list[i];
    i -= list.size();
  }
  return free[i];
}

}  // namespace

NodeLists swapped(NodeLists lists, std::vector<std::int64_t> free, std::int64_t tries, double bound, std::uint64_t seed,
                  const std::function<double(const NodeLists&)>& cost,
                  const std::function<bool(std::int64_t, std::int64_t)>& alike) {
  std::size_t placed = 0;
  for (const std::vector<std::int64_t>& list : lists) placed += list.size();
  const std::size_t all = placed + free.size();
  double best = cost(lists);
  for (std::int64_t t = 0; t < tries && best > bound && all > 1; ++t) {
    const auto draw = static_cast<std::uint64_t>(t);
    const std::size_t a = sim::hash_pair(seed, 2 * draw) % placed;
    std::size_t b = sim::hash_pair(seed, 2 * draw + 1) % (all - 1);
    if (b >= a) ++b;
    if (alike && !alike(node_at(lists, free, a), node_at(lists, free, b))) continue;
    std::swap(node_at(lists, free, a), node_at(lists, free, b));
    const double now = cost(lists);
    if (now < best)
      best = now;
    else
      std::swap(node_at(lists, free, a), node_at(lists, free, b));
  }
  return lists;
}

}  // namespace orrery::tools
