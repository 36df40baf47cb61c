// PyTorch's library, through the interface of C that compiled models use and that PyTorch keeps stable across releases
// (torch/csrc/inductor/aoti_torch/c/shim.h and generated/c_shim_cuda.h of pytorch/pytorch). Builds for ROCm have the
// same names. Declared here, because a module does not need PyTorch to be built.
#pragma once

#include <cstdint>
#include <vector>

#include "calibration/kernels/device_state.h"
#include "calibration/kernels/library.h"

namespace orrery::calibration::gpu {

using TorchTensor = void*;  // AtenTensorHandle

/// The functions of the library; null pointers unless `ready`.
struct Torch {
  Library library;
  std::int32_t (*device_type)() = nullptr;
  std::int32_t (*bfloat16)() = nullptr;
  std::int32_t (*float16)() = nullptr;
  std::int32_t (*float32)() = nullptr;
  int (*from_blob)(void* data, std::int64_t dimensions, const std::int64_t* sizes, const std::int64_t* strides,
                   std::int64_t offset, std::int32_t type, std::int32_t device_type, std::int32_t device,
                   TorchTensor* out) = nullptr;
  int (*empty)(TorchTensor* out) = nullptr;
  int (*drop)(TorchTensor) = nullptr;
  int (*data_of)(TorchTensor, void** data) = nullptr;
  int (*bytes_of)(TorchTensor, std::int64_t* bytes) = nullptr;
  int (*guard)(void* stream, std::int32_t device, void** out) = nullptr;
  int (*end_guard)(void*) = nullptr;
  int (*flash_forward)(TorchTensor q, TorchTensor k, TorchTensor v, TorchTensor* first_q, TorchTensor* first_k,
                       std::int64_t most_q, std::int64_t most_k, double dropout, std::int32_t causal,
                       std::int32_t debug, double* scale, std::int64_t* left, std::int64_t* right, TorchTensor* used_k,
                       TorchTensor* slopes, TorchTensor* out, TorchTensor* log_sum, TorchTensor* state,
                       TorchTensor* unused, TorchTensor* mask) = nullptr;
  int (*flash_backward)(TorchTensor dout, TorchTensor q, TorchTensor k, TorchTensor v, TorchTensor out,
                        TorchTensor log_sum, TorchTensor first_q, TorchTensor first_k, std::int64_t most_q,
                        std::int64_t most_k, double dropout, std::int32_t causal, TorchTensor state, TorchTensor unused,
                        double* scale, std::int64_t* left, std::int64_t* right, TorchTensor* dq, TorchTensor* dk,
                        TorchTensor* dv) = nullptr;
  bool ready = false;

  // Any operation by its name, from PyTorch 2.7 on (torch/csrc/stable/library.h): the arguments stand in `stack`, and
  // its results after the call. Tensors among them are given away; what is optional and there is the address of its
  // value, made by `new_value` where the library has that and by new where not.
  int (*call)(const char* name, const char* overload, std::uint64_t* stack) = nullptr;
  int (*new_value)(std::uint64_t** value) = nullptr;
  std::int32_t (*int32)() = nullptr;
  std::int32_t (*e4m3)() = nullptr;
  std::int32_t (*e4m3_fnuz)() = nullptr;
  bool calls = false;

  Torch();
};
Torch& torch();

/// A tensor of the library, or of memory of ours; goes away with its owner.
class TorchValue {
 public:
  TorchValue() = default;
  explicit TorchValue(TorchTensor tensor) : tensor_(tensor) {}
  ~TorchValue();
  TorchValue(TorchValue&& other) noexcept : tensor_(other.tensor_) { other.tensor_ = nullptr; }
  TorchValue& operator=(TorchValue&& other) noexcept;
  TorchTensor get() const { return tensor_; }
  TorchTensor* place();  // for a function that makes one
  TorchTensor release();
  /// Copies what it holds. Throws Failure.
  void copy_to(void* memory, Stream stream) const;

 private:
  TorchTensor tensor_ = nullptr;
};

/// Dense, of the type of a case, on our memory. Throws Failure.
TorchValue torch_tensor(Device& device, CaseType type, void* data, const std::vector<std::int64_t>& sizes);
/// Of any type of the library's, with strides.
TorchValue torch_tensor(Device& device, std::int32_t type, void* data, const std::vector<std::int64_t>& sizes,
                        const std::vector<std::int64_t>& strides);
/// Throws Failure, unavailable, where the library could not do it; it has said why on standard error.
void check_torch(int status, const char* what);

/// PyTorch works on our stream while it lives.
class OnStream {
 public:
  OnStream(Device& device, Stream stream);
  ~OnStream();
  OnStream(const OnStream&) = delete;
  OnStream& operator=(const OnStream&) = delete;

 private:
  void* guard_ = nullptr;
};

}  // namespace orrery::calibration::gpu
