// Cast of a bf16 matrix to e4m3 with its transpose and the largest magnitude, as fp8 training runs it ahead of a GEMM
// whose operands must both be contiguous in the inner dimension. Tiles of 64 x 64 pass through shared memory; reads and
// both writes are 8 or 16 bytes a thread.
#include "calibration/kernels/device.h"

namespace orrery::calibration::gpu {
namespace {

/// Two e4m3, the lower byte first.
__device__ inline std::uint32_t to_e4m3_pair(float low, float high) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  std::uint16_t pair;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
  return pair;
#else
  return static_cast<std::uint32_t>(to_e4m3(low)) | static_cast<std::uint32_t>(to_e4m3(high)) << 8;
#endif
}

constexpr int kTile = 64;

__global__ void __launch_bounds__(kThreads)
    cast_kernel(std::uint8_t* out, std::uint8_t* transposed, float* largest, const Bf16* x, float scale,
                std::int64_t rows, std::int64_t columns) {
  // 68 bytes a row: rows that a warp reads together start in different banks.
  __shared__ std::uint8_t tile[kTile][kTile + 4];
  const std::int64_t row0 = static_cast<std::int64_t>(blockIdx.y) * kTile;
  const std::int64_t column0 = static_cast<std::int64_t>(blockIdx.x) * kTile;
  const int lane = static_cast<int>(threadIdx.x) % 8, line = static_cast<int>(threadIdx.x) / 8;
  float top = 0;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = line + 32 * half;
    const std::int64_t at = ((row0 + row) * columns + column0) / 8 + lane;
    const Eight e = unpack(load(x, at));
#pragma unroll
    for (int j = 0; j < 8; ++j) top = Largest::of(top, fabsf(e.at[j]));
    const uint2 cast = make_uint2(
        to_e4m3_pair(e.at[0] * scale, e.at[1] * scale) | to_e4m3_pair(e.at[2] * scale, e.at[3] * scale) << 16,
        to_e4m3_pair(e.at[4] * scale, e.at[5] * scale) | to_e4m3_pair(e.at[6] * scale, e.at[7] * scale) << 16);
    reinterpret_cast<uint2*>(out)[at] = cast;
    auto* const words = reinterpret_cast<std::uint32_t*>(&tile[row][8 * lane]);
    words[0] = cast.x;
    words[1] = cast.y;
  }
  __syncthreads();
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int column = line + 32 * half;
    std::uint32_t words[2] = {0, 0};
#pragma unroll
    for (int j = 0; j < 8; ++j) words[j / 4] |= static_cast<std::uint32_t>(tile[8 * lane + j][column]) << (8 * (j % 4));
    reinterpret_cast<uint2*>(transposed)[((column0 + column) * rows + row0) / 8 + lane] =
        make_uint2(words[0], words[1]);
  }
  top = over_block<Largest>(top);
  // Magnitudes order like their bits; one atomic a block.
  if (threadIdx.x == 0) atomicMax(reinterpret_cast<int*>(largest), __float_as_int(top));
}

}  // namespace

void cast_transpose(std::uint8_t* out, std::uint8_t* transposed, float* largest, const Bf16* x, float scale,
                    std::int64_t rows, std::int64_t columns, Stream stream) {
  static_cast<void>(gpuMemsetAsync(largest, 0, sizeof(float), stream));
  ORRERY_LAUNCH(cast_kernel, dim3(static_cast<unsigned>(columns / kTile), static_cast<unsigned>(rows / kTile)),
                kThreads, stream, out, transposed, largest, x, scale, rows, columns);
}

}  // namespace orrery::calibration::gpu
