// A matrix product as a library runs it: one descriptor, many launches.
#pragma once

#include <memory>

#include "calibration/kernels/device_state.h"

namespace orrery::calibration::gpu {

class Product {
 public:
  virtual ~Product() = default;
  virtual void launch(const void* a, const void* b, void* c, Stream stream) = 0;
  /// Copies what the last launch made into C, where a library keeps its results in memory of its own.
  virtual void deliver(void*, Stream) {}
};

/// The kernel that the library's heuristic puts first, which is what frameworks run. Throws Failure: unavailable where
/// the library or the device has no kernel for the case.
std::unique_ptr<Product> make_product(Device& device, const Case& what);

/// The products of all experts of a group in one launch, as PyTorch runs them. Throws as make_product.
std::unique_ptr<Product> make_torch_grouped(Device& device, const Case& what);

/// Whether C is fp32 and added to.
bool accumulates(const Case& what);

}  // namespace orrery::calibration::gpu
