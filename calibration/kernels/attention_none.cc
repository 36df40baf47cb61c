// Fused attention on ROCm: not measured. MIOpen's interface to it changed from release to release and Composable Kernel
// is a source library; attention is left to a profile of the data sheet and a transferred efficiency there.
#include "calibration/kernels/attention.h"
#include "calibration/kernels/workload.h"

namespace orrery::calibration::gpu {

std::unique_ptr<AttentionPass> make_attention_pass(Device&, const Case&, bool) {
  throw Failure{GpuStatus::unavailable, "fused attention is not available in the HIP module"};
}

void list_attention_library(Inventory& inventory) {
  inventory.add("fused attention", "", "not available in the HIP module", "attention");
}

}  // namespace orrery::calibration::gpu
