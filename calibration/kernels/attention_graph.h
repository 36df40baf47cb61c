// The operation graphs of attention, apart from running them, so that cuDNN can judge them without a GPU.
#pragma once

#include "calibration/kernels/cudnn_graph.h"

namespace orrery::calibration::gpu {

/// Tensors in memory; -1: not part of the pass. Row sum and sum of dQ are scratch of the backward pass in fp32.
struct AttentionNodes {
  CudnnGraph::Node q = -1, k = -1, v = -1, out = -1, statistics = -1;
  CudnnGraph::Node dout = -1, dq = -1, dk = -1, dv = -1, row_sum = -1, dq_sum = -1;
};

/// Adds the operations of one pass to an empty graph.
AttentionNodes attention_graph(CudnnGraph& graph, const Case& what, bool backward);

}  // namespace orrery::calibration::gpu
