// Rows of experts summed up into the tokens that they came from, each times its weight: one read of every row, one
// write of every token, as TransformerEngine's fused unpermute does it. The way to the experts is a gather of rows,
// which embedding.cu has. Left out: the map of rows, which a framework makes from the router's mask first.
#include "calibration/kernels/device.h"

namespace orrery::calibration::gpu {
namespace {

__global__ void __launch_bounds__(kThreads)
    unpermute_kernel(Bf16* y, const Bf16* x, const std::int32_t* row, const float* weight, std::int64_t vectors) {
  const std::int64_t token = blockIdx.x;
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.y) * blockDim.x + threadIdx.x;
  if (column >= vectors) return;
  Eight sum{};
  for (int i = 0; i < kChosen; ++i) {
    const std::int64_t from = token * kChosen + i;
    const Eight e = unpack(load(x, row[from] * vectors + column));
    const float w = weight[from];
    for (int j = 0; j < 8; ++j) sum.at[j] += w * e.at[j];
  }
  store(y, token * vectors + column, sum);
}

}  // namespace

void unpermute(Bf16* y, const Bf16* x, const std::int32_t* row, const float* weight, std::int64_t tokens,
               std::int64_t columns, Stream stream) {
  const dim3 grid(static_cast<unsigned>(tokens), blocks_for(columns / 8, kThreads));
  ORRERY_LAUNCH(unpermute_kernel, grid, kThreads, stream, y, x, row, weight, columns / 8);
}

}  // namespace orrery::calibration::gpu
