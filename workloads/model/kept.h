// Bytes that a layer's activations take on one rank, for one micro-batch: folds over what it keeps for its backward
// pass, and what that backward pass needs beside it while it works.
#pragma once

#include "workloads/model/layer.h"

namespace orrery::workloads {

/// What a pass keeps, what its backward pass needs beside that at its fullest, and what is left between the halves of a
/// backward pass that is cut in two. In bytes.
struct PassBytes {
  double kept = 0, working = 0, between = 0;
  /// Of the chunk, whole, beyond this rank's share: from its first pass that makes gradients of weights to its last.
  double gradients = 0;
};

PassBytes bytes_of(const Layer& layer);
/// Of a chunk of layers: its backward pass frees what a layer kept before it goes on to the layer in front of it.
PassBytes bytes_of(const Network& network, const LayerRange& range);

}  // namespace orrery::workloads
