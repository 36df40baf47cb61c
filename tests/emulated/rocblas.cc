// The part of rocBLAS that product_rocblas.cc calls, naive, on host memory: column-major matrices, op(A) m x k, op(B)
// k x n, D = alpha op(A) op(B) + beta C, as AMD's rocBLAS documentation defines rocblas_gemm_strided_batched_ex. With
// ORRERY_EMULATED_ERROR in the environment the first element is wrong, or not written.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "calibration/kernels/values.h"

using namespace orrery::calibration::gpu;

namespace {

double read(const void* data, int type, std::int64_t i) {
  if (type == 151) return static_cast<double>(static_cast<const float*>(data)[i]);
  const std::uint16_t bits = static_cast<const std::uint16_t*>(data)[i];
  return static_cast<double>(type == 150 ? from_fp16(bits) : from_bf16(bits));
}
void write(void* data, int type, std::int64_t i, double value) {
  const auto f = static_cast<float>(value);
  if (type == 151) {
    static_cast<float*>(data)[i] = f;
  } else {
    static_cast<std::uint16_t*>(data)[i] = type == 150 ? to_fp16(f) : to_bf16(f);
  }
}

}  // namespace

extern "C" {

int rocblas_create_handle(void** handle) {
  *handle = handle;
  return 0;
}
int rocblas_set_stream(void*, void*) { return 0; }
int rocblas_get_version_string(char* text, std::size_t size) {
  std::snprintf(text, size, "emulated");
  return 0;
}

int rocblas_gemm_strided_batched_ex(void*, int transa, int transb, int m, int n, int k, const void* alpha,
                                    const void* a, int a_type, int lda, std::int64_t stride_a, const void* b,
                                    int b_type, int ldb, std::int64_t stride_b, const void* beta, const void* c,
                                    int c_type, int ldc, std::int64_t stride_c, void* d, int d_type, int ldd,
                                    std::int64_t stride_d, int batch, int, int, std::int32_t, std::uint32_t) {
  // Leading dimensions that are too small are refused, as the library does.
  if (lda < (transa == 111 ? m : k) || ldb < (transb == 111 ? k : n) || ldc < m || ldd < m) return 4;
  const double by = static_cast<double>(*static_cast<const float*>(alpha));
  const double keep = static_cast<double>(*static_cast<const float*>(beta));
  const char* const asked = std::getenv("ORRERY_EMULATED_ERROR");
  const std::string error = asked == nullptr ? "" : asked;
  for (std::int64_t g = 0; g < batch; ++g) {
    for (std::int64_t j = 0; j < n; ++j) {
      for (std::int64_t i = 0; i < m; ++i) {
        double sum = 0;
        for (std::int64_t x = 0; x < k; ++x) {
          sum += read(a, a_type, g * stride_a + (transa == 111 ? i + x * lda : x + i * lda)) *
                 read(b, b_type, g * stride_b + (transb == 111 ? x + j * ldb : j + x * ldb));
        }
        if (i + j + g == 0 && error == "unwritten") continue;
        if (i + j + g == 0 && error == "wrong") sum += 100;
        const double before = keep == 0 ? 0 : keep * read(c, c_type, g * stride_c + i + j * ldc);
        write(d, d_type, g * stride_d + i + j * ldd, by * sum + before);
      }
    }
  }
  return 0;
}
}
