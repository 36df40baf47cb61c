// How much of a sharded unit's compute its own collectives run beside (FSDP, ZeRO 3): they take SMs and memory
// bandwidth from kernels only while they last.
#pragma once

#include <span>

#include "workloads/collectives/collective.h"
#include "workloads/pass_template.h"

namespace orrery::workloads {

/// Whether collectives go unit by unit (a layer each) rather than chunk by chunk: where the weights are shared out too,
/// and in software that is made for this (its default) where only gradients and optimizer states are (FSDP's
/// SHARD_GRAD_OP: a unit is gathered in the first forward pass and reduced in the last backward pass of a step).
bool works_by_unit(const Job& job);

/// Whether the gradients of every micro-batch go to their owners, weight by weight, as Paddle's GroupShardedStage2
/// sends them (python/paddle/distributed/fleet/meta_parallel/sharding/group_sharded_stage2.py).
bool reduces_every_pass(const Job& job);

/// The gradients of one unit of `parameters` elements on their way to their owners: one weight matrix after the other
/// of `layer` along a chain of all ranks, a broadcast backwards, which has to fill for each; norms and biases, with the
/// embedding and the head of the unit that has them, are one more.
CollectiveCost owner_reductions(double parameters, const Layer& layer, const Job& job, const GroupShape& data,
                                const topology::Cluster& cluster);

/// The units of one pass.
struct UnitCollectives {
  double parameters = 0;  // elements of all units
  std::int64_t units = 1;
  bool gathers = false, reduces = false;
};

/// Seconds of the kernels of a pass.
double compute_seconds(std::span<const PassItem> items);

/// Seconds that a collective among the ranks of `data` takes on an idle network, path latencies left out.
double seconds_alone(const CollectiveCost& cost, const GroupShape& data, const topology::Cluster& cluster);

/// Share, 0 to 1, of a pass of `compute` seconds that its collectives cover when they run beside it on an idle network
/// (path latencies left out).
double covered_share(const UnitCollectives& pass, double compute, const Job& job, const GroupShape& data,
                     const topology::Cluster& cluster);

}  // namespace orrery::workloads
