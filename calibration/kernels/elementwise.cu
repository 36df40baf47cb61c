// Element by element: copy, GeLU, SwiGLU, dropout with bias and residual, and adding a gradient into fp32. One thread
// per vector of eight elements, or two where a kernel reads a single input.
#include "calibration/kernels/device.h"
#include "calibration/kernels/rows.h"

namespace orrery::calibration::gpu {
namespace {

__global__ void __launch_bounds__(kThreads) copy_kernel(Packed* out, const Packed* x, std::int64_t vectors) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * 2 * kThreads + threadIdx.x;
  if (i + kThreads < vectors) {
    const Packed first = x[i], second = x[i + kThreads];
    out[i] = first;
    out[i + kThreads] = second;
  } else if (i < vectors) {
    out[i] = x[i];
  }
}

__device__ inline void gelu_vector(Bf16* y, std::int64_t i, const Packed& p) {
  Eight e = unpack(p);
#pragma unroll
  for (float& x : e.at) x = gelu(x);
  store(y, i, e);
}

__global__ void __launch_bounds__(kThreads) gelu_kernel(Bf16* y, const Bf16* x, std::int64_t vectors) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * 2 * kThreads + threadIdx.x;
  if (i + kThreads < vectors) {
    const Packed first = load(x, i), second = load(x, i + kThreads);
    gelu_vector(y, i, first);
    gelu_vector(y, i + kThreads, second);
  } else if (i < vectors) {
    gelu_vector(y, i, load(x, i));
  }
}

__global__ void __launch_bounds__(kThreads)
    gelu_backward_kernel(Bf16* dx, const Bf16* dy, const Bf16* x, std::int64_t vectors) {
  const std::int64_t i = own_vector();
  if (i >= vectors) return;
  const Eight in = unpack(load(x, i));
  Eight grad = unpack(load(dy, i));
#pragma unroll
  for (int j = 0; j < 8; ++j) grad.at[j] *= gelu_slope(in.at[j]);
  store(dx, i, grad);
}

/// Rows are the grid's first dimension, which may be long; no index needs a division.
__device__ inline std::int64_t own_column() { return static_cast<std::int64_t>(blockIdx.y) * blockDim.x + threadIdx.x; }

__global__ void __launch_bounds__(kThreads) swiglu_kernel(Bf16* y, const Bf16* x, std::int64_t vectors) {
  const std::int64_t row = blockIdx.x, column = own_column();
  if (column >= vectors) return;
  const Eight gate = unpack(load(x, 2 * row * vectors + column));
  const Eight up = unpack(load(x, (2 * row + 1) * vectors + column));
  Eight out;
#pragma unroll
  for (int j = 0; j < 8; ++j) out.at[j] = swiglu(gate.at[j], up.at[j]);
  store(y, row * vectors + column, out);
}

__global__ void __launch_bounds__(kThreads)
    swiglu_backward_kernel(Bf16* dx, const Bf16* dy, const Bf16* x, std::int64_t vectors) {
  const std::int64_t row = blockIdx.x, column = own_column();
  if (column >= vectors) return;
  const std::int64_t at_gate = 2 * row * vectors + column, at_up = at_gate + vectors;
  const Eight gate = unpack(load(x, at_gate)), up = unpack(load(x, at_up));
  const Eight grad = unpack(load(dy, row * vectors + column));
  Eight to_gate, to_up;
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    to_gate.at[j] = grad.at[j] * swiglu_gate_slope(gate.at[j], up.at[j]);
    to_up.at[j] = grad.at[j] * gate.at[j] * logistic(gate.at[j]);
  }
  store(dx, at_gate, to_gate);
  store(dx, at_up, to_up);
}

/// Eight mask bytes from one draw, as two words.
__device__ inline uint2 mask_of(std::uint64_t draw) {
  uint2 mask = make_uint2(0, 0);
#pragma unroll
  for (unsigned j = 0; j < 4; ++j) {
    mask.x |= (kept(draw, j) ? 1u : 0u) << (8 * j);
    mask.y |= (kept(draw, j + 4) ? 1u : 0u) << (8 * j);
  }
  return mask;
}
__device__ inline float mask_scale(const uint2& mask, int j) {
  const std::uint32_t word = j < 4 ? mask.x : mask.y;
  return static_cast<float>((word >> (8 * (j & 3))) & 1u) * static_cast<float>(kKeepScale);
}

__global__ void __launch_bounds__(kThreads) dropout_kernel(Bf16* y, uint2* mask, const Bf16* x, std::int64_t vectors) {
  const std::int64_t i = own_vector();
  if (i >= vectors) return;
  Eight e = unpack(load(x, i));
  const uint2 keep = mask_of(bits_at(kDropoutSeed, static_cast<std::uint64_t>(i)));
#pragma unroll
  for (int j = 0; j < 8; ++j) e.at[j] *= mask_scale(keep, j);
  store(y, i, e);
  mask[i] = keep;
}

__global__ void __launch_bounds__(kThreads)
    bias_dropout_residual_kernel(Bf16* y, uint2* mask, const Bf16* x, const Bf16* bias, const Bf16* residual,
                                 std::int64_t vectors) {
  const std::int64_t column = own_column();
  if (column >= vectors) return;
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * vectors + column;
  Eight e = unpack(load(x, i));
  const Eight before = unpack(load(residual, i)), shift = unpack(load(bias, column));
  const uint2 keep = mask_of(bits_at(kDropoutSeed, static_cast<std::uint64_t>(i)));
#pragma unroll
  for (int j = 0; j < 8; ++j) e.at[j] = (e.at[j] + shift.at[j]) * mask_scale(keep, j) + before.at[j];
  store(y, i, e);
  mask[i] = keep;
}

__global__ void __launch_bounds__(kThreads)
    dropout_backward_kernel(Bf16* dx, const Bf16* dy, const uint2* mask, std::int64_t vectors) {
  const std::int64_t i = own_vector();
  if (i >= vectors) return;
  Eight e = unpack(load(dy, i));
  const uint2 keep = mask[i];
#pragma unroll
  for (int j = 0; j < 8; ++j) e.at[j] *= mask_scale(keep, j);
  store(dx, i, e);
}

__global__ void __launch_bounds__(kThreads) accumulate_kernel(float4* sum, const Bf16* x, std::int64_t vectors) {
  const std::int64_t i = own_vector();
  if (i >= vectors) return;
  float4 first = sum[2 * i], second = sum[2 * i + 1];
  const Eight e = unpack(load(x, i));
  first = make_float4(first.x + e.at[0], first.y + e.at[1], first.z + e.at[2], first.w + e.at[3]);
  second = make_float4(second.x + e.at[4], second.y + e.at[5], second.z + e.at[6], second.w + e.at[7]);
  sum[2 * i] = first;
  sum[2 * i + 1] = second;
}

unsigned threads_of_rows(std::int64_t vectors) {
  return vectors >= kThreads ? kThreads : blocks_for(vectors, kWarp) * kWarp;
}
dim3 grid_of_rows(std::int64_t rows, std::int64_t vectors) {
  return dim3(static_cast<unsigned>(rows), blocks_for(vectors, threads_of_rows(vectors)));
}

}  // namespace

void copy(Bf16* out, const Bf16* x, std::int64_t count, Stream stream) {
  ORRERY_LAUNCH(copy_kernel, blocks_for(count / 8, 2 * kThreads), kThreads, stream, reinterpret_cast<Packed*>(out),
                reinterpret_cast<const Packed*>(x), count / 8);
}

void gelu_forward(Bf16* y, const Bf16* x, std::int64_t count, Stream stream) {
  ORRERY_LAUNCH(gelu_kernel, blocks_for(count / 8, 2 * kThreads), kThreads, stream, y, x, count / 8);
}

void gelu_backward(Bf16* dx, const Bf16* dy, const Bf16* x, std::int64_t count, Stream stream) {
  ORRERY_LAUNCH(gelu_backward_kernel, blocks_for(count / 8, kThreads), kThreads, stream, dx, dy, x, count / 8);
}

void swiglu_forward(Bf16* y, const Bf16* x, std::int64_t rows, std::int64_t columns, Stream stream) {
  ORRERY_LAUNCH(swiglu_kernel, grid_of_rows(rows, columns / 8), threads_of_rows(columns / 8), stream, y, x,
                columns / 8);
}

void swiglu_backward(Bf16* dx, const Bf16* dy, const Bf16* x, std::int64_t rows, std::int64_t columns, Stream stream) {
  ORRERY_LAUNCH(swiglu_backward_kernel, grid_of_rows(rows, columns / 8), threads_of_rows(columns / 8), stream, dx, dy,
                x, columns / 8);
}

void dropout(Bf16* y, std::uint8_t* mask, const Bf16* x, std::int64_t count, Stream stream) {
  ORRERY_LAUNCH(dropout_kernel, blocks_for(count / 8, kThreads), kThreads, stream, y, reinterpret_cast<uint2*>(mask), x,
                count / 8);
}

void bias_dropout_residual(Bf16* y, std::uint8_t* mask, const Bf16* x, const Bf16* bias, const Bf16* residual,
                           std::int64_t rows, std::int64_t columns, Stream stream) {
  ORRERY_LAUNCH(bias_dropout_residual_kernel, grid_of_rows(rows, columns / 8), threads_of_rows(columns / 8), stream, y,
                reinterpret_cast<uint2*>(mask), x, bias, residual, columns / 8);
}

void dropout_backward(Bf16* dx, const Bf16* dy, const std::uint8_t* mask, std::int64_t count, Stream stream) {
  ORRERY_LAUNCH(dropout_backward_kernel, blocks_for(count / 8, kThreads), kThreads, stream, dx, dy,
                reinterpret_cast<const uint2*>(mask), count / 8);
}

void accumulate(float* sum, const Bf16* x, std::int64_t count, Stream stream) {
  ORRERY_LAUNCH(accumulate_kernel, blocks_for(count / 8, kThreads), kThreads, stream, reinterpret_cast<float4*>(sum), x,
                count / 8);
}

}  // namespace orrery::calibration::gpu
