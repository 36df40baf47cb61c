// Causally masked softmax, forward and backward, with a row in registers; and the cross entropy of logits, whose rows
// (a vocabulary) are longer: forward one pass with a running maximum (Milakov and Gimelshein, arXiv 1805.02867),
// backward element by element from the saved logarithm of the sum.
#include "calibration/kernels/device.h"
#include "calibration/kernels/rows.h"

namespace orrery::calibration::gpu {
namespace {

template <int Vectors>
__global__ void __launch_bounds__(512) softmax_kernel(Bf16* y, const Bf16* x, float scale, int vectors) {
  const std::int64_t row = blockIdx.x, first = row * vectors * 8;
  const int last = static_cast<int>(row % (8 * static_cast<std::int64_t>(vectors)));
  float value[Vectors][8];
  float largest = Largest::kNothing;
#pragma unroll
  for (int v = 0; v < Vectors; ++v) {
    const int i = static_cast<int>(threadIdx.x + v * blockDim.x);
    const Eight e = i < vectors ? unpack(load(x + first, i)) : Eight{};
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      value[v][j] = i < vectors && 8 * i + j <= last ? e.at[j] * scale : Largest::kNothing;
      largest = Largest::of(largest, value[v][j]);
    }
  }
  largest = over_block<Largest>(largest);
  float sum = 0;
#pragma unroll
  for (int v = 0; v < Vectors; ++v) {
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      value[v][j] = exponential(value[v][j] - largest);  // 0 where masked
      sum += value[v][j];
    }
  }
  const float share = 1.0f / over_block<Sum>(sum);
#pragma unroll
  for (int v = 0; v < Vectors; ++v) {
    const int i = static_cast<int>(threadIdx.x + v * blockDim.x);
    if (i >= vectors) continue;
    Eight e;
#pragma unroll
    for (int j = 0; j < 8; ++j) e.at[j] = value[v][j] * share;
    store(y + first, i, e);
  }
}

/// dx = scale * y * (dy - sum(dy * y)); masked entries have y = 0.
template <int Vectors>
__global__ void __launch_bounds__(512)
    softmax_backward_kernel(Bf16* dx, const Bf16* dy, const Bf16* y, float scale, int vectors) {
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * vectors * 8;
  Packed grad[Vectors], out[Vectors];
  float sum = 0;
#pragma unroll
  for (int v = 0; v < Vectors; ++v) {
    const int i = static_cast<int>(threadIdx.x + v * blockDim.x);
    grad[v] = i < vectors ? load(dy + first, i) : Packed{};
    out[v] = i < vectors ? load(y + first, i) : Packed{};
  }
#pragma unroll
  for (int v = 0; v < Vectors; ++v) {
    const Eight d = unpack(grad[v]), p = unpack(out[v]);
#pragma unroll
    for (int j = 0; j < 8; ++j) sum += d.at[j] * p.at[j];
  }
  sum = over_block<Sum>(sum);
#pragma unroll
  for (int v = 0; v < Vectors; ++v) {
    const int i = static_cast<int>(threadIdx.x + v * blockDim.x);
    if (i >= vectors) continue;
    Eight d = unpack(grad[v]);
    const Eight p = unpack(out[v]);
#pragma unroll
    for (int j = 0; j < 8; ++j) d.at[j] = scale * p.at[j] * (d.at[j] - sum);
    store(dx + first, i, d);
  }
}

constexpr int kCrossThreads = 512;

/// `sum` counts in units of e^largest.
struct Running {
  float largest = Largest::kNothing, sum = 0;
  __device__ void add(const Packed& p) {
    const Eight e = unpack(p);
    float top = e.at[0];
#pragma unroll
    for (int j = 1; j < 8; ++j) top = Largest::of(top, e.at[j]);
    if (top > largest) {
      sum *= exponential(largest - top);
      largest = top;
    }
#pragma unroll
    for (int j = 0; j < 8; ++j) sum += exponential(e.at[j] - largest);
  }
};

__global__ void __launch_bounds__(kCrossThreads)
    cross_entropy_kernel(float* loss, float* log_sum, const Bf16* logits, const std::int32_t* target, int vectors) {
  const std::int64_t row = blockIdx.x;
  const Bf16* const own = logits + row * vectors * 8;
  Running running;
  int i = static_cast<int>(threadIdx.x);
  for (; i + 3 * kCrossThreads < vectors; i += 4 * kCrossThreads) {
    const Packed a = load(own, i), b = load(own, i + kCrossThreads), c = load(own, i + 2 * kCrossThreads),
                 d = load(own, i + 3 * kCrossThreads);
    running.add(a);
    running.add(b);
    running.add(c);
    running.add(d);
  }
  for (; i < vectors; i += kCrossThreads) running.add(load(own, i));
  const float largest = over_block<Largest>(running.largest);
  const float sum = over_block<Sum>(running.sum * exponential(running.largest - largest));
  if (threadIdx.x == 0) {
    const float total = largest + logf(sum);
    log_sum[row] = total;
    loss[row] = total - from_bf16(own[target[row]]);
  }
}

__global__ void __launch_bounds__(kThreads)
    cross_entropy_backward_kernel(Bf16* dlogits, const Bf16* logits, const float* log_sum, const std::int32_t* target,
                                  float scale, std::int64_t vectors) {
  const std::int64_t row = blockIdx.x;
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.y) * blockDim.x + threadIdx.x;
  if (column >= vectors) return;
  Eight e = unpack(load(logits, row * vectors + column));
  const float total = log_sum[row];
  const std::int64_t right = target[row];
#pragma unroll
  for (int j = 0; j < 8; ++j)
    e.at[j] = scale * (exponential(e.at[j] - total) - (8 * column + j == right ? 1.0f : 0.0f));
  store(dlogits, row * vectors + column, e);
}

unsigned threads_for(int vectors, int each) {
  return static_cast<unsigned>(((vectors + each - 1) / each + kWarp - 1) / kWarp * kWarp);
}

}  // namespace

void softmax_forward(Bf16* y, const Bf16* x, float scale, std::int64_t rows, std::int64_t columns, Stream stream) {
  const int vectors = static_cast<int>(columns / 8), each = vectors <= 512 ? 1 : vectors <= 1024 ? 2 : 4;
  const auto kernel = each == 1 ? softmax_kernel<1> : each == 2 ? softmax_kernel<2> : softmax_kernel<4>;
  ORRERY_LAUNCH(kernel, static_cast<unsigned>(rows), threads_for(vectors, each), stream, y, x, scale, vectors);
}

void softmax_backward(Bf16* dx, const Bf16* dy, const Bf16* y, float scale, std::int64_t rows, std::int64_t columns,
                      Stream stream) {
  const int vectors = static_cast<int>(columns / 8), each = vectors <= 512 ? 1 : vectors <= 1024 ? 2 : 4;
  const auto kernel = each == 1   ? softmax_backward_kernel<1>
                      : each == 2 ? softmax_backward_kernel<2>
                                  : softmax_backward_kernel<4>;
  ORRERY_LAUNCH(kernel, static_cast<unsigned>(rows), threads_for(vectors, each), stream, dx, dy, y, scale, vectors);
}

void cross_entropy_forward(float* loss, float* log_sum, const Bf16* logits, const std::int32_t* target,
                           std::int64_t rows, std::int64_t columns, Stream stream) {
  ORRERY_LAUNCH(cross_entropy_kernel, static_cast<unsigned>(rows), kCrossThreads, stream, loss, log_sum, logits, target,
                static_cast<int>(columns / 8));
}

void cross_entropy_backward(Bf16* dlogits, const Bf16* logits, const float* log_sum, const std::int32_t* target,
                            float scale, std::int64_t rows, std::int64_t columns, Stream stream) {
  const dim3 grid(static_cast<unsigned>(rows), blocks_for(columns / 8, kThreads));
  ORRERY_LAUNCH(cross_entropy_backward_kernel, grid, kThreads, stream, dlogits, logits, log_sum, target, scale,
                columns / 8);
}

}  // namespace orrery::calibration::gpu
