// Embedding: rows gathered from a table, and their gradients added into the fp32 gradient of the table, with atomics
// because tokens repeat. Frameworks sort the tokens first where they want the same bits every time; that is left out.
#include "calibration/kernels/device.h"

namespace orrery::calibration::gpu {
namespace {

__global__ void __launch_bounds__(kThreads)
    gather_kernel(Bf16* y, const Bf16* table, const std::int32_t* token, std::int64_t vectors) {
  const std::int64_t row = blockIdx.x;
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.y) * blockDim.x + threadIdx.x;
  if (column >= vectors) return;
  reinterpret_cast<Packed*>(y)[row * vectors + column] = load(table, token[row] * vectors + column);
}

__device__ inline void add_four(float* at, float a, float b, float c, float d) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  atomicAdd(reinterpret_cast<float4*>(at), make_float4(a, b, c, d));
#else
  atomicAdd(at, a);
  atomicAdd(at + 1, b);
  atomicAdd(at + 2, c);
  atomicAdd(at + 3, d);
#endif
}

__global__ void __launch_bounds__(kThreads)
    scatter_kernel(float* dtable, const Bf16* dy, const std::int32_t* token, std::int64_t vectors) {
  const std::int64_t row = blockIdx.x;
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.y) * blockDim.x + threadIdx.x;
  if (column >= vectors) return;
  const Eight e = unpack(load(dy, row * vectors + column));
  float* const to = dtable + (token[row] * vectors + column) * 8;
  add_four(to, e.at[0], e.at[1], e.at[2], e.at[3]);
  add_four(to + 4, e.at[4], e.at[5], e.at[6], e.at[7]);
}

dim3 grid_for(std::int64_t rows, std::int64_t vectors) {
  return dim3(static_cast<unsigned>(rows), blocks_for(vectors, kThreads));
}

}  // namespace

void embedding_forward(Bf16* y, const Bf16* table, const std::int32_t* token, std::int64_t rows, std::int64_t columns,
                       Stream stream) {
  ORRERY_LAUNCH(gather_kernel, grid_for(rows, columns / 8), kThreads, stream, y, table, token, columns / 8);
}

void embedding_backward(float* dtable, const Bf16* dy, const std::int32_t* token, std::int64_t rows,
                        std::int64_t columns, Stream stream) {
  ORRERY_LAUNCH(scatter_kernel, grid_for(rows, columns / 8), kThreads, stream, dtable, dy, token, columns / 8);
}

}  // namespace orrery::calibration::gpu
