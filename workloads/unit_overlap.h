// How much of a sharded unit's compute its own collectives run beside (FSDP, ZeRO 3): they take SMs and memory
// bandwidth from kernels only while they last.
#pragma once

#include <span>

#include "workloads/collectives/collective.h"
#include "workloads/pass_template.h"

namespace orrery::workloads {

/// Whether collectives go unit by unit (a layer each) rather than chunk by chunk: where the weights are shared out, and
/// where gradients are reduced in every backward pass.
bool works_by_unit(const Job& job);

/// With gradients shared out (ZeRO 2), whether those of every micro-batch are reduced in its backward pass, and so need
/// no buffer of their own until the next: DeepSpeed's stage 2 (runtime/zero/stage2.py), Paddle's GroupShardedStage2
/// (fleet/meta_parallel/sharding/group_sharded_stage2.py), FSDP's SHARD_GRAD_OP without no_sync. Other software, as
/// Megatron-LM's, adds them up whole over the micro-batches of a step and reduces them once.
bool reduces_every_pass(const Job& job);

/// Likewise, whether weights are gathered for the forward pass of every micro-batch and dropped after its backward pass
/// (FSDP's SHARD_GRAD_OP), and not once a step.
bool gathers_every_pass(const Job& job);

/// Whether a rank keeps a shard of the gradients, and not all of them, from one micro-batch to the next.
bool shares_out_gradients(const Job& job);

/// Whether gradients are all-reduced, and not reduce-scattered: where nothing is shared out, and where the software
/// does so though a rank updates only its part (software key all_reduces_shards).
bool all_reduces_gradients(const Job& job);

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
