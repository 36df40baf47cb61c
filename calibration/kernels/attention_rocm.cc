// Fused attention on ROCm: as PyTorch runs it, from its own library (torch_attention.cc), where that is found. MIOpen's
// interface to it changed from release to release, AOTriton's is C++ and Composable Kernel is a source library; without
// PyTorch, attention is inherited, or learnt from a trace (`orrery calibrate --learn`).
#include "calibration/kernels/attention.h"
#include "calibration/kernels/workload.h"

namespace orrery::calibration::gpu {

std::unique_ptr<AttentionPass> make_attention_pass(Device& device, const Case& what, bool backward) {
  return make_torch_pass(device, what, backward);
}

void list_attention_library(Inventory&) {}

}  // namespace orrery::calibration::gpu
