// Ways to lay jobs on the nodes of one cluster, and what each costs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "workloads/step/shared_cluster.h"

namespace orrery::tools {

/// By job, the nodes that it runs on, in the order of its own nodes.
using NodeLists = std::vector<std::vector<std::int64_t>>;

/// The nodes below each set of leaves: those that reach each other without a spine.
std::vector<std::vector<std::int64_t>> units_of(const topology::Cluster& cluster);

/// Names of the policies: pack (the largest job first, unit after unit), spread (each job's nodes dealt out over the
/// units in turn), interleave (nodes dealt out to the jobs in turn), random.
const std::vector<std::string>& policy_names();
/// `sizes`: nodes of each job, together no more than `units` hold. `seed`: of random.
NodeLists place_by(const std::string& policy, const std::vector<std::int64_t>& sizes,
                   const std::vector<std::vector<std::int64_t>>& units, std::uint64_t seed);

/// Every way to share out the nodes of the units among the jobs by number, but for units of equal size that change
/// places; empty where there are more than `most`. A job's nodes follow the order of the units.
std::vector<NodeLists> all_shares(const std::vector<std::int64_t>& sizes,
                                  const std::vector<std::vector<std::int64_t>>& units, std::size_t most);

/// What a placement costs.
struct PlacementCost {
  std::string name;
  NodeLists nodes;
  std::vector<double> step_s, alone_s;  // by job: all together, and alone on the same nodes; means over seeds of paths
  std::vector<std::int64_t> units;      // by job: that it touches
  /// Mean over jobs of the step over the best step that the job has alone.
  double slowdown = 1;
  std::vector<double> worst_s;  // by job: together, the slowest of all seeds
};

}  // namespace orrery::tools
