// Products by hipBLASLt, and where they are chosen.
#pragma once

#include <memory>

#include "calibration/kernels/product.h"
#include "calibration/kernels/workload.h"

namespace orrery::calibration::gpu {

/// Whether PyTorch runs products by it on that architecture; the user's TORCH_BLAS_PREFER_HIPBLASLT counts as there.
bool prefers_hipblaslt(const char* architecture);
/// Throws as make_product.
std::unique_ptr<Product> make_hipblaslt_product(Device& device, const Case& what);
void list_hipblaslt(Inventory& inventory);

}  // namespace orrery::calibration::gpu
