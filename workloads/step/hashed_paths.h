// What hashing flows onto paths costs the groups of a job, as a distribution: for every seed the flows of all groups of
// a kind are under way together, each on the path that it is hashed to, and share links max-min fairly. Placement shows
// here, which an expected collision factor leaves out: neighbours in a ring that share a leaf are not hashed at all.
// Left out: groups of different kinds that meet, and rates that change while groups of a kind are done.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "workloads/groups/groups.h"
#include "workloads/job/job.h"

namespace orrery::workloads {

/// One kind of group. Rates in bytes/s of a node of the group over all its NICs (a message: of its sender).
struct HashedPaths {
  std::string_view group;      // tensor, data, ...
  std::int64_t groups = 0;     // that leave their nodes
  double even = 0;             // mean over groups where traffic spreads over all paths
  double mean = 0;             // mean over groups and seeds, hashed
  double worst_twentieth = 0;  // the rate that 95 % of groups and seeds reach or pass
  double slowest = 0;          // of the slowest group, mean over seeds
};

/// The kinds of group of a job whose fabric routes by ecmp, with seeds 1 to `seeds`; kinds that stay inside nodes are
/// left out. The seed of the site's own fabric does not matter.
std::vector<HashedPaths> hashed_paths(const Site& site, const GroupInputs& inputs, std::int64_t seeds);

}  // namespace orrery::workloads
