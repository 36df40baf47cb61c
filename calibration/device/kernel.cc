// Names of data types, streaming kernels and collective operations: the words that profiles and reports use.
#include "calibration/device/kernel.h"

#include <array>

#include "calibration/device/profile.h"
#include "sim/error.h"

namespace orrery::calibration {

std::string_view name_of(DataType t) {
  static constexpr std::array<std::string_view, kDataTypes> kNames{"fp32",  "bf16",          "fp16",        "fp8",
                                                                   "mxfp8", "fp8-blockwise", "fp8-rowwise", "nvfp4"};
  const auto i = static_cast<std::size_t>(t);
  SIM_CHECK(i < kNames.size(), "data type {}", i);
  return kNames[i];
}

const std::vector<std::string>& data_type_names() {
  static const std::vector<std::string> kNames = [] {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < kDataTypes; ++i) names.emplace_back(name_of(static_cast<DataType>(i)));
    return names;
  }();
  return kNames;
}

std::string_view name_of(GroupedKernel kernel) {
  static constexpr std::array<std::string_view, kGroupedKernels> kNames{"grouped", "streams", "loop"};
  const auto i = static_cast<std::size_t>(kernel);
  SIM_CHECK(i < kNames.size(), "grouped kernel {}", i);
  return kNames[i];
}

std::vector<std::int64_t> even_tokens(std::int64_t assignments, std::int64_t experts) {
  SIM_CHECK(assignments >= 0 && experts >= 1, "{} tokens for {} experts", assignments, experts);
  std::vector<std::int64_t> out(static_cast<std::size_t>(experts), assignments / experts);
  for (std::int64_t e = 0; e < assignments % experts; ++e) ++out[static_cast<std::size_t>(e)];
  return out;
}

std::string_view name_of(AttentionKernel kernel) {
  static constexpr std::array<std::string_view, kAttentionKernels> kNames{"fused",     "flash_1",    "flash_2",
                                                                          "fused_fp8", "fused_2026", "served"};
  const auto i = static_cast<std::size_t>(kernel);
  SIM_CHECK(i < kNames.size(), "attention kernel {}", i);
  return kNames[i];
}

std::string_view name_of(Streaming kernel) {
  static constexpr std::array<std::string_view, kStreamingKernels> kNames{
      "layer_norm",
      "layer_norm_backward",
      "gelu",
      "gelu_backward",
      "bias_dropout_residual",
      "dropout",
      "softmax",
      "softmax_backward",
      "cross_entropy",
      "embedding",
      "embedding_backward",
      "cast_transpose",
      "copy",
      "accumulate",
      "optimizer",
      "gradient_norm",
      "scatter_add",
      "index_add",
      "strided",
      "strided_cast",
      "rank_order",
      "ordered_sum",
      "top_k",
      "page_copy",
  };
  const auto i = static_cast<std::size_t>(kernel);
  SIM_CHECK(i < kNames.size(), "streaming kernel {}", i);
  return kNames[i];
}

double assumed_efficiency(Streaming kernel) {
  // What goes by elements is bound by bytes as copies are, if ever.
  if (elements_per_processor(kernel) > 0) return 0.8;
  // 131072 rows of 7168 and of 2048 elements in fp8 take the kernel of Megatron-Core's paged stash 468 and 156 us on a
  // GB300 (NVIDIA/Megatron-LM, pull request 6414), 4.0 and 3.4 TB/s of 8, read and written; other devices: the same
  // share, not measured.
  if (kernel == Streaming::page_copy) return 0.465;
  return 0;
}

double elements_per_processor(Streaming kernel) {
  // Measured on an H200 with PyTorch 2.11 and its 132 processors at 1.98 GHz, rows of 4096 elements, 65,536 and 98,304
  // of them; each thread waits for its element before it asks for the next, so that memory's rate is not what counts.
  // Other devices: as much a processor, not measured.
  switch (kernel) {
    case Streaming::scatter_add:
      return 2.0e9;  // bf16 1018 and 1523 us; fp32, into zeros as wide, 900 and 1410
    case Streaming::index_add:
      return 0.92e9;  // bf16 2210 and 3336 us; fp32 1823 and 2742
    case Streaming::strided_cast:
      return 1.88e9;  // rows in bf16 times a fp32 number of each: 1081 and 1620 us
    case Streaming::strided:
      // A PReLU of 1024 x 10240 fp16 elements with a weight of each column, on an H200: 1.18 TB/s of 4 bytes an element
      // (tile-ai/TileOPs, pull request 500, its comparison with PyTorch). Eager casts to fp32 and FSDP2's copies into a
      // reduction go alike: 300 billion elements a second in steps of TorchTitan's 8B on such a card.
      return 2.24e9;
    case Streaming::rank_order:
      // TorchTitan's 70B of two and four layers as one of eight tensor ranks on that card: 1.2 TB/s of the two bytes
      // that an element of fp8 is read and written in.
      return 4.5e9;
    case Streaming::ordered_sum:
      return 2.7e9;  // in the same steps: 2.0 to 2.3 TB/s of the six bytes of two gradients in bf16
    case Streaming::top_k:
      return 0.14e9;  // 8 of 128 and 256 in fp32, 8192 rows: 60 and 108 us
    default:
      return 0;
  }
}

std::string_view name_of(CollectiveOp op) {
  static constexpr std::array<std::string_view, kCollectiveOps> kNames{"all_reduce", "all_gather", "reduce_scatter",
                                                                       "all_to_all", "broadcast",  "send_receive"};
  const auto i = static_cast<std::size_t>(op);
  SIM_CHECK(i < kNames.size(), "collective {}", i);
  return kNames[i];
}

}  // namespace orrery::calibration
