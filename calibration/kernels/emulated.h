// The host as a device, for tests: memory is host memory, a kernel runs at once, block after block, its threads as
// fibers on one thread of the host. Barriers and shuffles work as on a device, so that wrong indexing, missing barriers
// and unwritten outputs show. Left out: everything about time, and races between threads that no barrier orders (fibers
// run one after the other).
#pragma once

#include <setjmp.h>
#include <ucontext.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#define __global__ static
#define __device__
#define __host__
#define __shared__ static
#define __launch_bounds__(...)

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}  // implicit, as in CUDA
};
struct uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

namespace emulated {

#if !defined(ORRERY_EMULATED_LANES)
#define ORRERY_EMULATED_LANES 32
#endif
inline constexpr unsigned kWarpSize = ORRERY_EMULATED_LANES;  // 64 on AMD
inline constexpr std::size_t kStack = 64 << 10;

/// The block that runs now. Fibers are made once and run one thread of block after block; they switch by longjmp, since
/// swapcontext asks the kernel each time.
struct Block {
  dim3 grid, threads, block, thread;
  std::vector<std::unique_ptr<char[]>> stacks;
  std::vector<jmp_buf*> fibers;
  std::vector<char> over;
  std::vector<float> slots;                   // shuffled values
  std::vector<unsigned> at_barrier, at_warp;  // how many of these each thread has passed
  jmp_buf scheduler;
  ucontext_t maker;
  unsigned running = 0;
  std::function<void()> kernel;
};
/// Never destroyed: modules are used until the very end.
inline Block& now() {
  static Block& block = *new Block;
  return block;
}

inline void yield() {
  Block& b = now();
  if (_setjmp(*b.fibers[b.running]) == 0) _longjmp(b.scheduler, 1);
}

inline void run_fiber() {
  Block& b = now();
  // The first time only to come into being.
  if (_setjmp(*b.fibers[b.running]) == 0) setcontext(&b.maker);
  for (;;) {
    b.kernel();
    b.over[b.running] = 1;
    yield();
  }
}

inline void make_fiber() {
  Block& b = now();
  b.running = static_cast<unsigned>(b.fibers.size());
  b.fibers.push_back(new jmp_buf[1]);
  b.stacks.push_back(std::make_unique<char[]>(kStack));
  ucontext_t fiber;
  getcontext(&fiber);
  fiber.uc_stack.ss_sp = b.stacks.back().get();
  fiber.uc_stack.ss_size = kStack;
  fiber.uc_link = nullptr;
  makecontext(&fiber, run_fiber, 0);
  swapcontext(&b.maker, &fiber);
}

/// Waits until all live threads from `first` on have passed as many barriers of `passed`.
inline void wait(std::vector<unsigned>& passed, unsigned first, unsigned count) {
  Block& b = now();
  const unsigned mine = ++passed[b.running];
  for (bool all = false; !all;) {
    all = true;
    for (unsigned t = first; t < first + count && t < passed.size(); ++t) all = all && (b.over[t] || passed[t] >= mine);
    if (!all) yield();
  }
}

inline float shuffle_xor(float value, int lane) {
  Block& b = now();
  const unsigned self = b.running, warp = self / kWarpSize * kWarpSize;
  b.slots[self] = value;
  wait(b.at_warp, warp, kWarpSize);
  const float other = b.slots[self ^ static_cast<unsigned>(lane)];
  wait(b.at_warp, warp, kWarpSize);  // nobody may overwrite a slot that is still read
  return other;
}

inline void launch(dim3 grid, dim3 threads, std::function<void()> kernel) {
  Block& b = now();
  const unsigned count = threads.x * threads.y * threads.z;
  b.grid = grid;
  b.threads = threads;
  b.kernel = std::move(kernel);
  while (b.fibers.size() < count) make_fiber();
  for (unsigned y = 0; y < grid.y; ++y) {
    for (unsigned x = 0; x < grid.x; ++x) {
      b.block = dim3(x, y);
      b.over.assign(count, 0);
      b.slots.assign((count + kWarpSize - 1) / kWarpSize * kWarpSize, 0);
      b.at_barrier.assign(count, 0);
      b.at_warp.assign(count, 0);
      for (bool left = true; left;) {
        left = false;
        for (unsigned t = 0; t < count; ++t) {
          if (b.over[t]) continue;
          b.running = t;
          b.thread = dim3(t % threads.x, t / threads.x);
          if (_setjmp(b.scheduler) == 0) _longjmp(*b.fibers[t], 1);
          left = left || !now().over[now().running];
        }
      }
    }
  }
}

}  // namespace emulated

#define threadIdx (::emulated::now().thread)
#define blockIdx (::emulated::now().block)
#define blockDim (::emulated::now().threads)
#define gridDim (::emulated::now().grid)

inline void __syncthreads() {
  auto& b = emulated::now();
  emulated::wait(b.at_barrier, 0, static_cast<unsigned>(b.at_barrier.size()));
}
inline float __shfl_xor_sync(unsigned, float value, int lane) { return emulated::shuffle_xor(value, lane); }
template <class T>
T atomicAdd(T* at, T value) {
  const T before = *at;
  *at += value;
  return before;
}
inline int atomicMax(int* at, int value) {
  const int before = *at;
  *at = before > value ? before : value;
  return before;
}
inline int __float_as_int(float value) {
  int bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}
inline float rsqrtf(float value) { return 1 / std::sqrt(value); }
inline long long clock64() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

// The runtime. A stream is nothing, since everything is over when a call returns; an event is a time.
using emulatedStream_t = void*;
using emulatedGraph_t = void*;
using emulatedGraphExec_t = void*;
using emulatedEvent_t = std::chrono::steady_clock::time_point*;
enum emulatedError_t { emulatedSuccess, emulatedErrorOutOfMemory, emulatedErrorNoDevice, emulatedErrorNotSupported };
enum emulatedMemcpyKind {
  emulatedMemcpyHostToDevice,
  emulatedMemcpyDeviceToHost,
  emulatedMemcpyDeviceToDevice,
  emulatedMemcpyDefault
};
inline constexpr int emulatedStreamNonBlocking = 1, emulatedStreamCaptureModeThreadLocal = 1;
inline const char* emulatedGetErrorString(emulatedError_t e) { return e == emulatedSuccess ? "success" : "failure"; }
inline emulatedError_t emulatedGetLastError() { return emulatedSuccess; }
inline emulatedError_t emulatedGetDeviceCount(int* count) {
  *count = 1;
  return emulatedSuccess;
}
inline emulatedError_t emulatedSetDevice(int) { return emulatedSuccess; }
inline emulatedError_t emulatedDeviceSynchronize() { return emulatedSuccess; }
inline emulatedError_t emulatedMemGetInfo(std::size_t* free, std::size_t* total) {
  *free = *total = std::size_t{1} << 31;
  return emulatedSuccess;
}
inline emulatedError_t emulatedMalloc(void** at, std::size_t bytes) {
  *at = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  return *at == nullptr ? emulatedErrorOutOfMemory : emulatedSuccess;
}
inline emulatedError_t emulatedFree(void* at) {
  std::free(at);
  return emulatedSuccess;
}
inline emulatedError_t emulatedMemcpy(void* to, const void* from, std::size_t bytes, emulatedMemcpyKind) {
  std::memcpy(to, from, bytes);
  return emulatedSuccess;
}
inline emulatedError_t emulatedMemcpyAsync(void* to, const void* from, std::size_t bytes, emulatedMemcpyKind kind,
                                           emulatedStream_t) {
  return emulatedMemcpy(to, from, bytes, kind);
}
inline emulatedError_t emulatedMemcpy2D(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                                        std::size_t width, std::size_t height, emulatedMemcpyKind) {
  for (std::size_t row = 0; row < height; ++row)
    std::memcpy(static_cast<char*>(to) + row * to_pitch, static_cast<const char*>(from) + row * from_pitch, width);
  return emulatedSuccess;
}
inline emulatedError_t emulatedMemsetAsync(void* at, int value, std::size_t bytes, emulatedStream_t) {
  std::memset(at, value, bytes);
  return emulatedSuccess;
}
inline emulatedError_t emulatedStreamCreateWithFlags(emulatedStream_t* s, int) {
  *s = s;
  return emulatedSuccess;
}
inline emulatedError_t emulatedStreamDestroy(emulatedStream_t) { return emulatedSuccess; }
inline emulatedError_t emulatedStreamSynchronize(emulatedStream_t) { return emulatedSuccess; }
// Kernels cannot be recorded, so that batches are launched one by one.
inline emulatedError_t emulatedStreamBeginCapture(emulatedStream_t, int) { return emulatedSuccess; }
inline emulatedError_t emulatedStreamEndCapture(emulatedStream_t, emulatedGraph_t*) {
  return emulatedErrorNotSupported;
}
inline emulatedError_t emulatedGraphLaunch(emulatedGraphExec_t, emulatedStream_t) { return emulatedErrorNotSupported; }
inline emulatedError_t emulatedGraphDestroy(emulatedGraph_t) { return emulatedSuccess; }
inline emulatedError_t emulatedGraphExecDestroy(emulatedGraphExec_t) { return emulatedSuccess; }
inline emulatedError_t emulatedEventCreate(emulatedEvent_t* e) {
  *e = new std::chrono::steady_clock::time_point;
  return emulatedSuccess;
}
inline emulatedError_t emulatedEventDestroy(emulatedEvent_t e) {
  delete e;
  return emulatedSuccess;
}
inline emulatedError_t emulatedStreamWaitEvent(emulatedStream_t, emulatedEvent_t, unsigned) { return emulatedSuccess; }
inline emulatedError_t emulatedEventRecord(emulatedEvent_t e, emulatedStream_t) {
  *e = std::chrono::steady_clock::now();
  return emulatedSuccess;
}
inline emulatedError_t emulatedEventSynchronize(emulatedEvent_t) { return emulatedSuccess; }
inline emulatedError_t emulatedEventElapsedTime(float* ms, emulatedEvent_t begin, emulatedEvent_t end) {
  *ms = std::chrono::duration<float, std::milli>(*end - *begin).count();
  return emulatedSuccess;
}
