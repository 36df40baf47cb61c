// Blocks that no family has, as the operators of their graph in order: what torch.export or a look at the source says
// of them. Products with weights, attention, products of two activations, kernels bound by memory, norms of the hidden
// state and sums onto the residual stream; sizes are elements of a token.
//
// Tensor ranks cut such blocks as Megatron-LM cuts its own (arXiv 1909.08053, section 3): a product cut by its outputs
// opens a part of the block whose widths the ranks share out, one cut by its inputs closes it with a sum over them, or
// goes on inside of it with sums that every rank reads whole; products of neither run whole on every rank, under
// sequence parallelism each on its own positions.
#pragma once

#include <cstdint>
#include <vector>

namespace orrery::workloads {

struct Operator {
  enum class Kind : std::uint8_t { norm, product, attention, matmul, elementwise, copy, residual };
  Kind kind = Kind::norm;
  /// Of a product: over the tensor group not at all, by outputs, by inputs; or by inputs with its sums whole on every
  /// rank, where a part of the block that is cut goes on from them (Mamba-1's steps). Of others: whether their weights
  /// are cut (out).
  enum class Cut : std::uint8_t { none, out, in, sum } cut = Cut::none;
  std::int64_t in = 0, out = 0;  // widths that a product reads and makes
  bool beside = false;           // a product that reads what the one ahead of it reads
  /// Of what is no product with weights: elements read and written forward, moved backward, and kept for that.
  double reads = 0, writes = 0, backward = 0, keeps = 0;
  double flops = 0;    // of a product of two activations, at the model's length of sequences
  double weights = 0;  // parameters beside a matrix: biases, scales
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0;  // of attention
  bool causal = true;
  double share = 1;  // of a sequence's tokens that it runs on: streams with weights of their own, or once a sequence
  /// Its weights are those of a layer ahead (Zamba2's transformer, arXiv 2411.15242, section 2): it holds none, and its
  /// gradients are added to theirs.
  bool shared = false;
  double ahead = 0;  // elements of a token that it reads of what a layer ahead made (SambaY, arXiv 2507.06607)
  bool operator==(const Operator&) const = default;
};

struct Operators {
  std::vector<Operator> run;
  bool any() const { return !run.empty(); }
  bool operator==(const Operators&) const = default;
};

}  // namespace orrery::workloads
