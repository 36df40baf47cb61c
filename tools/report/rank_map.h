// Which rank runs on which GPU, and what it holds: data for the picture in the report of a run.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "topology/cluster.h"
#include "workloads/job/job.h"

namespace orrery::tools {

/// {gpus_per_node, nodes, dimensions: [{name, size, stride, nodes}], ranks: [[rank, place, ...], ...]}: of each GPU of
/// the first 64 nodes, in order, its rank and the rank's place along every dimension that is longer than 1; -1 where no
/// rank runs. `nodes` of a dimension: those that the group of rank 0 along it spans. And for a picture of all GPUs:
/// `gpus`; `rank_of_gpu`, where rank i is not on GPU i; and of a dimension `cut` and `within`, by which rank r is at
/// place r % within / cut % size.
nlohmann::ordered_json rank_map_json(const workloads::Parallelism& layout, const workloads::Placement& placement,
                                     const workloads::Machine& machine);

/// The same of a network without a job: no ranks, and as its one dimension the units of nodes that share leaf switches,
/// by the numbers of GPUs, where they are told apart.
nlohmann::ordered_json unit_map_json(const topology::Cluster& cluster);

}  // namespace orrery::tools
