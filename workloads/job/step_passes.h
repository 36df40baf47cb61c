// Which passes the stages of a job run, in which order.
#pragma once

#include "workloads/job/job_values.h"
#include "workloads/model/passes.h"
#include "workloads/schedules/schedule.h"
#include "workloads/schedules/zero_bubble.h"

namespace orrery::workloads {

/// Device times of the passes of every cell, communication inside a pass at its time on an idle node, in seconds; and
/// of a message between stages. What a runtime profiles before it looks for an order. `tensor_in_node`: ranks of a
/// tensor group that lies in a node, else 1.
PipelineTimes pass_times(const LayerSplit& split, const ChunkMap& map, const KernelTimes& kernels,
                         std::int64_t tensor_in_node, double message_seconds);

/// The passes of every stage. Schedules whose authors place weight gradients by times are run as they run them: in the
/// best order found for the job's own times (best_orders), which holds no more activations than they allow: p
/// micro-batches for ZB-1p, 2p for ZB-2p.
StageOrders step_passes(const Job& job, const LayerSplit& split);

}  // namespace orrery::workloads
