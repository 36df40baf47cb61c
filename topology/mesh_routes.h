// Routes over a network that is no tree: every shortest path between two switches, found by breadth-first search from
// the destination as far as the source. The search of a destination is remembered, so that asking for many pairs costs
// one search each, or a few where one is farther than all before.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "sim/network.h"
#include "topology/wiring.h"

namespace orrery::topology {

class MeshRoutes {
 public:
  /// `first_link` of each bundle: link first + 0 goes from low to high, + 1 back; with `single` lanes, lane i has the
  /// links first + 2 i and + 2 i + 1. Bundles without lanes left are left out.
  MeshRoutes(const FabricWiring& wiring, const std::vector<std::uint32_t>& first_link, bool single);

  /// Links on the shortest way; -1 where there is none.
  std::int32_t hops(std::uint32_t from, std::uint32_t to) const;
  /// Switches with the same number reach each other.
  std::uint32_t component(std::uint32_t vertex) const { return component_[vertex]; }

  /// Adds the links that one byte from one switch to another loads, with its share on each. `by_path`: all shortest
  /// paths carry the same (parallel lanes are paths of their own); else every switch deals evenly over its next lanes,
  /// without looking at how many paths lie behind each.
  void spread(std::uint32_t from, std::uint32_t to, bool by_path, std::vector<sim::WeightedLink>& links) const;

  /// Adds the links of one shortest path; at each switch `pick(switch, n)` chooses one of the n lanes that lead on, in
  /// the order of the switches behind them. Needs single lanes.
  void walk(std::uint32_t from, std::uint32_t to,
            const std::function<std::size_t(std::uint32_t at, std::size_t choices)>& pick,
            std::vector<sim::WeightedLink>& links) const;

 private:
  struct Arc {
    std::uint32_t to, link;
    std::int32_t lanes;
  };
  struct Column {                    // towards one destination
    std::vector<std::int32_t> hops;  // -1: not reached, or farther than was looked
    std::vector<double> paths;
    bool whole = false;  // every switch was reached that can be
  };
  std::shared_ptr<const Column> towards(std::uint32_t to, std::uint32_t from) const;

  std::vector<std::uint32_t> begin_;
  std::vector<Arc> arcs_;
  std::vector<std::uint32_t> component_;
  mutable std::mutex mutex_;
  mutable std::unordered_map<std::uint32_t, std::shared_ptr<const Column>> known_;
};

}  // namespace orrery::topology
