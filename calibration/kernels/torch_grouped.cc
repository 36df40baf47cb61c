// Products of experts in one launch as PyTorch runs them, aten::_grouped_mm, and with a scale of each row
// aten::_scaled_grouped_mm: CUTLASS's grouped kernels on Hopper and Blackwell, Composable Kernel's on CDNA 3
// (aten/src/ATen/native/cuda/GroupedBlas.cpp of pytorch/pytorch). Tokens of all experts lie below one another, and
// a table says where each expert's end; of a weight gradient these are the inner dimension. Both operations are called
// by their names, as the interface of C has no functions of theirs.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "calibration/kernels/product.h"
#include "calibration/kernels/torch.h"
#include "calibration/kernels/workload.h"

namespace orrery::calibration::gpu {
namespace {

std::uint64_t argument(TorchValue tensor) { return reinterpret_cast<std::uint64_t>(tensor.release()); }

/// An optional argument that is there.
std::uint64_t given(TorchValue tensor) {
  std::uint64_t* value = nullptr;
  if (torch().new_value != nullptr)
    check_torch(torch().new_value(&value), "passing an argument");
  else
    value = new std::uint64_t;  // which the library deletes
  *value = argument(std::move(tensor));
  return reinterpret_cast<std::uint64_t>(value);
}

class TorchGrouped : public Product {
 public:
  TorchGrouped(Device& device, const Case& what) : device_(device), case_(what), ends_(4 * count(what.batch)) {
    std::vector<std::int32_t> ends;
    const std::int64_t each = what.form == CaseForm::nt ? what.k : what.m;
    for (std::int64_t i = 1; i <= what.batch; ++i) ends.push_back(static_cast<std::int32_t>(i * each));
    check(gpuMemcpy(ends_.data(), ends.data(), ends.size() * 4, gpuMemcpyHostToDevice), "writing a table");
    if (what.dtype != CaseType::fp8_row) return;
    const std::vector<float> ones(count(what.batch * std::max(what.m, what.n)), 1.0f);
    scales_ = Memory(ones.size() * 4);
    check(gpuMemcpy(scales_.data(), ones.data(), ones.size() * 4, gpuMemcpyHostToDevice), "writing scales");
  }

  void launch(const void* a, const void* b, void*, Stream stream) override {
    const OnStream here(device_, stream);
    TorchValue first = left(const_cast<void*>(a)), second = right(const_cast<void*>(b));
    TorchValue ends = torch_tensor(device_, torch().int32(), ends_.data(), {case_.batch}, {1});
    TorchTensor* const out = out_.place();  // what was made before goes first, so that its memory serves again
    std::uint64_t stack[9] = {argument(std::move(first)), argument(std::move(second))};
    if (scales_.data() == nullptr) {
      stack[2] = given(std::move(ends));
      check_torch(torch().call("aten::_grouped_mm", "", stack), "products of experts");
    } else {
      const std::int32_t type = torch().float32();
      stack[2] = argument(torch_tensor(device_, type, scales_.data(), {case_.batch * case_.m}, {1}));
      stack[3] = argument(torch_tensor(device_, type, scales_.data(), {case_.batch, case_.n}, {case_.n, 1}));
      stack[4] = given(std::move(ends));
      stack[8] = 1;  // sums of fewer bits, as PyTorch's own users of forward products ask for
      check_torch(torch().call("aten::_scaled_grouped_mm", "", stack), "products of experts");
    }
    *out = reinterpret_cast<TorchTensor>(stack[0]);
  }
  void deliver(void* c, Stream stream) override { out_.copy_to(c, stream); }

 private:
  static std::size_t count(std::int64_t n) { return static_cast<std::size_t>(n); }

  std::int32_t type() const {
    if (case_.dtype != CaseType::fp8_row) return torch().bfloat16();
    return fp8_of(device_) == Fp8::fnuz ? torch().e4m3_fnuz() : torch().e4m3();
  }
  TorchValue left(void* a) const {
    const std::int64_t m = case_.m, k = case_.k, experts = case_.batch;
    if (case_.form == CaseForm::nt) return torch_tensor(device_, type(), a, {m, experts * k}, {1, m});
    return torch_tensor(device_, type(), a, {experts * m, k}, {k, 1});
  }
  TorchValue right(void* b) const {
    const std::int64_t n = case_.n, k = case_.k, experts = case_.batch;
    if (case_.form == CaseForm::nt) return torch_tensor(device_, type(), b, {experts * k, n}, {n, 1});
    if (case_.form == CaseForm::nn) return torch_tensor(device_, type(), b, {experts, k, n}, {k * n, n, 1});
    return torch_tensor(device_, type(), b, {experts, k, n}, {k * n, 1, k});
  }

  Device& device_;
  Case case_;
  Memory ends_, scales_;
  TorchValue out_;
};

}  // namespace

std::unique_ptr<Product> make_torch_grouped(Device& device, const Case& what) {
  if (!torch().calls)
    throw Failure{GpuStatus::unavailable, torch().ready ? "PyTorch's library: operations by name are there from 2.7 on"
                                                        : "PyTorch's library: " + torch().library.problem()};
  const bool rows = what.dtype == CaseType::fp8_row && what.form == CaseForm::tn;
  if (what.dtype != CaseType::bfloat16 && !rows)
    throw Failure{GpuStatus::unavailable, "PyTorch groups products of bfloat16, and forward ones of fp8 by rows"};
  return std::make_unique<TorchGrouped>(device, what);
}

}  // namespace orrery::calibration::gpu
