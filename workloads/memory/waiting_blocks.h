// Blocks of memory that a step is done with but that nothing else may have yet: PyTorch's caching allocator keeps a
// block that another stream was given (record_stream) until that stream has passed the point where it was freed.
//
// A host that is ahead of its device frees, and allocates anew, before the device has come that far. How far ahead it
// can be is how many launches the driver takes before it blocks. With sequence parallelism a rank hands whole tensors,
// [tokens, hidden], to every reduce-scatter on the communicator's stream; these are what waits. They are reserved, and
// not among what PyTorch calls allocated; an allocation that fails waits for them, so that they never end a run.
//
// Left out: inputs of gathers and outputs, which are 1/tensor of that; pieces that blocks are broken into; how far a
// host really is ahead, where it issues more slowly than its device works; events, which take room among launches too.
#pragma once

#include <vector>

#include "workloads/compile/layer_split.h"
#include "workloads/model/passes.h"
#include "workloads/schedules/schedule.h"

namespace orrery::workloads {

/// How far hosts are ahead of their devices.
struct HostLead {
  calibration::HostLaunches launches;
  bool ends_with_pass = false;  // the host waits for its device between passes, at every message
};

/// Bytes that wait when a pass like `fullest` begins (ends, if it is a forward pass), at most. `passes`: of the stage,
/// in order, with `fullest` among them.
double waiting_bytes(const StageLayout& stage, const std::vector<Pass>& passes, const Pass& fullest,
                     const KernelTimes& kernels, HostLead lead);

}  // namespace orrery::workloads
