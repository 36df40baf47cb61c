// rocBLAS, and the choice between it and hipBLASLt, as PyTorch makes it. Its functions are declared here as in AMD's
// rocBLAS documentation (rocblas-types.h), because distributions ship the compiler without the library. A row-major C =
// A B is C^T = B^T A^T there.
#include <cstdint>
#include <string>

#include "calibration/kernels/library.h"
#include "calibration/kernels/product.h"
#include "calibration/kernels/product_hipblaslt.h"
#include "calibration/kernels/workload.h"

namespace orrery::calibration::gpu {
namespace {

// rocblas_operation, rocblas_datatype, rocblas_gemm_algo, rocblas_status.
constexpr int kPlain = 111, kTransposed = 112;
constexpr int kF16 = 150, kF32 = 151, kBf16 = 168;
constexpr int kStandard = 0;
constexpr int kSuccess = 0, kNotSupported = 2, kInvalidSize = 4, kMemoryError = 5;

using Handle = void*;

struct RocBlas {
  Library library{{"librocblas.so.5", "librocblas.so.4", "librocblas.so.3", "librocblas.so.0", "librocblas.so"}};
  int (*create)(Handle*) = nullptr;
  int (*set_stream)(Handle, Stream) = nullptr;
  int (*version)(char*, std::size_t) = nullptr;
  int (*gemm)(Handle, int transa, int transb, int m, int n, int k, const void* alpha, const void* a, int a_type,
              int lda, std::int64_t stride_a, const void* b, int b_type, int ldb, std::int64_t stride_b,
              const void* beta, const void* c, int c_type, int ldc, std::int64_t stride_c, void* d, int d_type, int ldd,
              std::int64_t stride_d, int batch, int compute_type, int algo, std::int32_t solution,
              std::uint32_t flags) = nullptr;
  bool ready = false;

  RocBlas() {
    ready = library.get(create, "rocblas_create_handle") && library.get(set_stream, "rocblas_set_stream") &&
            library.get(version, "rocblas_get_version_string") && library.get(gemm, "rocblas_gemm_strided_batched_ex");
  }
};

RocBlas& blas() {
  static RocBlas library;
  return library;
}

void check_blas(int status, const char* what) {
  if (status == kSuccess) return;
  const GpuStatus kind = status == kNotSupported || status == kInvalidSize ? GpuStatus::unavailable
                         : status == kMemoryError                          ? GpuStatus::out_of_memory
                                                                           : GpuStatus::failed;
  throw Failure{kind, std::string(what) + ": rocBLAS status " + std::to_string(status)};
}

Handle handle() {
  static Handle made = nullptr;
  if (made == nullptr) check_blas(blas().create(&made), "starting rocBLAS");
  return made;
}

int data_type(CaseType t) { return t == CaseType::float16 ? kF16 : t == CaseType::float32 ? kF32 : kBf16; }

class RocProduct : public Product {
 public:
  explicit RocProduct(const Case& what) : case_(what) {}

  void launch(const void* a, const void* b, void* c, Stream stream) override {
    check_blas(blas().set_stream(handle(), stream), "choosing a stream");
    const auto m = static_cast<int>(case_.m), n = static_cast<int>(case_.n), k = static_cast<int>(case_.k);
    const int type = data_type(case_.dtype), result = accumulates(case_) ? kF32 : type;
    const int first = case_.form == CaseForm::tn ? kTransposed : kPlain;
    const int second = case_.form == CaseForm::nt ? kTransposed : kPlain;
    const float alpha = 1, beta = accumulates(case_) ? 1.0f : 0.0f;
    const std::int64_t stride_c = case_.m * case_.n;
    check_blas(
        blas().gemm(handle(), first, second, n, m, k, &alpha, b, type, first == kTransposed ? k : n, case_.k * case_.n,
                    a, type, second == kTransposed ? m : k, case_.m * case_.k, &beta, c, result, n, stride_c, c, result,
                    n, stride_c, static_cast<int>(case_.batch), kF32, kStandard, 0, 0),
        "launching a product");
  }

 private:
  Case case_;
};

}  // namespace

std::unique_ptr<Product> make_product(Device& device, const Case& what) {
  if (what.dtype >= CaseType::fp8_e4m3 || prefers_hipblaslt(device.facts().architecture))
    return make_hipblaslt_product(device, what);
  if (!blas().ready) throw Failure{GpuStatus::unavailable, "rocBLAS: " + blas().library.problem()};
  return std::make_unique<RocProduct>(what);
}

void list_gemm_library(Inventory& inventory) {
  std::string version;
  if (blas().ready) {
    char text[128] = {};
    static_cast<void>(blas().version(text, sizeof text));
    version = text;
  }
  inventory.add("rocBLAS", version, blas().library.problem(), "matrix products");
  list_hipblaslt(inventory);
}

}  // namespace orrery::calibration::gpu
