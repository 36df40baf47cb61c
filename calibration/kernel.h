// The kernels that a training step runs, as shapes: what a device profile can be asked to time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace orrery::calibration {

enum class DataType : std::uint8_t { fp32, bf16, fp16, fp8 };

/// Bytes of one element.
constexpr int bytes_of(DataType t) { return t == DataType::fp32 ? 4 : t == DataType::fp8 ? 1 : 2; }
std::string_view name_of(DataType t);

/// C[m,n] (+)= A[m,k] B[k,n], `batch` of them in one launch. The form says which operand is transposed in memory, as in
/// the forward pass (TN), the data gradient (NN) and the weight gradient (NT) of a linear layer.
struct Gemm {
  enum class Form : std::uint8_t { forward, data_gradient, weight_gradient };
  DataType dtype = DataType::bf16;  // of A and B; C is 16 bit, or of `sum` where `accumulate` is set
  std::int64_t m = 1, n = 1, k = 1;
  std::int64_t batch = 1;
  Form form = Form::forward;
  bool accumulate = false;        // C is read and added to (gradient accumulation fused into the weight gradient)
  DataType sum = DataType::fp32;  // of the C that is added to
  /// fp8 only: A arrives in 16 bit and is scaled and cast per tensor by kernels ahead of the GEMM. Published fp8 tables
  /// are timed like this; a training step counts its casts apart (Streaming::cast_transpose).
  bool cast_input = false;
  /// Whether rows of 16-bit operands begin at multiples of 16 bytes (8 elements), as matrix units want them.
  bool aligned = true;
};

inline constexpr std::size_t kGemmForms = 3;

/// Generations of fused attention kernels: what the profile's tables measured, or FlashAttention's first version, which
/// keeps its tensor cores a third as busy.
enum class AttentionKernel : std::uint8_t { fused, flash_1 };
inline constexpr std::size_t kAttentionKernels = 2;
std::string_view name_of(AttentionKernel kernel);

/// Fused (flash) attention of `heads` query heads over `kv_heads` key/value heads.
struct Attention {
  DataType dtype = DataType::bf16;
  std::int64_t batch = 1, queries = 1, keys = 1;  // sequence positions
  std::int64_t heads = 1, kv_heads = 1, head_dim = 1;
  bool causal = true;
  std::int64_t window = 0;  // each query sees the last `window` keys; 0 = all
  bool backward = false;
  /// Inference wrappers copy keys and values into a cache and rotate queries in a kernel ahead of the attention;
  /// published tables are timed like this. A training step does not run that kernel.
  bool cache_write = false;
  bool dropout = false;  // of the probabilities, by random numbers made in the kernel; timed for flash_1 alone
  AttentionKernel kernel = AttentionKernel::fused;
};

/// Kernels bound by memory traffic; the caller says how many bytes they move.
enum class Streaming : std::uint8_t {
  layer_norm,
  layer_norm_backward,
  gelu,
  gelu_backward,
  bias_dropout_residual,
  dropout,
  softmax,
  softmax_backward,
  cross_entropy,
  embedding,
  embedding_backward,
  cast_transpose,
  copy,
  accumulate,
  optimizer,
  gradient_norm
};
inline constexpr std::size_t kStreamingKernels = 16;
std::string_view name_of(Streaming kernel);

}  // namespace orrery::calibration
