// hipBLASLt, which PyTorch prefers to rocBLAS on gfx90a, gfx942 and gfx950 (at::Context, blasPreferredBackend), and
// which alone has fp8 there. Its functions and numbers are declared here as in AMD's headers (hipblaslt.h,
// hipblas-common.h, library_types.h of HIP), because distributions ship the compiler without the library. Layouts as in
// product_cublaslt.cc. gfx94x multiplies fp8 with a bias of its own (FNUZ), gfx95x the OCP's. Scales of rows, and on
// gfx95x of 32 elements, are those of newer libraries; of blocks of 128 it has none.
#include "calibration/kernels/product_hipblaslt.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "calibration/kernels/library.h"
#include "calibration/kernels/workload.h"

namespace orrery::calibration::gpu {
namespace {

constexpr std::size_t kWorkspace = std::size_t{76} << 20;  // PyTorch's on ROCm: CUDABlas.cpp, _getWorkspaceSize
constexpr int kPlain = 111, kTransposed = 112;             // hipblasOperation_t
constexpr int kCompute32 = 2;                              // HIPBLAS_COMPUTE_32F
// hipDataType.
constexpr int kR32 = 0, kR16 = 2, kRb16 = 14, kE4m3 = 28, kE5m2 = 29, kE4m3Fnuz = 1000, kE5m2Fnuz = 1001;
// Attributes.
constexpr int kTransA = 0, kTransB = 1, kScaleA = 5, kScaleB = 6, kModeA = 31, kModeB = 32;
constexpr int kBatchCount = 0, kBatchStride = 1, kMaxWorkspace = 1;
constexpr std::uint32_t kOf32Elements = 2, kOfRows = 3;  // hipblasLtMatmulMatrixScale_t

struct Algorithm {
  std::uint8_t data[16] = {};
  std::size_t workspace = 0;
};
struct Choice {
  Algorithm algorithm;
  std::size_t workspace = 0;
  int state = 0;
  float waves = 1;
  int reserved[4] = {};
};
using Handle = void*;

struct HipBlasLt {
  Library library{{"libhipblaslt.so.1", "libhipblaslt.so.0", "libhipblaslt.so"}};
  int (*create)(Handle*) = nullptr;
  int (*version)(Handle, int*) = nullptr;
  int (*desc_create)(Handle*, int compute, int scale) = nullptr;
  int (*desc_destroy)(Handle) = nullptr;
  int (*desc_set)(Handle, int attribute, const void*, std::size_t) = nullptr;
  int (*layout_create)(Handle*, int type, std::uint64_t rows, std::uint64_t columns, std::int64_t stride) = nullptr;
  int (*layout_destroy)(Handle) = nullptr;
  int (*layout_set)(Handle, int attribute, const void*, std::size_t) = nullptr;
  int (*preference_create)(Handle*) = nullptr;
  int (*preference_destroy)(Handle) = nullptr;
  int (*preference_set)(Handle, int attribute, const void*, std::size_t) = nullptr;
  int (*heuristic)(Handle, Handle desc, Handle a, Handle b, Handle c, Handle d, Handle preference, int asked, Choice*,
                   int* found) = nullptr;
  int (*matmul)(Handle, Handle desc, const void* alpha, const void* a, Handle, const void* b, Handle, const void* beta,
                const void* c, Handle, void* d, Handle, const Algorithm*, void* workspace, std::size_t,
                Stream) = nullptr;
  bool ready = false;

  HipBlasLt() {
    ready = library.get(create, "hipblasLtCreate") && library.get(version, "hipblasLtGetVersion") &&
            library.get(desc_create, "hipblasLtMatmulDescCreate") &&
            library.get(desc_destroy, "hipblasLtMatmulDescDestroy") &&
            library.get(desc_set, "hipblasLtMatmulDescSetAttribute") &&
            library.get(layout_create, "hipblasLtMatrixLayoutCreate") &&
            library.get(layout_destroy, "hipblasLtMatrixLayoutDestroy") &&
            library.get(layout_set, "hipblasLtMatrixLayoutSetAttribute") &&
            library.get(preference_create, "hipblasLtMatmulPreferenceCreate") &&
            library.get(preference_destroy, "hipblasLtMatmulPreferenceDestroy") &&
            library.get(preference_set, "hipblasLtMatmulPreferenceSetAttribute") &&
            library.get(heuristic, "hipblasLtMatmulAlgoGetHeuristic") && library.get(matmul, "hipblasLtMatmul");
  }
};

HipBlasLt& hip_lt() {
  static HipBlasLt library;
  return library;
}

void check_hip_lt(int status, const char* what) {
  constexpr int kAllocFailed = 2, kInvalidValue = 3, kNotSupported = 7;
  if (status == 0) return;
  const GpuStatus kind = status == kNotSupported || status == kInvalidValue ? GpuStatus::unavailable
                         : status == kAllocFailed                           ? GpuStatus::out_of_memory
                                                                            : GpuStatus::failed;
  throw Failure{kind, std::string(what) + ": hipBLASLt status " + std::to_string(status)};
}

Handle hip_lt_handle() {
  static Handle made = nullptr;
  if (made == nullptr) check_hip_lt(hip_lt().create(&made), "starting hipBLASLt");
  return made;
}

/// Descriptors that go away with their owner.
template <int (*HipBlasLt::*kDestroy)(Handle)>
struct OwnedByLt {
  Handle value = nullptr;
  OwnedByLt() = default;
  ~OwnedByLt() {
    if (value != nullptr) static_cast<void>((hip_lt().*kDestroy)(value));
  }
  OwnedByLt(const OwnedByLt&) = delete;
  OwnedByLt& operator=(const OwnedByLt&) = delete;
};

bool is_fp8(CaseType t) { return t >= CaseType::fp8_e4m3; }

int lt_type(CaseType t, bool fnuz) {
  switch (t) {
    case CaseType::float16:
      return kR16;
    case CaseType::float32:
      return kR32;
    case CaseType::fp8_e4m3:
    case CaseType::fp8_row:
    case CaseType::mxfp8:
      return fnuz ? kE4m3Fnuz : kE4m3;
    case CaseType::fp8_e5m2:
      return fnuz ? kE5m2Fnuz : kE5m2;
    default:
      return kRb16;
  }
}

class HipLtProduct : public Product {
 public:
  HipLtProduct(Device& device, const Case& what) : workspace_(kWorkspace), beta_(accumulates(what) ? 1.0f : 0.0f) {
    const bool fnuz = fp8_of(device) == Fp8::fnuz;
    const int a_type = lt_type(what.dtype, fnuz);
    const int b_type = what.dtype == CaseType::fp8_e5m2 ? lt_type(CaseType::fp8_e4m3, fnuz) : a_type;
    const int c_type = accumulates(what) || what.dtype == CaseType::float32 ? kR32
                       : is_fp8(what.dtype)                                 ? kRb16
                                                                            : a_type;
    check_hip_lt(hip_lt().desc_create(&desc_.value, kCompute32, kR32), "describing a product");
    const std::int32_t first = what.form == CaseForm::tn ? kTransposed : kPlain;
    const std::int32_t second = what.form == CaseForm::nt ? kTransposed : kPlain;
    set(kTransA, first);
    set(kTransB, second);
    if (is_fp8(what.dtype)) scale(what);
    const std::int64_t m = what.m, n = what.n, k = what.k;
    lay_out(first_.value, b_type, first == kTransposed ? k : n, first == kTransposed ? n : k, what.batch, k * n);
    lay_out(second_.value, a_type, second == kTransposed ? m : k, second == kTransposed ? k : m, what.batch, m * k);
    lay_out(result_.value, c_type, n, m, what.batch, m * n);
    choose();
  }

  void launch(const void* a, const void* b, void* c, Stream stream) override {
    const float alpha = 1;
    check_hip_lt(hip_lt().matmul(hip_lt_handle(), desc_.value, &alpha, b, first_.value, a, second_.value, &beta_, c,
                                 result_.value, c, result_.value, &algorithm_, workspace_.data(), kWorkspace, stream),
                 "launching a product");
  }

 private:
  /// Scales of one for both operands.
  void scale(const Case& what) {
    if (what.dtype == CaseType::mxfp8) {
      const auto padded = [](std::int64_t size, std::int64_t to) { return (size + to - 1) / to * to; };
      constexpr std::uint8_t kOneE8m0 = 0x7f;
      const std::int64_t count = padded(std::max(what.m, what.n), 128) * padded((what.k + 31) / 32, 4);
      put(std::vector<std::uint8_t>(static_cast<std::size_t>(count), kOneE8m0));
    } else {
      const std::int64_t count = what.dtype == CaseType::fp8_row ? std::max(what.m, what.n) : 1;
      put(std::vector<float>(static_cast<std::size_t>(count), 1.0f));
    }
    const void* const at = scale_.data();
    set(kScaleA, at);
    set(kScaleB, at);
    if (what.dtype != CaseType::mxfp8 && what.dtype != CaseType::fp8_row) return;
    const std::uint32_t mode = what.dtype == CaseType::mxfp8 ? kOf32Elements : kOfRows;
    set(kModeA, mode);
    set(kModeB, mode);
  }
  template <class T>
  void put(const std::vector<T>& scales) {
    scale_ = Memory(scales.size() * sizeof(T));
    check(gpuMemcpy(scale_.data(), scales.data(), scales.size() * sizeof(T), gpuMemcpyHostToDevice), "writing scales");
  }
  template <class T>
  void set(int attribute, const T& value) {
    check_hip_lt(hip_lt().desc_set(desc_.value, attribute, &value, sizeof value), "describing a product");
  }
  static void lay_out(Handle& layout, int type, std::int64_t rows, std::int64_t columns, std::int64_t batch,
                      std::int64_t stride) {
    check_hip_lt(hip_lt().layout_create(&layout, type, static_cast<std::uint64_t>(rows),
                                        static_cast<std::uint64_t>(columns), rows),
                 "describing a matrix");
    if (batch <= 1) return;
    const auto count = static_cast<std::int32_t>(batch);
    check_hip_lt(hip_lt().layout_set(layout, kBatchCount, &count, sizeof count), "describing a matrix");
    check_hip_lt(hip_lt().layout_set(layout, kBatchStride, &stride, sizeof stride), "describing a matrix");
  }
  void choose() {
    OwnedByLt<&HipBlasLt::preference_destroy> preference;
    check_hip_lt(hip_lt().preference_create(&preference.value), "choosing a kernel");
    const std::uint64_t workspace = kWorkspace;
    check_hip_lt(hip_lt().preference_set(preference.value, kMaxWorkspace, &workspace, sizeof workspace),
                 "choosing a kernel");
    Choice best;
    int found = 0;
    const int status = hip_lt().heuristic(hip_lt_handle(), desc_.value, first_.value, second_.value, result_.value,
                                          result_.value, preference.value, 1, &best, &found);
    if (found == 0)
      throw Failure{GpuStatus::unavailable,
                    "hipBLASLt has no kernel for this shape, form and type: status " + std::to_string(status)};
    algorithm_ = best.algorithm;
  }

  Memory workspace_, scale_;
  OwnedByLt<&HipBlasLt::desc_destroy> desc_;
  OwnedByLt<&HipBlasLt::layout_destroy> first_, second_, result_;
  Algorithm algorithm_;
  float beta_ = 0;
};

}  // namespace

bool prefers_hipblaslt(const char* architecture) {
  if (!hip_lt().ready) return false;
  // The variable by which PyTorch's users choose.
  if (const char* const asked = std::getenv("TORCH_BLAS_PREFER_HIPBLASLT"); asked != nullptr) return asked[0] != '0';
  for (const char* preferred : {"gfx90a", "gfx942", "gfx950"})
    if (std::strcmp(architecture, preferred) == 0) return true;
  return false;
}

std::unique_ptr<Product> make_hipblaslt_product(Device& device, const Case& what) {
  if (!hip_lt().ready) throw Failure{GpuStatus::unavailable, "hipBLASLt: " + hip_lt().library.problem()};
  if (what.dtype == CaseType::fp8_block || what.dtype == CaseType::nvfp4)
    throw Failure{GpuStatus::unavailable, "hipBLASLt has no scales of blocks of 128, and no nvfp4"};
  return std::make_unique<HipLtProduct>(device, what);
}

void list_hipblaslt(Inventory& inventory) {
  std::string version;
  int v = 0;
  // It wants a device, as at the end of opening one there is.
  if (hip_lt().ready && hip_lt().version(hip_lt_handle(), &v) == 0)
    version = std::to_string(v / 100000) + "." + std::to_string(v / 100 % 1000) + "." + std::to_string(v % 100);
  inventory.add("hipBLASLt", version, hip_lt().library.problem(), "matrix products as PyTorch runs them, fp8");
}

}  // namespace orrery::calibration::gpu
