// Matrix products: buffers, and a reference that computes some entries of C in float64 from the same rounded inputs.
// Errors: 16-bit results round at 2^-9 (bf16) or 2^-12 (fp16) relative; fp8 products are summed with fewer than 24 bits
// on some devices.
#include <array>
#include <cstring>

#include "calibration/kernels/product.h"
#include "calibration/kernels/values.h"
#include "calibration/kernels/workload.h"

namespace orrery::calibration::gpu {
namespace {

constexpr int kEntries = 32;

Storage storage_of_b(CaseType a) { return a == CaseType::fp8_e5m2 ? Storage::e4m3 : storage_of(a); }

Storage storage_of_c(const Case& c) {
  if (accumulates(c) || c.dtype == CaseType::float32) return Storage::fp32;
  return c.dtype == CaseType::float16 ? Storage::fp16 : Storage::bf16;
}

class GemmWorkload : public Workload {
 public:
  GemmWorkload(Device& device, const Case& what) : case_(what), product_(make_product(device, what)) {
    // A standard deviation of 1 for inputs gives sqrt(k) for the result: far inside the range of fp16 up to k = 1e8.
    a_ = buffers_.input(storage_of(what.dtype), what.batch * what.m * what.k);
    b_ = buffers_.input(storage_of_b(what.dtype), what.batch * what.k * what.n);
    const std::int64_t results = what.batch * what.m * what.n;
    // A C that is added to is an input too: poison would stay in it.
    c_ = accumulates(what) ? buffers_.input(storage_of_c(what), results) : buffers_.output(storage_of_c(what), results);
    buffers_.allocate(device);
  }

  int sets() const override { return buffers_.sets(); }

  void launch(int set, Stream stream) override {
    product_->launch(buffers_.at<void>(a_, set), buffers_.at<void>(b_, set), buffers_.at<void>(c_, set), stream);
  }

  double error(Device& device) override {
    run_once(device, *this, buffers_);
    Difference difference;
    for (int i = 0; i < kEntries; ++i) {
      // The corners first, where wrong strides show, then anywhere.
      const std::uint64_t draw = bits_at(1, static_cast<std::uint64_t>(i));
      const std::int64_t row = corner(i & 1, case_.m, draw, i), column = corner(i >> 1 & 1, case_.n, draw >> 20, i);
      const std::int64_t batch = i < 4 ? case_.batch - 1 : static_cast<std::int64_t>(draw >> 40) % case_.batch;
      const std::int64_t at = (batch * case_.m + row) * case_.n + column;
      difference.add(buffers_.read(c_, at, 1).front(), entry(batch, row, column, at));
    }
    return difference.relative();
  }

  double tolerance() const override {
    if (case_.dtype == CaseType::fp8_e4m3 || case_.dtype == CaseType::fp8_e5m2) return 5e-2;
    return 1e-2;
  }

 private:
  static std::int64_t corner(int last, std::int64_t size, std::uint64_t draw, int i) {
    if (i < 4) return last != 0 ? size - 1 : 0;
    return static_cast<std::int64_t>(draw % static_cast<std::uint64_t>(size));
  }

  double entry(std::int64_t batch, std::int64_t row, std::int64_t column, std::int64_t at) const {
    double sum = accumulates(case_) ? buffers_.value(c_, at) : 0;
    const std::int64_t in_a = batch * case_.m * case_.k, in_b = batch * case_.k * case_.n;
    for (std::int64_t k = 0; k < case_.k; ++k) {
      const std::int64_t a = case_.form == CaseForm::nt ? k * case_.m + row : row * case_.k + k;
      const std::int64_t b = case_.form == CaseForm::tn ? column * case_.k + k : k * case_.n + column;
      sum += buffers_.value(a_, in_a + a) * buffers_.value(b_, in_b + b);
    }
    return sum;
  }

  Case case_;
  Buffers buffers_;
  int a_ = 0, b_ = 0, c_ = 0;
  std::unique_ptr<Product> product_;
};

}  // namespace

bool accumulates(const Case& what) { return std::strcmp(what.name, "accumulate") == 0; }

std::unique_ptr<Workload> make_gemm(Device& device, const Case& what) {
  if (device.facts().peak[static_cast<int>(what.dtype)] <= 0) {
    throw Failure{GpuStatus::unavailable, "the device has no matrix units for this type"};
  }
  return std::make_unique<GemmWorkload>(device, what);
}

}  // namespace orrery::calibration::gpu
