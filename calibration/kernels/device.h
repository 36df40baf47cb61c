// What the kernels share on the device: 16-byte vectors of eight bf16, conversions, and sums and maxima over a block.
// Only for the GPU compilers. Every global load and store of a streaming kernel is 16 bytes wide where its type allows,
// and a thread has at least one such load of each input in flight; with full occupancy that covers the latency of HBM.
#pragma once

#include "calibration/kernels/gpu.h"
#include "calibration/kernels/launches.h"
#include "calibration/kernels/values.h"

namespace orrery::calibration::gpu {

inline constexpr int kThreads = 256;

/// Eight bf16 as four words, the lower half of a word first.
struct alignas(16) Packed {
  std::uint32_t word[4];
};

__device__ inline std::uint32_t pack(float low, float high) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  std::uint32_t word;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
#else
  return static_cast<std::uint32_t>(to_bf16(low)) | static_cast<std::uint32_t>(to_bf16(high)) << 16;
#endif
}
__device__ inline float low_of(std::uint32_t word) { return float_of(word << 16); }
__device__ inline float high_of(std::uint32_t word) { return float_of(word & 0xffff0000u); }

struct Eight {
  float at[8];
};
__device__ inline Eight unpack(const Packed& p) {
  Eight e;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    e.at[2 * i] = low_of(p.word[i]);
    e.at[2 * i + 1] = high_of(p.word[i]);
  }
  return e;
}
__device__ inline Packed pack(const Eight& e) {
  Packed p;
#pragma unroll
  for (int i = 0; i < 4; ++i) p.word[i] = pack(e.at[2 * i], e.at[2 * i + 1]);
  return p;
}

__device__ inline Packed load(const Bf16* data, std::int64_t vector) {
  return reinterpret_cast<const Packed*>(data)[vector];
}
__device__ inline void store(Bf16* data, std::int64_t vector, const Eight& e) {
  reinterpret_cast<Packed*>(data)[vector] = pack(e);
}

/// The vector that this thread works on, in a grid of whole vectors.
__device__ inline std::int64_t own_vector() { return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; }

#if defined(ORRERY_EMULATED)
inline constexpr int kWarp = static_cast<int>(emulated::kWarpSize);
inline float shuffle_xor(float value, int lane) { return emulated::shuffle_xor(value, lane); }
#elif defined(ORRERY_HIP)
inline constexpr int kWarp = 64;
__device__ inline float shuffle_xor(float value, int lane) { return __shfl_xor(value, lane); }
#else
inline constexpr int kWarp = 32;
__device__ inline float shuffle_xor(float value, int lane) { return __shfl_xor_sync(0xffffffffu, value, lane); }
#endif

struct Sum {
  static constexpr float kNothing = 0;
  __device__ static float of(float a, float b) { return a + b; }
};
struct Largest {
  static constexpr float kNothing = -3.4e38f;
  __device__ static float of(float a, float b) { return a > b ? a : b; }
};

/// Over all threads of the block (a multiple of a warp), the same for each. Blocks of up to 1024 threads.
template <class Operation>
__device__ inline float over_block(float value) {
  __shared__ float of_warp[32];
  for (int lane = kWarp / 2; lane > 0; lane /= 2) value = Operation::of(value, shuffle_xor(value, lane));
  const int warps = static_cast<int>(blockDim.x) / kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
  __syncthreads();  // of an earlier call
  if (lane == 0) of_warp[warp] = value;
  __syncthreads();
  value = lane < warps ? of_warp[lane] : Operation::kNothing;
  for (int step = kWarp / 2; step > 0; step /= 2) value = Operation::of(value, shuffle_xor(value, step));
  return value;
}

inline unsigned blocks_for(std::int64_t work, std::int64_t per_block) {
  return static_cast<unsigned>((work + per_block - 1) / per_block);
}

}  // namespace orrery::calibration::gpu
