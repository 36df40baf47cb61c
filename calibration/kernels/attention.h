// Fused causal attention as a library runs it, forward or backward, on tensors laid out [batch, sequence, heads,
// head_dim], the statistics (logarithm of the sum of exponentials) as [batch, heads, sequence] in fp32.
#pragma once

#include <cmath>
#include <memory>

#include "calibration/kernels/device_state.h"

namespace orrery::calibration::gpu {

/// Tensors of a pass. Forward writes out and statistics; backward reads them and writes the gradients.
struct AttentionTensors {
  void *q = nullptr, *k = nullptr, *v = nullptr, *out = nullptr, *statistics = nullptr;
  void *dout = nullptr, *dq = nullptr, *dk = nullptr, *dv = nullptr;
};

class AttentionPass {
 public:
  virtual ~AttentionPass() = default;
  virtual void launch(const AttentionTensors& tensors, Stream stream) = 0;
  /// Copies what the last launch made into the tensors, where a library keeps its results in memory of its own.
  virtual void deliver(const AttentionTensors&, Stream) {}
};

/// Throws Failure with unavailable where the library has no kernel for the case.
std::unique_ptr<AttentionPass> make_attention_pass(Device& device, const Case& what, bool backward);

/// The last m of seq positions of each sequence over all of these, keys and values in one piece [batch, seq, kv_heads,
/// head_dim]; by PyTorch's library. Throws as make_attention_pass.
std::unique_ptr<AttentionPass> make_cached_pass(Device& device, const Case& what);
/// A training pass by PyTorch's library: FlashAttention-2 on CUDA; on ROCm AOTriton's or Composable Kernel's, as
/// PyTorch chooses. Throws as make_attention_pass.
std::unique_ptr<AttentionPass> make_torch_pass(Device& device, const Case& what, bool backward);

inline double attention_scale(const Case& what) { return 1 / std::sqrt(static_cast<double>(what.attention.head_dim)); }

/// Whether key `j` counts for query `i`.
inline bool sees(const Case& what, std::int64_t i, std::int64_t j) {
  return j <= i && (what.attention.window == 0 || j + what.attention.window > i);
}

}  // namespace orrery::calibration::gpu
