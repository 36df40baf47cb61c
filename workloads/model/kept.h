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
  double units = 0;  // of `working`: weights gathered, and gradients whole, of units of sharded parameters
};

/// What units of sharded parameters take beside a backward pass (ZeRO-3, FSDP), as far as it is not held all the time.
/// The loss is behind the forward pass and ahead of every unit's backward one. In bytes.
struct UnitBytes {
  double blocks = 0;        // the blocks at work: weights, and gradients on their way
  double ends = 0;          // weights of embedding and head, one unit that is gathered again behind the loss
  bool ends_whole = false;  // whose gradients stay whole to the end of the pass that made them
  // Of `blocks`: gradients that a block's own backward pass makes, which the head has not, and those of the block
  // behind it, which are reduced meanwhile: the first block behind a loss has none.
  double made = 0, reducing = 0;
};

/// `units`: what the layer, but for a loss, needs beside it.
PassBytes bytes_of(const Layer& layer, double units = 0);
/// Of a chunk of layers: its backward pass frees what a layer kept before it goes on to the layer in front of it.
PassBytes bytes_of(const Network& network, const LayerRange& range, const UnitBytes& units = {});

}  // namespace orrery::workloads
