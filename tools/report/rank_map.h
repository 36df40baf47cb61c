// Which rank runs on which GPU, and what it holds: data for the picture in the report of a run.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "workloads/job/job.h"

namespace orrery::tools {

/// {gpus_per_node, nodes, dimensions: [{name, size, nodes}], ranks: [[rank, place, ...], ...]}: of each GPU of the
/// first 64 nodes, in order, its rank and the rank's place along every dimension that is longer than 1; -1 where no
/// rank runs. `nodes` of a dimension: those that the group of rank 0 along it spans.
nlohmann::ordered_json rank_map_json(const workloads::Parallelism& layout, const workloads::Placement& placement,
                                     const workloads::Machine& machine);

}  // namespace orrery::tools
