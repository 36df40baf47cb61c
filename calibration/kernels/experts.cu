// Experts of few tokens, without matrix units: a warp holds one column of a weight and up to kExpertRows rows of its
// expert's tokens, so that every weight is read once; gate and up are one kernel with their product. With more rows
// than that an expert is computed as often as it takes.
#include "calibration/kernels/device.h"
#include "calibration/kernels/rows.h"

namespace orrery::calibration::gpu {
namespace {

constexpr int kExpertThreads = 256;

__device__ inline float over_warp(float value) {
  for (int lane = kWarp / 2; lane > 0; lane /= 2) value += shuffle_xor(value, lane);
  return value;
}

/// Dots of a weight's column with rows of `inner` elements.
template <class RowOf>
__device__ inline void dots(float* sum, const Bf16* column, const Bf16* x, int rows, int vectors, const RowOf& row_of) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  for (int i = lane; i < vectors; i += kWarp) {
    const Eight w = unpack(load(column, i));
#pragma unroll
    for (int r = 0; r < kExpertRows; ++r) {
      if (r >= rows) continue;
      const Eight e = unpack(load(x + row_of(r) * vectors * 8, i));
      for (int j = 0; j < 8; ++j) sum[r] += w.at[j] * e.at[j];
    }
  }
}

/// hidden[row] = swiglu of x[token of row] with the expert's two weights of [width, inner], gate first.
__global__ void __launch_bounds__(kExpertThreads)
    gate_up_kernel(Bf16* hidden, const Bf16* x, const Bf16* weight, const std::int32_t* first,
                   const std::int32_t* token, int width, int vectors) {
  const int warps = kExpertThreads / kWarp, expert = static_cast<int>(blockIdx.y);
  const int column = static_cast<int>(blockIdx.x) * warps + static_cast<int>(threadIdx.x) / kWarp;
  const Bf16* const gates = weight + static_cast<std::int64_t>(expert) * 2 * width * vectors * 8;
  for (int begin = first[expert]; begin < first[expert + 1]; begin += kExpertRows) {
    const int left = first[expert + 1] - begin, rows = left < kExpertRows ? left : kExpertRows;
    float gate[kExpertRows] = {}, up[kExpertRows] = {};
    const auto row_of = [&](int r) { return static_cast<std::int64_t>(token[begin + r]); };
    const int own = column < width ? column : 0;  // all lanes of a block shuffle
    dots(gate, gates + static_cast<std::int64_t>(own) * vectors * 8, x, rows, vectors, row_of);
    dots(up, gates + static_cast<std::int64_t>(width + own) * vectors * 8, x, rows, vectors, row_of);
    for (int r = 0; r < rows; ++r) {
      const float g = over_warp(gate[r]), u = over_warp(up[r]);
      if (column < width && threadIdx.x % kWarp == 0)
        hidden[static_cast<std::int64_t>(begin + r) * width + column] = to_bf16(swiglu(g, u));
    }
  }
}

/// out[row] = hidden[row] with the expert's weight of [outer, width].
__global__ void __launch_bounds__(kExpertThreads)
    down_kernel(Bf16* out, const Bf16* hidden, const Bf16* weight, const std::int32_t* first, int outer, int vectors) {
  const int warps = kExpertThreads / kWarp, expert = static_cast<int>(blockIdx.y);
  const int column = static_cast<int>(blockIdx.x) * warps + static_cast<int>(threadIdx.x) / kWarp;
  const Bf16* const own = weight + static_cast<std::int64_t>(expert) * outer * vectors * 8;
  for (int begin = first[expert]; begin < first[expert + 1]; begin += kExpertRows) {
    const int left = first[expert + 1] - begin, rows = left < kExpertRows ? left : kExpertRows;
    float sum[kExpertRows] = {};
    dots(sum, own + static_cast<std::int64_t>(column < outer ? column : 0) * vectors * 8, hidden, rows, vectors,
         [&](int r) { return static_cast<std::int64_t>(begin + r); });
    for (int r = 0; r < rows; ++r) {
      const float s = over_warp(sum[r]);
      if (column < outer && threadIdx.x % kWarp == 0)
        out[static_cast<std::int64_t>(begin + r) * outer + column] = to_bf16(s);
    }
  }
}

/// y[token] = mean of its rows.
__global__ void __launch_bounds__(kExpertThreads)
    mean_kernel(Bf16* y, const Bf16* rows, const std::int32_t* row, int chosen, int vectors) {
  const std::int64_t token = blockIdx.x;
  for (int i = static_cast<int>(threadIdx.x); i < vectors; i += kExpertThreads) {
    Eight sum{};
    for (int c = 0; c < chosen; ++c) {
      const Eight e = unpack(load(rows + static_cast<std::int64_t>(row[token * chosen + c]) * vectors * 8, i));
      for (int j = 0; j < 8; ++j) sum.at[j] += e.at[j] / static_cast<float>(chosen);
    }
    store(y + token * vectors * 8, i, sum);
  }
}

}  // namespace

void few_experts(Bf16* y, Bf16* hidden, Bf16* rows, const Bf16* x, const Bf16* gate_up, const Bf16* down,
                 const ExpertTables& tables, const ExpertSizes& s, Stream stream) {
  const unsigned warps = kExpertThreads / kWarp;
  const auto blocks = [&](int columns) { return (static_cast<unsigned>(columns) + warps - 1) / warps; };
  const unsigned experts = static_cast<unsigned>(s.experts);
  ORRERY_LAUNCH(gate_up_kernel, dim3(blocks(s.width), experts), kExpertThreads, stream, hidden, x, gate_up,
                tables.first, tables.token, s.width, s.hidden / 8);
  ORRERY_LAUNCH(down_kernel, dim3(blocks(s.hidden), experts), kExpertThreads, stream, rows, hidden, down, tables.first,
                s.hidden, s.width / 8);
  ORRERY_LAUNCH(mean_kernel, static_cast<unsigned>(s.tokens), kExpertThreads, stream, y, rows, tables.row, s.chosen,
                s.hidden / 8);
}

}  // namespace orrery::calibration::gpu
