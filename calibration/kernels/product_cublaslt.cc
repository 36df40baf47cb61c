// cuBLASLt. A row-major C = A B is what the library, which stores columns, calls C^T = B^T A^T: its first operand is
// our B. Names and rules (fp8 only as TN before Blackwell, scales for fp8) as in NVIDIA's cuBLAS documentation.
#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "calibration/kernels/library.h"
#include "calibration/kernels/product.h"
#include "calibration/kernels/workload.h"

namespace orrery::calibration::gpu {
namespace {

// The workspace that PyTorch and Transformer Engine give to cuBLASLt on Hopper.
constexpr std::size_t kWorkspace = std::size_t{32} << 20;
#define ORRERY_CUBLAS (CUBLAS_VER_MAJOR * 10000 + CUBLAS_VER_MINOR * 100)

std::string soname(const char* suffix) { return std::string("libcublasLt.so") + suffix; }

struct CublasLt {
  Library library{{soname(("." + std::to_string(CUBLAS_VER_MAJOR)).c_str()), soname("")}};
  decltype(&cublasLtCreate) create = nullptr;
  decltype(&cublasLtGetVersion) version = nullptr;
  decltype(&cublasLtGetStatusString) status_text = nullptr;
  decltype(&cublasLtMatmul) matmul = nullptr;
  decltype(&cublasLtMatmulDescCreate) desc_create = nullptr;
  decltype(&cublasLtMatmulDescDestroy) desc_destroy = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) desc_set = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) layout_create = nullptr;
  decltype(&cublasLtMatrixLayoutDestroy) layout_destroy = nullptr;
  decltype(&cublasLtMatrixLayoutSetAttribute) layout_set = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) preference_create = nullptr;
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic = nullptr;
  bool ready = false;

  CublasLt() {
    ready = get(create, "cublasLtCreate") && get(version, "cublasLtGetVersion") &&
            get(status_text, "cublasLtGetStatusString") && get(matmul, "cublasLtMatmul") &&
            get(desc_create, "cublasLtMatmulDescCreate") && get(desc_destroy, "cublasLtMatmulDescDestroy") &&
            get(desc_set, "cublasLtMatmulDescSetAttribute") && get(layout_create, "cublasLtMatrixLayoutCreate") &&
            get(layout_destroy, "cublasLtMatrixLayoutDestroy") && get(layout_set, "cublasLtMatrixLayoutSetAttribute") &&
            get(preference_create, "cublasLtMatmulPreferenceCreate") &&
            get(preference_destroy, "cublasLtMatmulPreferenceDestroy") &&
            get(preference_set, "cublasLtMatmulPreferenceSetAttribute") &&
            get(heuristic, "cublasLtMatmulAlgoGetHeuristic");
  }
  template <class Function>
  bool get(Function& function, const char* symbol) {
    return library.get(function, symbol);
  }
};

CublasLt& lt() {
  static CublasLt library;
  return library;
}

void check_lt(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  const bool unsupported = status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE;
  throw Failure{unsupported                            ? GpuStatus::unavailable
                : status == CUBLAS_STATUS_ALLOC_FAILED ? GpuStatus::out_of_memory
                                                       : GpuStatus::failed,
                std::string(what) + ": " + lt().status_text(status)};
}

cublasLtHandle_t handle() {
  static cublasLtHandle_t made = nullptr;
  if (made == nullptr) check_lt(lt().create(&made), "starting cuBLASLt");
  return made;
}

/// Descriptors that go away with their owner.
template <class T, cublasStatus_t (*CublasLt::*kDestroy)(T)>
struct Owned {
  T value = nullptr;
  Owned() = default;
  ~Owned() {
    if (value != nullptr) static_cast<void>((lt().*kDestroy)(value));
  }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
};
using Layout = Owned<cublasLtMatrixLayout_t, &CublasLt::layout_destroy>;
using Desc = Owned<cublasLtMatmulDesc_t, &CublasLt::desc_destroy>;
using Preference = Owned<cublasLtMatmulPreference_t, &CublasLt::preference_destroy>;

cudaDataType_t data_type(CaseType t) {
  switch (t) {
    case CaseType::float16:
      return CUDA_R_16F;
    case CaseType::float32:
      return CUDA_R_32F;
    case CaseType::fp8_e4m3:
    case CaseType::fp8_block:
    case CaseType::fp8_row:
    case CaseType::mxfp8:
      return CUDA_R_8F_E4M3;
#if ORRERY_CUBLAS >= 120800
    case CaseType::nvfp4:
      return CUDA_R_4F_E2M1;
#endif
    case CaseType::fp8_e5m2:
      return CUDA_R_8F_E5M2;
    default:
      return CUDA_R_16BF;
  }
}

class LtProduct : public Product {
 public:
  LtProduct(Device& device, const Case& what) : workspace_(kWorkspace) {
    const bool fp8 = what.dtype == CaseType::fp8_e4m3 || what.dtype == CaseType::fp8_e5m2;
    const bool scaled = what.dtype > CaseType::fp8_e5m2;
    const cudaDataType_t a_type = data_type(what.dtype);
    const cudaDataType_t b_type = what.dtype == CaseType::fp8_e5m2 ? CUDA_R_8F_E4M3 : a_type;
    const cudaDataType_t c_type = accumulates(what) || what.dtype == CaseType::float32 ? CUDA_R_32F
                                  : fp8 || scaled                                      ? CUDA_R_16BF
                                                                                       : a_type;
    const auto compute = what.dtype == CaseType::float32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    check_lt(lt().desc_create(&desc_.value, compute, CUDA_R_32F), "describing a product");
    const cublasOperation_t first = what.form == CaseForm::tn ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t second = what.form == CaseForm::nt ? CUBLAS_OP_T : CUBLAS_OP_N;
    set(CUBLASLT_MATMUL_DESC_TRANSA, first);
    set(CUBLASLT_MATMUL_DESC_TRANSB, second);
    if (fp8) {
      // Scales of one, on the device, as a framework passes them; and its choice of summing (fast forward, exact back).
      // cuBLASLt 13.1 has no kernel for a scale that does not begin at 16 bytes.
      std::array<float, 8> ones{};
      ones.fill(1);
      scales_ = Memory(sizeof ones);
      check(gpuMemcpy(scales_.data(), ones.data(), sizeof ones, gpuMemcpyHostToDevice), "writing scales");
      const void* const scale_a = scales_.data();
      const void* const scale_b = static_cast<const float*>(scales_.data()) + 4;
      set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, scale_a);
      set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, scale_b);
      const std::int8_t fast = what.dtype == CaseType::fp8_e4m3 && !accumulates(what) ? 1 : 0;
      set(CUBLASLT_MATMUL_DESC_FAST_ACCUM, fast);
    }
    if (scaled) scale_parts(what);
    const std::int64_t m = what.m, n = what.n, k = what.k;
    lay_out(first_, b_type, first == CUBLAS_OP_T ? k : n, first == CUBLAS_OP_T ? n : k, what.batch, k * n);
    lay_out(second_, a_type, second == CUBLAS_OP_T ? m : k, second == CUBLAS_OP_T ? k : m, what.batch, m * k);
    lay_out(result_, c_type, n, m, what.batch, m * n);
    beta_ = accumulates(what) ? 1.0f : 0.0f;
    choose(device);
  }

  void launch(const void* a, const void* b, void* c, Stream stream) override {
    const float alpha = 1;
    check_lt(lt().matmul(handle(), desc_.value, &alpha, b, first_.value, a, second_.value, &beta_, c, result_.value, c,
                         result_.value, &algorithm_, workspace_.data(), kWorkspace, stream),
             "launching a product");
  }

 private:
  template <class T>
  void set(cublasLtMatmulDescAttributes_t attribute, const T& value) {
    check_lt(lt().desc_set(desc_.value, attribute, &value, sizeof value), "describing a product");
  }

#if ORRERY_CUBLAS >= 120900
  /// Scales of one for parts of both operands. The library's first operand is our B, the weight.
  void scale_parts(const Case& what) {
    const auto padded = [](std::int64_t size, std::int64_t to) { return (size + to - 1) / to * to; };
    const auto in_parts = [&](std::int64_t rows, std::int64_t part) {
      return padded(rows, 128) * padded((what.k + part - 1) / part, 4);
    };
    constexpr float kOne = 1;
    constexpr int kOneE4m3 = 0x38, kOneE8m0 = 0x7f;
    std::int32_t of_weight = 0, of_rows = 0;
    std::int64_t count = 0;
    int byte = -1;
    if (what.dtype == CaseType::nvfp4) {
      of_weight = of_rows = CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3;
      count = std::max(in_parts(what.m, 16), in_parts(what.n, 16));
      byte = kOneE4m3;
    } else if (what.dtype == CaseType::mxfp8) {
      of_weight = of_rows = CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0;
      count = std::max(in_parts(what.m, 32), in_parts(what.n, 32));
      byte = kOneE8m0;
    } else if (what.dtype == CaseType::fp8_row) {
      of_weight = of_rows = CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;
      count = std::max(what.m, what.n);
    } else {
      of_weight = CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F;
      of_rows = CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F;
      count = std::max(in_parts(what.m, 128), in_parts(what.n, 128));
    }
    const auto elements = static_cast<std::size_t>(count);
    scales_ = Memory(byte < 0 ? elements * sizeof kOne : elements);
    if (byte < 0) {
      const std::vector<float> ones(elements, kOne);
      check(gpuMemcpy(scales_.data(), ones.data(), elements * sizeof kOne, gpuMemcpyHostToDevice), "writing scales");
    } else {
      const std::vector<std::uint8_t> ones(elements, static_cast<std::uint8_t>(byte));
      check(gpuMemcpy(scales_.data(), ones.data(), elements, gpuMemcpyHostToDevice), "writing scales");
    }
    const void* const at = scales_.data();
    set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, of_weight);
    set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, of_rows);
    set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, at);
    set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, at);
  }
#else
  static void scale_parts(const Case&) {
    throw Failure{GpuStatus::unavailable, "cuBLASLt has scales of blocks and rows from 12.9 on"};
  }
#endif

  static void lay_out(Layout& layout, cudaDataType_t type, std::int64_t rows, std::int64_t columns, std::int64_t batch,
                      std::int64_t stride) {
    check_lt(lt().layout_create(&layout.value, type, static_cast<std::uint64_t>(rows),
                                static_cast<std::uint64_t>(columns), rows),
             "describing a matrix");
    if (batch <= 1) return;
    const auto count = static_cast<std::int32_t>(batch);
    check_lt(lt().layout_set(layout.value, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count),
             "describing a matrix");
    check_lt(lt().layout_set(layout.value, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride),
             "describing a matrix");
  }

  void choose(Device&) {
    Preference preference;
    check_lt(lt().preference_create(&preference.value), "choosing a kernel");
    const std::size_t workspace = kWorkspace;
    check_lt(
        lt().preference_set(preference.value, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace),
        "choosing a kernel");
    cublasLtMatmulHeuristicResult_t best{};
    int found = 0;
    const cublasStatus_t status = lt().heuristic(handle(), desc_.value, first_.value, second_.value, result_.value,
                                                 result_.value, preference.value, 1, &best, &found);
    if (found == 0) {
      throw Failure{GpuStatus::unavailable,
                    std::string("cuBLASLt has no kernel for this shape, form and type: ") + lt().status_text(status)};
    }
    algorithm_ = best.algo;
  }

  Memory workspace_, scales_;
  Desc desc_;
  Layout first_, second_, result_;
  cublasLtMatmulAlgo_t algorithm_{};
  float beta_ = 0;
};

}  // namespace

std::unique_ptr<Product> make_product(Device& device, const Case& what) {
  if (!lt().ready) throw Failure{GpuStatus::unavailable, "cuBLASLt: " + lt().library.problem()};
  return std::make_unique<LtProduct>(device, what);
}

void list_gemm_library(Inventory& inventory) {
  std::string version;
  if (lt().ready) {
    const std::size_t v = lt().version();  // 13.1.0 is 130100
    version = std::to_string(v / 10000) + "." + std::to_string(v / 100 % 100) + "." + std::to_string(v % 100);
  }
  inventory.add("cuBLASLt", version, lt().library.problem(), "matrix products");
}

}  // namespace orrery::calibration::gpu
