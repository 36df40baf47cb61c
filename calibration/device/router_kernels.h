// The kernels around the experts of a layer as Megatron-core runs them, by the bytes that each reads and writes: choice
// of experts, losses that balance them, permutation of rows into the order of experts and back. The matrix product of
// the router ([tokens, hidden] by [experts, hidden]) is a Gemm and not here. All move memory at the rate of a copy
// (DeviceProfile::streaming with Streaming::copy): rows are kilobytes long.
//
// Bytes are counted from the code, tensor by tensor: Megatron-LM, megatron/core/transformer/moe/moe_utils.py (permute,
// unpermute, sort_chunks_by_idxs, topk_routing_with_score_function, switch_load_balancing_loss_func, z_loss_func) and
// TransformerEngine, transformer_engine/common/fused_router/*.cu and transformer_engine/pytorch/triton/permutation.py.
// `fused`: moe_router_fusion and moe_permute_fusion; else PyTorch's kernels one by one.
// Left out: sums over a few values, sorts within a token, what a second kernel finds in the cache.
#pragma once

#include <string_view>
#include <vector>

namespace orrery::calibration {

/// One rank's part of a layer. Scores are fp32, masks a byte.
struct RouterShape {
  double tokens = 1, hidden = 1, experts = 1, top_k = 1;
  double element_bytes = 2;  // of a row's element
};

struct MovedBytes {
  std::string_view name;
  double reads = 0, writes = 0;  // bytes
  double total() const { return reads + writes; }
};
using Kernels = std::vector<MovedBytes>;

/// Scores of [tokens, experts] to weights and a mask of the chosen.
Kernels choose_kernels(const RouterShape& s, bool fused);
/// Gradient of the scores.
Kernels choose_backward_kernels(const RouterShape& s, bool fused);
/// The auxiliary loss of the Switch Transformer over a micro-batch: a softmax of its own, its sum, and the product.
Kernels balance_loss_kernels(const RouterShape& s, bool fused);
/// The loss on the logarithm of the scores' sum (ST-MoE).
Kernels z_loss_kernels(const RouterShape& s);
/// `tokens` rows into `rows` rows in the order of experts (without dropping tokens * top_k of them), with the map that
/// says where. The backward pass is unpermute without its map.
Kernels permute_kernels(const RouterShape& s, double rows, bool fused);
/// `rows` rows summed up into tokens. The backward pass gathers them again: permute without its map.
Kernels unpermute_kernels(const RouterShape& s, double rows, bool fused);
/// `rows` rows that came from each rank in turn into the order of the experts, or back; none where the rank has one
/// expert. Forward and backward alike.
Kernels sort_chunks_kernels(const RouterShape& s, double rows);

}  // namespace orrery::calibration
