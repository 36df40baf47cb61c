// Optimizer steps over flat fp32 arrays, fused: Adam (reads parameter, momentum, variance, gradient; writes the first
// three and a bf16 copy), LAMB in two passes with the norms between them, and the norm of a gradient.
#include "calibration/kernels/device.h"
#include "calibration/kernels/rows.h"

namespace orrery::calibration::gpu {
namespace {

__device__ inline AdamState<float> step(const float p, const float m, const float v) { return {p, m, v}; }

/// Directions of four parameters; updates momentum and variance.
__device__ inline float4 directions(const float4& p, float4& m, float4& v, const float4& g, const AdamRates& rates) {
  AdamState<float> a = step(p.x, m.x, v.x), b = step(p.y, m.y, v.y), c = step(p.z, m.z, v.z), d = step(p.w, m.w, v.w);
  const float4 u = make_float4(adam_direction(a, g.x, rates), adam_direction(b, g.y, rates),
                               adam_direction(c, g.z, rates), adam_direction(d, g.w, rates));
  m = make_float4(a.momentum, b.momentum, c.momentum, d.momentum);
  v = make_float4(a.variance, b.variance, c.variance, d.variance);
  return u;
}

__device__ inline float4 moved(const float4& p, const float4& u, float rate) {
  return make_float4(p.x - rate * u.x, p.y - rate * u.y, p.z - rate * u.z, p.w - rate * u.w);
}
__device__ inline void store_copy(uint2* copy, std::int64_t i, const float4& p) {
  copy[i] = make_uint2(pack(p.x, p.y), pack(p.z, p.w));
}

__global__ void __launch_bounds__(kThreads)
    adam_kernel(float4* parameter, float4* momentum, float4* variance, uint2* copy, const float4* gradient,
                std::int64_t vectors, AdamRates rates) {
  const std::int64_t i = own_vector();
  if (i >= vectors) return;
  const float4 g = gradient[i];
  float4 p = parameter[i], m = momentum[i], v = variance[i];
  const float4 u = directions(p, m, v, g, rates);
  p = moved(p, u, static_cast<float>(rates.rate));
  parameter[i] = p;
  momentum[i] = m;
  variance[i] = v;
  store_copy(copy, i, p);
}

__device__ inline float square(const float4& a) { return a.x * a.x + a.y * a.y + a.z * a.z + a.w * a.w; }

/// A grid that walks, so that there is one atomic addition per block and not per vector.
__global__ void __launch_bounds__(kThreads)
    lamb_direction_kernel(const float4* parameter, float4* momentum, float4* variance, float4* direction, float* sums,
                          const float4* gradient, std::int64_t vectors, AdamRates rates) {
  float of_parameter = 0, of_direction = 0;
  for (std::int64_t i = own_vector(); i < vectors; i += static_cast<std::int64_t>(gridDim.x) * blockDim.x) {
    const float4 g = gradient[i], p = parameter[i];
    float4 m = momentum[i], v = variance[i];
    const float4 u = directions(p, m, v, g, rates);
    momentum[i] = m;
    variance[i] = v;
    direction[i] = u;
    of_parameter += square(p);
    of_direction += square(u);
  }
  of_parameter = over_block<Sum>(of_parameter);
  of_direction = over_block<Sum>(of_direction);
  if (threadIdx.x == 0) {
    atomicAdd(sums, of_parameter);
    atomicAdd(sums + 1, of_direction);
  }
}

__global__ void __launch_bounds__(kThreads) lamb_move_kernel(float4* parameter, const float4* direction, uint2* copy,
                                                             const float* sums, std::int64_t vectors, float rate) {
  const std::int64_t i = own_vector();
  if (i >= vectors) return;
  const float trust = sqrtf(sums[0] / sums[1]);
  const float4 p = moved(parameter[i], direction[i], rate * trust);
  parameter[i] = p;
  store_copy(copy, i, p);
}

__global__ void __launch_bounds__(kThreads) squares_kernel(float* sum, const float4* gradient, std::int64_t vectors) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  float mine = 0;
  std::int64_t i = own_vector();
  for (; i + 3 * stride < vectors; i += 4 * stride) {
    const float4 a = gradient[i], b = gradient[i + stride], c = gradient[i + 2 * stride], d = gradient[i + 3 * stride];
    mine += square(a) + square(b) + square(c) + square(d);
  }
  for (; i < vectors; i += stride) mine += square(gradient[i]);
  mine = over_block<Sum>(mine);
  if (threadIdx.x == 0) atomicAdd(sum, mine);
}

/// Enough blocks for every multiprocessor to be full, and few enough for the atomics not to count.
unsigned walking_blocks(std::int64_t vectors) {
  const unsigned blocks = blocks_for(vectors, 4 * kThreads);
  return blocks < 2048u ? blocks : 2048u;
}

}  // namespace

void adam(float* parameter, float* momentum, float* variance, Bf16* copy, const float* gradient, std::int64_t count,
          Stream stream) {
  ORRERY_LAUNCH(adam_kernel, blocks_for(count / 4, kThreads), kThreads, stream, reinterpret_cast<float4*>(parameter),
                reinterpret_cast<float4*>(momentum), reinterpret_cast<float4*>(variance),
                reinterpret_cast<uint2*>(copy), reinterpret_cast<const float4*>(gradient), count / 4, AdamRates{});
}

void lamb(float* parameter, float* momentum, float* variance, float* direction, Bf16* copy, float* sums,
          const float* gradient, std::int64_t count, Stream stream) {
  const std::int64_t vectors = count / 4;
  static_cast<void>(gpuMemsetAsync(sums, 0, 2 * sizeof(float), stream));
  ORRERY_LAUNCH(lamb_direction_kernel, walking_blocks(vectors), kThreads, stream,
                reinterpret_cast<const float4*>(parameter), reinterpret_cast<float4*>(momentum),
                reinterpret_cast<float4*>(variance), reinterpret_cast<float4*>(direction), sums,
                reinterpret_cast<const float4*>(gradient), vectors, AdamRates{});
  ORRERY_LAUNCH(lamb_move_kernel, blocks_for(vectors, kThreads), kThreads, stream, reinterpret_cast<float4*>(parameter),
                reinterpret_cast<const float4*>(direction), reinterpret_cast<uint2*>(copy), sums, vectors,
                static_cast<float>(AdamRates{}.rate));
}

void gradient_norm(float* sum, const float* gradient, std::int64_t count, Stream stream) {
  static_cast<void>(gpuMemsetAsync(sum, 0, sizeof(float), stream));
  ORRERY_LAUNCH(squares_kernel, walking_blocks(count / 4), kThreads, stream, sum,
                reinterpret_cast<const float4*>(gradient), count / 4);
}

}  // namespace orrery::calibration::gpu
