// A simulated step as the graphs of its ranks: what `orrery export chakra` writes.
#pragma once

#include <vector>

#include "scenarios/scenario.h"
#include "tools/replay/graph.h"

namespace orrery::tools {

/// Ranks of which the graphs are made at a time.
inline constexpr std::size_t kRanksAtOnce = 16;

/// The graphs of these ranks of the scenario's job, at most kRanksAtOnce: a node for every kernel and every launch,
/// with the times of the simulation. A run of kernels that the host does not launch one by one is one node.
std::vector<RankGraph> graphs_of_step(const scenarios::Scenario& scenario, const std::vector<std::int64_t>& ranks);

}  // namespace orrery::tools
