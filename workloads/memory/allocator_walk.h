// What PyTorch's caching allocator holds after some steps of a stage, walked tensor by tensor. It keeps more than is
// allocated at any moment: segments of one pass that the next one's tensors split or do not fit, blocks that another
// stream was given and whose host is ahead of its device, what the optimizer's step needs, which comes where passes
// have left room or beside them. Which tensors a pass makes and lets go of, in which order, is that of eager code with
// tensor-parallel layers that gather and scatter by themselves (nanotron's models/llama.py and
// tensor_parallel/functional.py).
#pragma once

#include <cstdint>
#include <vector>

#include "calibration/framework/software.h"
#include "workloads/memory/pass_pace.h"
#include "workloads/memory/tensor_sizes.h"
#include "workloads/schedules/schedule.h"

namespace orrery::workloads {

/// What stays of a stage from step to step, and what the optimizer's step needs.
struct LastingTensors {
  std::vector<double> weights;  // elements of each, in the order in which they are made
  double owners = 1;            // ranks that share out master weights and moments
  double bucket = 0;            // bytes of 16-bit buckets that gradients are reduced in and that stay; 0: none
  std::int64_t listed = 0;      // ranks of a gather of all parameters by lists behind the step; 0: there is none
};

/// A stage of one chunk.
struct WalkedStage {
  const TensorSizes& sizes;
  const LastingTensors& lasting;
  const std::vector<Pass>& passes;
  const std::vector<double>& arrivals;  // of what passes wait for, in seconds into the step
  std::int64_t blocks = 0;
  bool first = true, last = true;  // has the embedding; has the head
  LayerPace block = {}, head = {};
  calibration::HostLaunches launches = {};
  bool waits = false;         // the host waits for its device at every message
  std::int64_t capacity = 0;  // bytes; 0: without end
};

/// Bytes reserved at most between the end of a step's passes and its own: all that it was, unless an allocation failed.
double reserved_by_steps(const WalkedStage& stage);

}  // namespace orrery::workloads
