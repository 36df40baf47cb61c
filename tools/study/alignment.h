// Which of a job's groups lie together: the order in which its nodes take the places of a cluster. A node belongs to a
// group of stages (its pipeline) and to one of replicas (its data-parallel peers), so that only one of them can lie
// below the same switches (Arnold: He et al., NeurIPS 2025, arXiv 2509.15940, section 3).
#pragma once

#include <cstdint>
#include <vector>

#include "workloads/groups/dims.h"
#include "workloads/groups/groups.h"

namespace orrery::tools {

/// `job`: its layout, on nodes of `per_node` GPUs. `places`: nodes of a cluster, near ones next to each other, as many
/// as the job has. Returns the place of each of the job's own nodes, so that the groups of `dim` (data or pipeline)
/// take neighbouring places.
std::vector<std::int64_t> aligned(const workloads::GroupInputs& job, std::int64_t per_node,
                                  const std::vector<std::int64_t>& places, workloads::Dim dim);

/// The most parts of the cluster that a group of `dim` touches; `part_of`: by node of the cluster (its unit, its pod).
/// That is Arnold's spread of a group.
std::int64_t widest_group(const workloads::GroupInputs& job, std::int64_t per_node,
                          const std::vector<std::int64_t>& nodes, const std::vector<std::int32_t>& part_of,
                          workloads::Dim dim);

}  // namespace orrery::tools
