// Kernels that serve the measurement itself: random inputs, the search for unwritten outputs, an empty kernel, one that
// spins, and traffic to run beside a matrix product.
#include "calibration/kernels/abi.h"
#include "calibration/kernels/device.h"

namespace orrery::calibration::gpu {
namespace {

template <class T, class Convert>
__global__ void fill_kernel(T* out, Fill kind, double scale, std::int64_t count, std::uint64_t seed, Convert convert) {
  for (std::int64_t i = own_vector(); i < count; i += static_cast<std::int64_t>(gridDim.x) * blockDim.x) {
    const float normal = normal_at(seed, static_cast<std::uint64_t>(i));
    out[i] = convert(static_cast<float>(scale) * (kind == Fill::square ? normal * normal : normal));
  }
}

__global__ void fill_index(std::int32_t* out, std::int32_t limit, std::int64_t count, std::uint64_t seed) {
  for (std::int64_t i = own_vector(); i < count; i += static_cast<std::int64_t>(gridDim.x) * blockDim.x)
    out[i] =
        static_cast<std::int32_t>(bits_at(seed, static_cast<std::uint64_t>(i)) % static_cast<std::uint64_t>(limit));
}

/// Two numbers of 4 bits in a byte.
__global__ void fill_pairs(std::uint8_t* out, double scale, std::int64_t pairs, std::uint64_t seed) {
  for (std::int64_t i = own_vector(); i < pairs; i += static_cast<std::int64_t>(gridDim.x) * blockDim.x) {
    const auto of = [&](std::int64_t at) {
      return to_e2m1(static_cast<float>(scale) * normal_at(seed, static_cast<std::uint64_t>(at)));
    };
    out[i] = static_cast<std::uint8_t>(of(2 * i) | of(2 * i + 1) << 4);
  }
}

__global__ void fill_mask(std::uint8_t* out, std::int64_t count, std::uint64_t seed) {
  for (std::int64_t i = own_vector(); i < count; i += static_cast<std::int64_t>(gridDim.x) * blockDim.x)
    out[i] = static_cast<std::uint8_t>(bits_at(seed, static_cast<std::uint64_t>(i)) & 1u);
}

template <class T>
__global__ void poison_kernel(const T* data, std::int64_t count, unsigned long long* found) {
  unsigned long long mine = 0;
  for (std::int64_t i = own_vector(); i < count; i += static_cast<std::int64_t>(gridDim.x) * blockDim.x)
    mine += data[i] == static_cast<T>(~T{}) ? 1u : 0u;
  if (mine != 0) atomicAdd(found, mine);
}

__global__ void nothing() {}

__global__ void spin_kernel(long long cycles) {
  const long long begin = clock64();
  while (clock64() - begin < cycles) {
  }
}

__global__ void background_kernel(uint4* out, const uint4* a, const uint4* b, std::int64_t words, int rounds,
                                  long long rest, const volatile int* stop) {
  for (int round = 0; round < rounds && *stop == 0; ++round) {
    for (std::int64_t i = own_vector(); i < words; i += static_cast<std::int64_t>(gridDim.x) * blockDim.x) {
      uint4 value = a[i];
      if (b != nullptr) {
        const uint4 other = b[i];
        value = make_uint4(value.x + other.x, value.y + other.y, value.z + other.z, value.w + other.w);
      }
      out[i] = value;
      if (rest > 0) {
        const long long begin = clock64();
        while (clock64() - begin < rest) {
        }
      }
    }
  }
}

unsigned grid_for(std::int64_t count) {
  const unsigned blocks = blocks_for(count, kThreads);
  return blocks < 8192u ? blocks : 8192u;
}

struct ToBf16 {
  __device__ std::uint16_t operator()(float x) const { return to_bf16(x); }
};
struct ToFp16 {
  __device__ std::uint16_t operator()(float x) const { return to_fp16(x); }
};
struct ToFloat {
  __device__ float operator()(float x) const { return x; }
};
struct ToE4m3 {
  __device__ std::uint8_t operator()(float x) const { return to_e4m3(x); }
};
struct ToE4m3Fnuz {
  __device__ std::uint8_t operator()(float x) const { return to_e4m3_fnuz(x); }
};
struct ToE5m2Fnuz {
  __device__ std::uint8_t operator()(float x) const { return to_e5m2_fnuz(x); }
};
struct ToE5m2 {
  __device__ std::uint8_t operator()(float x) const { return to_e5m2(x); }
};

}  // namespace

void fill(void* out, Filled type, Fill kind, double scale, std::int64_t count, std::uint64_t seed, Stream stream) {
  if (count <= 0) return;
  const unsigned grid = grid_for(count);
  const auto words = static_cast<std::uint16_t*>(out);
  const auto bytes = static_cast<std::uint8_t*>(out);
  if (kind == Fill::index) {
    ORRERY_LAUNCH(fill_index, grid, kThreads, stream, static_cast<std::int32_t*>(out), static_cast<std::int32_t>(scale),
                  count, seed);
    return;
  }
  if (kind == Fill::byte_mask) {
    ORRERY_LAUNCH(fill_mask, grid, kThreads, stream, bytes, count, seed);
    return;
  }
  const auto filled = [&](auto* to, auto convert) {
    ORRERY_LAUNCH(fill_kernel, grid, kThreads, stream, to, kind, scale, count, seed, convert);
  };
  switch (type) {
    case Filled::bf16:
      return filled(words, ToBf16{});
    case Filled::fp16:
      return filled(words, ToFp16{});
    case Filled::fp32:
      return filled(static_cast<float*>(out), ToFloat{});
    case Filled::e4m3:
      return filled(bytes, ToE4m3{});
    case Filled::e5m2:
      return filled(bytes, ToE5m2{});
    case Filled::e4m3_fnuz:
      return filled(bytes, ToE4m3Fnuz{});
    case Filled::e5m2_fnuz:
      return filled(bytes, ToE5m2Fnuz{});
    case Filled::e2m1:
      ORRERY_LAUNCH(fill_pairs, grid_for((count + 1) / 2), kThreads, stream, bytes, scale, (count + 1) / 2, seed);
      return;
  }
}

void count_poison(const void* data, int width, std::int64_t count, unsigned long long* found, Stream stream) {
  if (count <= 0) return;
  const unsigned grid = grid_for(count);
  if (width == 1)
    ORRERY_LAUNCH(poison_kernel, grid, kThreads, stream, static_cast<const std::uint8_t*>(data), count, found);
  if (width == 2)
    ORRERY_LAUNCH(poison_kernel, grid, kThreads, stream, static_cast<const std::uint16_t*>(data), count, found);
  if (width == 4)
    ORRERY_LAUNCH(poison_kernel, grid, kThreads, stream, static_cast<const std::uint32_t*>(data), count, found);
}

void empty_kernel(Stream stream) { ORRERY_LAUNCH(nothing, 1, 32, stream); }

void spin(long long cycles, Stream stream) { ORRERY_LAUNCH(spin_kernel, 1, 32, stream, cycles); }

void background(void* out, const void* a, const void* b, std::int64_t bytes, int blocks, int rounds, long long rest,
                const volatile int* stop, Stream stream) {
  ORRERY_LAUNCH(background_kernel, static_cast<unsigned>(blocks), 512, stream, static_cast<uint4*>(out),
                static_cast<const uint4*>(a), static_cast<const uint4*>(b), bytes / 16, rounds, rest, stop);
}

}  // namespace orrery::calibration::gpu
