// What parameters that are shared out move among the groups of ranks that hold parts of them: a part of the closed form
// of the communication table, with the sizes of groups and elements as it works them out by itself.
#pragma once

#include "workloads/traffic/traffic_rows.h"
#include "workloads/traffic/weight_traffic.h"

namespace orrery::workloads {

/// The ranks that hold the same parameters, and the groups of them.
struct ShardedRanks {
  std::int64_t replicas = 1;
  std::int64_t owners = 1;                  // that share out the optimizer's states
  std::int64_t weights = 1, gradients = 1;  // of these, that share out weights, and gradients of passes
  std::int64_t secondary = 0;               // and a second copy of the weights; 0: there is none
};

struct ShardedElements {
  double whole = 0;                    // parameters, on all ranks that hold different ones
  GatheredElements gathered;           // of them
  double parameter = 2, gradient = 4;  // bytes of an element as held and added up
};

/// Micro-batches, that each holder of a block sees in a step, for which parameters are gathered and whose passes reduce
/// gradients.
struct ShardedPasses {
  double gather = 1, reduce = 1;
};

/// Weights beside adapters, of so many bytes on all ranks that hold different ones: gathered for every pass, never
/// reduced.
void add_frozen_rows(const CommGroup& among, const ShardedRanks& ranks, double bytes, double microbatches,
                     TrafficRows& rows);

/// Groups: `among` all owners, `across` those of the same part.
void add_sharded_rows(const CommGroup& among, const CommGroup& across, const ShardedRanks& ranks,
                      const ShardedElements& elements, const calibration::FetchStyle& style,
                      const ShardedPasses& passes, TrafficRows& rows);

}  // namespace orrery::workloads
