// A token of each row of logits, drawn by its probability: one pass for the sum of exponentials (Milakov and
// Gimelshein, arXiv 1805.02867), then the thread whose share of the sum holds the draw walks its own logits again.
// Tokens count in the order of the threads, and of a thread's own in rising order, which draws from the same
// distribution as any.
#include "calibration/kernels/device.h"
#include "calibration/kernels/rows.h"

namespace orrery::calibration::gpu {
namespace {

__global__ void __launch_bounds__(kSamplingThreads)
    sample_kernel(std::int32_t* token, float* log_sum, const Bf16* logits, int vectors, std::uint64_t seed) {
  __shared__ float of_thread[kSamplingThreads];
  const std::int64_t row = blockIdx.x;
  const Bf16* const own = logits + row * vectors * 8;
  float top = Largest::kNothing;
  for (int i = static_cast<int>(threadIdx.x); i < vectors; i += kSamplingThreads) {
    const Eight e = unpack(load(own, i));
    for (int j = 0; j < 8; ++j) top = Largest::of(top, e.at[j]);
  }
  top = over_block<Largest>(top);
  float sum = 0;
  for (int i = static_cast<int>(threadIdx.x); i < vectors; i += kSamplingThreads) {
    const Eight e = unpack(load(own, i));
    for (int j = 0; j < 8; ++j) sum += exponential(e.at[j] - top);
  }
  of_thread[threadIdx.x] = sum;
  const float total = over_block<Sum>(sum);
  __syncthreads();
  const float draw = total * draw_at(seed, static_cast<std::uint64_t>(row));
  float before = 0;
  for (int t = 0; t < static_cast<int>(threadIdx.x); ++t) before += of_thread[t];
  if (threadIdx.x == 0) log_sum[row] = top + logf(total);
  const bool last = threadIdx.x == kSamplingThreads - 1;
  if (before > draw || (!last && before + sum <= draw)) return;
  int chosen = -1;
  for (int i = static_cast<int>(threadIdx.x); i < vectors; i += kSamplingThreads) {
    const Eight e = unpack(load(own, i));
    for (int j = 0; j < 8; ++j) {
      if (before > draw && chosen >= 0) break;
      before += exponential(e.at[j] - top);
      chosen = 8 * i + j;
    }
  }
  token[row] = chosen;
}

}  // namespace

void sample(std::int32_t* token, float* log_sum, const Bf16* logits, std::int64_t rows, std::int64_t columns,
            std::uint64_t seed, Stream stream) {
  ORRERY_LAUNCH(sample_kernel, static_cast<unsigned>(rows), kSamplingThreads, stream, token, log_sum, logits,
                static_cast<int>(columns / 8), seed);
}

}  // namespace orrery::calibration::gpu
