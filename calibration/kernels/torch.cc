// Loading of torch.h. libtorch_cuda.so and libtorch_hip.so bring the other libraries of PyTorch along, which lie beside
// them in the folder torch/lib of a Python installation (library.cc).
#include "calibration/kernels/torch.h"

#include <string>
#include <utility>

namespace orrery::calibration::gpu {

Torch::Torch()
#if defined(ORRERY_HIP) || defined(ORRERY_EMULATED)
    : library{{"libtorch_hip.so"}} {
#else
    : library{{"libtorch_cuda.so"}} {
#endif
  ready = library.get(device_type, "aoti_torch_device_type_cuda") &&
          library.get(bfloat16, "aoti_torch_dtype_bfloat16") && library.get(float16, "aoti_torch_dtype_float16") &&
          library.get(float32, "aoti_torch_dtype_float32") &&
          library.get(from_blob, "aoti_torch_create_tensor_from_blob") &&
          library.get(empty, "aoti_torch_new_uninitialized_tensor") &&
          library.get(drop, "aoti_torch_delete_tensor_object") && library.get(data_of, "aoti_torch_get_data_ptr") &&
          library.get(bytes_of, "aoti_torch_get_storage_size") &&
          library.get(guard, "aoti_torch_create_cuda_stream_guard") &&
          library.get(end_guard, "aoti_torch_delete_cuda_stream_guard") &&
          library.get(flash_forward, "aoti_torch_cuda__flash_attention_forward") &&
          library.get(flash_backward, "aoti_torch_cuda__flash_attention_backward");
  calls = ready && library.get(int32, "aoti_torch_dtype_int32") &&
          library.get(e4m3, "aoti_torch_dtype_float8_e4m3fn") &&
          library.get(e4m3_fnuz, "aoti_torch_dtype_float8_e4m3fnuz") && library.get(call, "aoti_torch_call_dispatcher");
  static_cast<void>(calls && library.get(new_value, "torch_new_stable_ivalue"));
}

Torch& torch() {
  static Torch& one = *new Torch;
  return one;
}

TorchValue::~TorchValue() {
  if (tensor_ != nullptr) static_cast<void>(torch().drop(tensor_));
}

TorchValue& TorchValue::operator=(TorchValue&& other) noexcept {
  std::swap(tensor_, other.tensor_);
  return *this;
}

TorchTensor* TorchValue::place() {
  if (tensor_ != nullptr) static_cast<void>(torch().drop(tensor_));
  tensor_ = nullptr;
  return &tensor_;
}

void TorchValue::copy_to(void* memory, Stream stream) const {
  void* data = nullptr;
  std::int64_t bytes = 0;
  check_torch(torch().data_of(tensor_, &data), "reading a result");
  check_torch(torch().bytes_of(tensor_, &bytes), "reading a result");
  check(gpuMemcpyAsync(memory, data, static_cast<std::size_t>(bytes), gpuMemcpyDefault, stream), "copying a result");
}

TorchTensor TorchValue::release() { return std::exchange(tensor_, nullptr); }

void check_torch(int status, const char* what) {
  if (status != 0) throw Failure{GpuStatus::unavailable, std::string(what) + ": PyTorch refuses the case"};
}

TorchValue torch_tensor(Device& device, CaseType type, void* data, const std::vector<std::int64_t>& sizes) {
  std::vector<std::int64_t> strides(sizes.size(), 1);
  for (std::size_t i = sizes.size(); i-- > 1;) strides[i - 1] = strides[i] * sizes[i];
  return torch_tensor(device, type == CaseType::float16 ? torch().float16() : torch().bfloat16(), data, sizes, strides);
}

TorchValue torch_tensor(Device& device, std::int32_t type, void* data, const std::vector<std::int64_t>& sizes,
                        const std::vector<std::int64_t>& strides) {
  TorchValue out;
  check_torch(torch().from_blob(data, static_cast<std::int64_t>(sizes.size()), sizes.data(), strides.data(), 0, type,
                                torch().device_type(), device.number(), out.place()),
              "making a tensor");
  return out;
}

OnStream::OnStream(Device& device, Stream stream) {
  check_torch(torch().guard(stream, device.number(), &guard_), "choosing a stream");
}
OnStream::~OnStream() {
  if (guard_ != nullptr) static_cast<void>(torch().end_guard(guard_));
}

}  // namespace orrery::calibration::gpu
