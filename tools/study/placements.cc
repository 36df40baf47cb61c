// Policies, and the enumeration of small cases. Nodes below the same leaves are alike, so that only how many of each
// unit a job takes matters, and the order in which its ranks follow the units, which stays that of the units.
#include "tools/study/placements.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>

#include "sim/hash.h"

namespace orrery::tools {

std::vector<std::vector<std::int64_t>> units_of(const topology::Cluster& cluster) {
  std::vector<std::vector<std::int64_t>> units;
  const std::int64_t per_node = cluster.gpus_per_node();
  for (std::int64_t node = 0; node < cluster.nodes(); ++node) {
    // Neighbours share leaves: the last unit, or a new one.
    const bool same = !units.empty() && cluster.nics_per_node() > 0 &&
                      cluster.way(units.back().front() * per_node, node * per_node).top <= topology::Tier::leaf;
    if (!same) units.emplace_back();
    units.back().push_back(node);
  }
  return units;
}

const std::vector<std::string>& policy_names() {
  static const std::vector<std::string> kNames{"pack", "spread", "interleave", "random"};
  return kNames;
}

namespace {

/// The largest first, of equal ones the first.
std::vector<std::size_t> by_size(const std::vector<std::int64_t>& sizes) {
  std::vector<std::size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return sizes[a] > sizes[b]; });
  return order;
}

/// Fills jobs one after another from one list of nodes.
NodeLists fill(const std::vector<std::int64_t>& sizes, const std::vector<std::int64_t>& nodes) {
  NodeLists lists(sizes.size());
  std::size_t next = 0;
  for (const std::size_t job : by_size(sizes)) {
    for (std::int64_t i = 0; i < sizes[job]; ++i) lists[job].push_back(nodes[next++]);
    std::sort(lists[job].begin(), lists[job].end());
  }
  return lists;
}

/// Units in turn, a node of each.
std::vector<std::int64_t> dealt(const std::vector<std::vector<std::int64_t>>& units) {
  std::vector<std::int64_t> nodes;
  std::size_t longest = 0;
  for (const auto& unit : units) longest = std::max(longest, unit.size());
  for (std::size_t turn = 0; turn < longest; ++turn) {
    for (const auto& unit : units) {
      if (turn < unit.size()) nodes.push_back(unit[turn]);
    }
  }
  return nodes;
}

/// Each job whole in the unit that it leaves least of, where one holds it; else unit after unit.
NodeLists pack(const std::vector<std::int64_t>& sizes, std::vector<std::vector<std::int64_t>> units) {
  NodeLists lists(sizes.size());
  for (const std::size_t job : by_size(sizes)) {
    const auto size = static_cast<std::size_t>(sizes[job]);
    auto best = units.end();
    for (auto unit = units.begin(); unit != units.end(); ++unit) {
      if (unit->size() >= size && (best == units.end() || unit->size() < best->size())) best = unit;
    }
    const auto take = [&](std::vector<std::int64_t>& unit) {
      while (!unit.empty() && lists[job].size() < size) {
        lists[job].push_back(unit.front());
        unit.erase(unit.begin());
      }
    };
    if (best != units.end()) take(*best);
    // The fullest units first, so that few are touched.
    while (lists[job].size() < size)
      take(*std::max_element(units.begin(), units.end(),
                             [](const auto& a, const auto& b) { return a.size() < b.size(); }));
  }
  return lists;
}

}  // namespace

NodeLists place_by(const std::string& policy, const std::vector<std::int64_t>& sizes,
                   const std::vector<std::vector<std::int64_t>>& units, std::uint64_t seed) {
  if (policy == "pack") return pack(sizes, units);
  if (policy == "spread") return fill(sizes, dealt(units));
  std::vector<std::int64_t> nodes;
  for (const auto& unit : units) nodes.insert(nodes.end(), unit.begin(), unit.end());
  if (policy == "random") {
    for (std::size_t i = nodes.size(); i > 1; --i) std::swap(nodes[i - 1], nodes[sim::hash_pair(seed, i) % i]);
    return fill(sizes, nodes);
  }
  SIM_CHECK(policy == "interleave", "no policy is called {}", policy);
  NodeLists lists(sizes.size());
  std::size_t next = 0;
  for (bool more = true; more;) {
    more = false;
    for (std::size_t job = 0; job < sizes.size(); ++job) {
      if (static_cast<std::int64_t>(lists[job].size()) == sizes[job]) continue;
      lists[job].push_back(nodes[next++]);
      more = true;
    }
  }
  return lists;
}

std::vector<NodeLists> all_shares(const std::vector<std::int64_t>& sizes,
                                  const std::vector<std::vector<std::int64_t>>& units, std::size_t most) {
  // counts[unit][job]; units of one size are told apart by nothing but their counts.
  std::vector<std::vector<std::int64_t>> counts(units.size(), std::vector<std::int64_t>(sizes.size(), 0));
  std::set<std::vector<std::vector<std::int64_t>>> seen;
  std::vector<NodeLists> shares;
  std::size_t tried = 0;
  const std::size_t patience = 200 * most;
  const std::function<void(std::size_t, std::size_t, std::int64_t)> place = [&](std::size_t job, std::size_t unit,
                                                                                std::int64_t left) {
    if (shares.size() > most || ++tried > patience) return;
    if (job == sizes.size()) {
      std::vector<std::vector<std::int64_t>> key;
      for (std::size_t u = 0; u < units.size(); ++u) {
        key.push_back(counts[u]);
        key.back().insert(key.back().begin(), static_cast<std::int64_t>(units[u].size()));
      }
      std::sort(key.begin(), key.end());
      if (!seen.insert(key).second) return;
      NodeLists lists(sizes.size());
      for (std::size_t u = 0; u < units.size(); ++u) {
        std::size_t next = 0;
        for (std::size_t j = 0; j < sizes.size(); ++j) {
          for (std::int64_t i = 0; i < counts[u][j]; ++i) lists[j].push_back(units[u][next++]);
        }
      }
      shares.push_back(std::move(lists));
      return;
    }
    if (unit == units.size()) {
      if (left == 0) place(job + 1, 0, job + 1 < sizes.size() ? sizes[job + 1] : 0);
      return;
    }
    const std::int64_t used = std::accumulate(counts[unit].begin(), counts[unit].end(), std::int64_t{0});
    const std::int64_t room = static_cast<std::int64_t>(units[unit].size()) - used;
    for (std::int64_t take = std::min(left, room); take >= 0; --take) {
      counts[unit][job] = take;
      place(job, unit + 1, left - take);
    }
    counts[unit][job] = 0;
  };
  place(0, 0, sizes.front());
  if (shares.size() > most || tried > patience) shares.clear();
  return shares;
}

}  // namespace orrery::tools
