// The kernels that a training step runs, as shapes: what a device profile can be asked to time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace orrery::calibration {

/// What a matrix product multiplies. From fp8 on elements carry scales: one for a tensor (fp8), one for each 32 (mxfp8,
/// OCP Microscaling Formats 1.0), 128 (fp8_blockwise, DeepSeek-V3, arXiv 2412.19437, section 3.3) or 16 elements
/// (nvfp4, arXiv 2509.25149), one for a row (fp8_rowwise). fp32 is IEEE single precision, not TF32: PyTorch multiplies
/// fp32 tensors in it unless torch.backends.cuda.matmul.allow_tf32 is set.
enum class DataType : std::uint8_t { fp32, bf16, fp16, fp8, mxfp8, fp8_blockwise, fp8_rowwise, nvfp4 };
inline constexpr std::size_t kDataTypes = 8;

/// Whether operands are cast from 16 bit, with scales, ahead of a product.
constexpr bool is_quantised(DataType t) { return t >= DataType::fp8; }

/// Bytes of one element of a tensor of a whole-byte type, without scales: nvfp4 never lies in memory but as an operand.
constexpr int bytes_of(DataType t) { return t == DataType::fp32 ? 4 : is_quantised(t) ? 1 : 2; }

/// Bytes of one element of an operand, with its share of the scales (those of whole rows and tensors are too few).
constexpr double operand_bytes(DataType t) {
  switch (t) {
    case DataType::mxfp8:
      return 1 + 1.0 / 32;  // E8M0
    case DataType::fp8_blockwise:
      return 1 + 4.0 / 128;  // fp32
    case DataType::nvfp4:
      return 0.5 + 1.0 / 16;  // E4M3; one more in fp32 for the tensor
    default:
      return bytes_of(t);
  }
}

/// As documents write it: fp8-blockwise.
std::string_view name_of(DataType t);
/// All of them, in order.
const std::vector<std::string>& data_type_names();

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
  /// Quantised types only: A arrives in 16 bit and is scaled and cast by kernels ahead of the GEMM. Published tables of
  /// them are timed like this; a training step counts its casts apart (Streaming::cast_transpose).
  bool cast_input = false;
  /// Whether rows of 16-bit operands begin at multiples of 16 bytes (8 elements), as matrix units want them.
  bool aligned = true;
};

inline constexpr std::size_t kGemmForms = 3;

/// How the products of several experts are launched. `grouped`: one kernel works on the tiles of all (CUTLASS grouped
/// GEMM, DeepGEMM). `streams`: a library's product for each, dealt out to streams whose kernels fill each other's idle
/// processors (TransformerEngine's GroupedLinear: nvte_multi_tensor_gemm, 4 streams). `loop`: one after another on one
/// stream (Megatron-core's SequentialMLP).
enum class GroupedKernel : std::uint8_t { grouped, streams, loop };
inline constexpr std::size_t kGroupedKernels = 3;
std::string_view name_of(GroupedKernel kernel);

/// One linear layer of each expert of a rank, on the tokens that each was given. The weight of an expert is [out, in];
/// its input [tokens, in] and result [tokens, out].
struct GroupedGemm {
  DataType dtype = DataType::bf16;
  std::int64_t out = 1, in = 1;
  std::vector<std::int64_t> tokens;  // of each expert on the rank; 0: it has none
  /// forward: the result; data_gradient: of the input, [tokens, in]; weight_gradient: of the weight, [out, in], summed
  /// over an expert's tokens.
  Gemm::Form form = Gemm::Form::forward;
  bool accumulate = false;        // weight gradients are added to what is there
  DataType sum = DataType::fp32;  // of the sum that is added to
  GroupedKernel kernel = GroupedKernel::grouped;
};

/// `assignments` of tokens to experts (tokens x top_k) dealt out as evenly as whole numbers can be.
std::vector<std::int64_t> even_tokens(std::int64_t assignments, std::int64_t experts);

/// Generations of fused attention kernels: the vendor's for training; FlashAttention's first version, which keeps its
/// tensor cores a third as busy, or its second, which does as well as any on the device that it was written for and
/// knows nothing of later ones; the vendor's on operands in fp8, or those of 2026, which on Blackwell are half as fast
/// again; the kernels that the profile's tables timed, which may be those that serve models. A profile without numbers
/// of its own for a generation answers with its tables.
enum class AttentionKernel : std::uint8_t { fused, flash_1, flash_2, fused_fp8, fused_2026, served };
inline constexpr std::size_t kAttentionKernels = 6;
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
  /// Operations in fp32 that the kernel needs for each score beyond those of the kernel that was timed.
  double score_operations = 0;
  AttentionKernel kernel = AttentionKernel::served;
};

/// Kernels bound by memory traffic; the caller says how many bytes they move. From scatter_add to top_k they go by
/// elements instead, where these take longer (elements_per_processor).
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
  gradient_norm,
  scatter_add,   // PyTorch's scatter_add_ of rows: added into others element by element (atomics)
  index_add,     // PyTorch's index_add_ of rows, of which gradients of picked rows are made
  strided,       // PyTorch's kernel for one element after another, where an operand has gaps, is repeated or cast
  strided_cast,  // the same where operands are of two types
  rank_order,    // PyTorch's chunk and cat along an inner dimension: what ranks sent, or are sent, put in order
  ordered_sum,   // a sum that a compiler writes in that order
  top_k,         // PyTorch's choice of a few of each row's elements
  page_copy      // 8-bit rows into pages of a buffer or out of them, block of 1024 after block
};
inline constexpr std::size_t kStreamingKernels = 24;
std::string_view name_of(Streaming kernel);
/// Share of memory bandwidth that is taken of a device whose profile does not give this kernel's; 0 where it must.
double assumed_efficiency(Streaming kernel);
/// Elements a second that a processor of the device does of a kernel that goes by elements; 0: it goes by bytes alone.
double elements_per_processor(Streaming kernel);

}  // namespace orrery::calibration
