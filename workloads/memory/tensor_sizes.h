// Bytes of the tensors that an eager framework makes in the passes over a stage's layers, one micro-batch on one rank.
#pragma once

#include <array>
#include <optional>

#include "workloads/compile/layer_split.h"

namespace orrery::workloads {

/// Of a block: norm, projection to queries, keys and values, attention, its projection, norm, gate and up projection in
/// one, activation, product with the gate, down projection.
struct BlockSizes {
  double queries_keys_values = 0, keys_values = 0, attention = 0, sums = 0;  // sums: of attention's scores
  double up = 0, gate = 0;
  std::array<double, 4> weights = {};  // 16-bit gradients: of the projections in, out, up and down
};

struct TensorSizes {
  double whole = 0, part = 0;  // a hidden state, and this rank's share of it where tensor ranks share out positions
  bool split = false;          // they do
  BlockSizes block;
  double logits = 0, ends = 0;  // in 16 bits, and of the gradient of the embedding's weights
};

/// Nothing where the layers are of another make: experts, recomputation, several kinds of blocks, a tensor or context
/// group that splits them otherwise.
std::optional<TensorSizes> tensor_sizes(const Network& network);

}  // namespace orrery::workloads
