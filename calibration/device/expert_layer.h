// Time of the experts of one rank, forward, as serving libraries run and published tables time them: choice of experts,
// sorting of the choices, gathering of rows, the first product (gate and up together), activation, the second product,
// weighted sum of rows back into tokens; without a host's launches (CUDA graphs).
//   time = products (grouped_model.h, served) + fixed + choice * tokens * top_k + score * tokens * experts
//          + expert * experts of the rank + gathered bytes / (gather * bandwidth)
//          + activated bytes / (activate * bandwidth)
//          + returned bytes / (scatter * bandwidth)
//          + sort, unless one block of threads sorts the choices (sorts_at_once)
//          + unfused + unfused_token * tokens, where the library has no kernel that chooses (chooses_fused)
// The products' tiles are those that the library's tuner found the fastest for the last power of two of the tokens (up
// to 8192), each of which went to experts by chance; kernels for fp8 by blocks have no tuner and fit their tile to what
// came. gathered: rows read in 16 bits and written in the products' type; activated: the first product's result read in
// 16 bits, the second's operand written; returned: rows read, tokens written, in 16 bits. Kernels that a library fuses
// into a product move less, so that a share of bandwidth may exceed 1.
// Source of the sequence: NVIDIA TensorRT-LLM, cpp/tensorrt_llm/kernels/cutlass_kernels/moe_gemm/moe_kernels.cu and
// tensorrt_llm/_torch/modules/fused_moe/routing.py; the tuner: prepareFakeRouterBuffers and GemmProfilerBackend in
// moe_kernels.cu, and MoERunner in tensorrt_llm/_torch/custom_ops/torch_custom_ops.py. A training step's routing and
// permutation are kernels of their own and are not timed by this. Left out: what products take whose tuning a table
// lost (measure/samples.h), up to five times as long.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "calibration/device/grouped_model.h"
#include "calibration/device/kernel.h"
#include "calibration/device/routing.h"

namespace orrery::calibration {

/// Experts of a layer, as a row of a table has them.
struct ExpertLayer {
  DataType dtype = DataType::bf16;
  std::int64_t tokens = 1;  // that the rank's choices are made for: of all ranks that share the experts
  std::int64_t hidden = 1, ffn = 1;
  std::int64_t top_k = 1, experts = 1;
  std::int64_t tensor = 1, expert_ranks = 1;
  double alpha = 0;  // of routing.h
  Beyond beyond = Beyond::all_ranks;
  bool gated = true;  // whether the first product is of twice the width
};

/// Whether the library's own kernel chooses experts, of up to 512 and up to 16 a token; else PyTorch's do, one after
/// another.
inline bool chooses_fused(double top_k, double experts) { return top_k <= 16 && experts <= 512; }
/// Whether one kernel sorts the choices, a thread for each token of up to 256; else three do.
inline bool sorts_at_once(double tokens, double top_k) {
  return tokens <= 256 && (top_k == 1 || top_k == 2 || top_k == 4 || top_k == 6 || top_k == 8);
}

struct ServedExperts {
  double fixed = 25e-6;                              // seconds
  double choice = 1e-10, score = 2e-12;              // seconds per token and choice, per token and expert
  double expert = 1e-9;                              // seconds per expert of the rank
  double gather = 0.7, activate = 1, scatter = 0.7;  // of memory bandwidth
  double sort = 0;                                   // seconds
  double unfused = 0, unfused_token = 0;             // seconds, seconds per token
};

/// The two products of a layer's experts and what surrounds them, averaged over draws of the routing.
class ExpertWork {
 public:
  explicit ExpertWork(const ExpertLayer& layer);

  /// Seconds of the products, each with its own correction, and of what surrounds them.
  double seconds(const GroupedModel& products, const ServedExperts& around) const;

  struct Parts {
    double first = 0, second = 0, around = 0;  // seconds, uncorrected; the products without their launches
    double total = 0;
  };
  Parts parts(const GroupedModel& products, const ServedExperts& around) const;
  double flops() const;
  bool chooses_fused() const { return calibration::chooses_fused(top_k_, experts_); }
  /// Mean tokens of the experts that have any.
  double rows() const { return rows_; }
  /// Where a product's correction is asked: rows, columns, depth.
  std::array<double, 3> first_sizes() const { return {rows_, first_out_, hidden_}; }
  std::array<double, 3> second_sizes() const { return {rows_, hidden_, ffn_}; }

 private:
  double around(const GroupedModel& products, const ServedExperts& s) const;

  GroupRows group_, timed_;  // the experts' rows, and those that the tuner timed
  double tokens_, top_k_, experts_, local_, hidden_, ffn_, first_out_;
  double assigned_ = 0, rows_ = 1;
};

}  // namespace orrery::calibration
