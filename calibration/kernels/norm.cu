// Layer norm and RMS norm, forward and backward. A block holds one row in registers, so that x is read once: the mean
// first, then the variance around it. Backward, blocks walk over rows and sum the gradients of gain and bias of their
// columns in registers; a second kernel adds the blocks' partial sums.
#include "calibration/kernels/device.h"
#include "calibration/kernels/rows.h"

namespace orrery::calibration::gpu {
namespace {

/// This thread's vectors of a row, `Vectors` of them, blockDim.x apart.
template <int Vectors>
struct OwnRow {
  Packed at[Vectors];
  __device__ void read(const Bf16* row, int vectors) {
#pragma unroll
    for (int v = 0; v < Vectors; ++v) {
      const int i = static_cast<int>(threadIdx.x) + v * static_cast<int>(blockDim.x);
      at[v] = i < vectors ? load(row, i) : Packed{};
    }
  }
};

template <int Vectors, bool kCentred>
__global__ void __launch_bounds__(512) norm_forward_kernel(Bf16* y, float* mean_out, float* inverse_out, const Bf16* x,
                                                           const Bf16* gain, const Bf16* bias, int vectors) {
  const std::int64_t row = blockIdx.x, first = row * vectors * 8;
  const float count = 8.0f * static_cast<float>(vectors);
  OwnRow<Vectors> own;
  own.read(x + first, vectors);
  float mean = 0;
  if (kCentred) {
    float sum = 0;
#pragma unroll
    for (int v = 0; v < Vectors; ++v) {
      const Eight e = unpack(own.at[v]);
#pragma unroll
      for (int j = 0; j < 8; ++j) sum += e.at[j];
    }
    mean = over_block<Sum>(sum) / count;
  }
  float squares = 0;
#pragma unroll
  for (int v = 0; v < Vectors; ++v) {
    if (static_cast<int>(threadIdx.x + v * blockDim.x) >= vectors) continue;
    const Eight e = unpack(own.at[v]);
#pragma unroll
    for (int j = 0; j < 8; ++j) squares += (e.at[j] - mean) * (e.at[j] - mean);
  }
  const float inverse = rsqrtf(over_block<Sum>(squares) / count + static_cast<float>(kNormEpsilon));
#pragma unroll
  for (int v = 0; v < Vectors; ++v) {
    const int i = static_cast<int>(threadIdx.x + v * blockDim.x);
    if (i >= vectors) continue;
    Eight e = unpack(own.at[v]);
    const Eight g = unpack(load(gain, i));
#pragma unroll
    for (int j = 0; j < 8; ++j) e.at[j] = (e.at[j] - mean) * inverse * g.at[j];
    if (kCentred) {
      const Eight b = unpack(load(bias, i));
#pragma unroll
      for (int j = 0; j < 8; ++j) e.at[j] += b.at[j];
    }
    store(y + first, i, e);
  }
  if (threadIdx.x == 0) {
    if (kCentred) mean_out[row] = mean;
    inverse_out[row] = inverse;
  }
}

/// dx = inverse * (g - mean(g) - xhat * mean(g * xhat)) with g = dy * gain; RMS norm lacks mean(g).
template <int Vectors, bool kCentred>
__global__ void __launch_bounds__(512)
    norm_backward_kernel(Bf16* dx, float* partial, const Bf16* dy, const Bf16* x, const Bf16* gain,
                         const float* mean_in, const float* inverse_in, std::int64_t rows, int vectors) {
  const float count = 8.0f * static_cast<float>(vectors);
  float dgain[Vectors][8] = {}, dbias[kCentred ? Vectors : 1][8] = {};
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const std::int64_t first = row * vectors * 8;
    OwnRow<Vectors> in, grad;
    in.read(x + first, vectors);
    grad.read(dy + first, vectors);
    const float mean = kCentred ? mean_in[row] : 0.0f, inverse = inverse_in[row];
    float sum = 0, product = 0;
#pragma unroll
    for (int v = 0; v < Vectors; ++v) {
      const int i = static_cast<int>(threadIdx.x + v * blockDim.x);
      if (i >= vectors) continue;
      const Eight a = unpack(in.at[v]), d = unpack(grad.at[v]), g = unpack(load(gain, i));
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const float normal = (a.at[j] - mean) * inverse, scaled = d.at[j] * g.at[j];
        sum += scaled;
        product += scaled * normal;
        dgain[v][j] += d.at[j] * normal;
        if (kCentred) dbias[kCentred ? v : 0][j] += d.at[j];
      }
    }
    const float mean_product = over_block<Sum>(product) / count;
    const float mean_grad = kCentred ? over_block<Sum>(sum) / count : 0.0f;
#pragma unroll
    for (int v = 0; v < Vectors; ++v) {
      const int i = static_cast<int>(threadIdx.x + v * blockDim.x);
      if (i >= vectors) continue;
      const Eight a = unpack(in.at[v]), g = unpack(load(gain, i));
      Eight d = unpack(grad.at[v]);
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const float normal = (a.at[j] - mean) * inverse;
        d.at[j] = inverse * (d.at[j] * g.at[j] - mean_grad - normal * mean_product);
      }
      store(dx + first, i, d);
    }
  }
  const std::int64_t columns = 8 * static_cast<std::int64_t>(vectors);
#pragma unroll
  for (int v = 0; v < Vectors; ++v) {
    const int i = static_cast<int>(threadIdx.x + v * blockDim.x);
    if (i >= vectors) continue;
    const auto write = [&](float* out, const float* values) {
      auto* words = reinterpret_cast<float4*>(out + 8 * i);
      words[0] = make_float4(values[0], values[1], values[2], values[3]);
      words[1] = make_float4(values[4], values[5], values[6], values[7]);
    };
    write(partial + blockIdx.x * columns, dgain[v]);
    if (kCentred) write(partial + (gridDim.x + blockIdx.x) * columns, dbias[kCentred ? v : 0]);
  }
}

/// 32 columns and 8 partial sums at a time.
__global__ void add_partials(float* dgain, float* dbias, const float* partial, int blocks, std::int64_t columns) {
  __shared__ float part[8][33];
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * 32 + threadIdx.x;
  for (int which = 0; which < (dbias != nullptr ? 2 : 1); ++which) {
    const float* from = partial + static_cast<std::int64_t>(which) * blocks * columns;
    float sum = 0;
    if (column < columns)
      for (int b = static_cast<int>(threadIdx.y); b < blocks; b += 8) sum += from[b * columns + column];
    part[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y == 0 && column < columns) {
      for (int y = 1; y < 8; ++y) sum += part[y][threadIdx.x];
      (which == 0 ? dgain : dbias)[column] = sum;
    }
    __syncthreads();
  }
}

struct Shape {
  int vectors, each;  // of a row; of a thread
  unsigned threads;
};
/// Few vectors a thread while rows are short: more rows are then in flight.
Shape shape_of(std::int64_t columns) {
  const int vectors = static_cast<int>(columns / 8);
  const int each = vectors <= 512 ? 1 : vectors <= 1024 ? 2 : 4;
  const int threads = ((vectors + each - 1) / each + kWarp - 1) / kWarp * kWarp;
  return {vectors, each, static_cast<unsigned>(threads)};
}

template <bool kCentred>
void forward(Bf16* y, float* mean, float* inverse, const Bf16* x, const Bf16* gain, const Bf16* bias, std::int64_t rows,
             std::int64_t columns, Stream stream) {
  const Shape s = shape_of(columns);
  const auto kernel = s.each == 1   ? norm_forward_kernel<1, kCentred>
                      : s.each == 2 ? norm_forward_kernel<2, kCentred>
                                    : norm_forward_kernel<4, kCentred>;
  ORRERY_LAUNCH(kernel, static_cast<unsigned>(rows), s.threads, stream, y, mean, inverse, x, gain, bias, s.vectors);
}

template <bool kCentred>
void backward(Bf16* dx, float* dgain, float* dbias, float* partial, const Bf16* dy, const Bf16* x, const Bf16* gain,
              const float* mean, const float* inverse, std::int64_t rows, std::int64_t columns, Stream stream) {
  const Shape s = shape_of(columns);
  const auto kernel = s.each == 1   ? norm_backward_kernel<1, kCentred>
                      : s.each == 2 ? norm_backward_kernel<2, kCentred>
                                    : norm_backward_kernel<4, kCentred>;
  // Half as many threads as a large device holds.
  const int wanted = static_cast<int>(131072 / s.threads), most = wanted < kNormBlocks ? wanted : kNormBlocks;
  const int blocks = rows < most ? static_cast<int>(rows) : most;
  ORRERY_LAUNCH(kernel, static_cast<unsigned>(blocks), s.threads, stream, dx, partial, dy, x, gain, mean, inverse, rows,
                s.vectors);
  ORRERY_LAUNCH(add_partials, blocks_for(columns, 32), dim3(32, 8), stream, dgain, dbias, partial, blocks, columns);
}

}  // namespace

void norm_forward(Bf16* y, float* mean, float* inverse, const Bf16* x, const Bf16* gain, const Bf16* bias,
                  std::int64_t rows, std::int64_t columns, Stream stream) {
  (mean != nullptr ? forward<true> : forward<false>)(y, mean, inverse, x, gain, bias, rows, columns, stream);
}

void norm_backward(Bf16* dx, float* dgain, float* dbias, float* partial, const Bf16* dy, const Bf16* x,
                   const Bf16* gain, const float* mean, const float* inverse, std::int64_t rows, std::int64_t columns,
                   Stream stream) {
  (mean != nullptr ? backward<true> : backward<false>)(dx, dgain, dbias, partial, dy, x, gain, mean, inverse, rows,
                                                       columns, stream);
}

}  // namespace orrery::calibration::gpu
