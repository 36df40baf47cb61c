// The kernels, as functions that the host part of the module calls. Pointers are device memory; bf16 is passed as its
// bits. Rows are contiguous, their length a multiple of 8 elements (16 bytes) unless said otherwise. Errors of a launch
// stay in the runtime's last error.
#pragma once

#include <cstdint>

#include "calibration/kernels/gpu.h"

namespace orrery::calibration::gpu {

using Bf16 = std::uint16_t;

/// How the inputs of a kernel are made from (seed, index); Buffers has the same on the host.
enum class Fill : std::int32_t { normal, square, index, byte_mask };
/// As what it stores an element; two of e2m1 in a byte.
enum class Filled : std::int32_t { bf16, fp16, fp32, e4m3, e5m2, e4m3_fnuz, e5m2_fnuz, e2m1 };
/// Writes `count` elements.
void fill(void* out, Filled type, Fill kind, double scale, std::int64_t count, std::uint64_t seed, Stream stream);
/// Adds to *found how many of `count` elements of `width` bytes have all bits set, which is what outputs are poisoned
/// with: a NaN of every floating-point type here.
void count_poison(const void* data, int width, std::int64_t count, unsigned long long* found, Stream stream);

void empty_kernel(Stream stream);
/// Spins for about `cycles` of the multiprocessor's clock.
void spin(long long cycles, Stream stream);
/// Until *stop (host memory) is set or `rounds` are over, `blocks` blocks stream through the buffers, as the channels
/// of a collective do: out = a, or out = a + b where b is given. 16-byte words.
/// Behind each turn through its words a block rests for `rest` cycles of the multiprocessor's clock.
void background(void* out, const void* a, const void* b, std::int64_t bytes, int blocks, int rounds, long long rest,
                const volatile int* stop, Stream stream);

void copy(Bf16* out, const Bf16* x, std::int64_t count, Stream stream);
void gelu_forward(Bf16* y, const Bf16* x, std::int64_t count, Stream stream);
void gelu_backward(Bf16* dx, const Bf16* dy, const Bf16* x, std::int64_t count, Stream stream);
/// x: rows of 2 * columns, gates first.
void swiglu_forward(Bf16* y, const Bf16* x, std::int64_t rows, std::int64_t columns, Stream stream);
void swiglu_backward(Bf16* dx, const Bf16* dy, const Bf16* x, std::int64_t rows, std::int64_t columns, Stream stream);
void dropout(Bf16* y, std::uint8_t* mask, const Bf16* x, std::int64_t count, Stream stream);
void bias_dropout_residual(Bf16* y, std::uint8_t* mask, const Bf16* x, const Bf16* bias, const Bf16* residual,
                           std::int64_t rows, std::int64_t columns, Stream stream);
void dropout_backward(Bf16* dx, const Bf16* dy, const std::uint8_t* mask, std::int64_t count, Stream stream);
/// sum += x, the sum in fp32.
void accumulate(float* sum, const Bf16* x, std::int64_t count, Stream stream);

/// Norms and softmax hold a row in the registers of at most 512 threads.
inline constexpr std::int64_t kLongestRow = 16384;
/// `mean` null: RMS norm.
void norm_forward(Bf16* y, float* mean, float* inverse, const Bf16* x, const Bf16* gain, const Bf16* bias,
                  std::int64_t rows, std::int64_t columns, Stream stream);
/// `partial`: norm_partial_floats() floats of scratch. `dbias` and `mean` null: RMS norm.
void norm_backward(Bf16* dx, float* dgain, float* dbias, float* partial, const Bf16* dy, const Bf16* x,
                   const Bf16* gain, const float* mean, const float* inverse, std::int64_t rows, std::int64_t columns,
                   Stream stream);
/// At most: partial sums are traffic that the forward pass does not have, too few blocks leave the device half empty.
inline constexpr int kNormBlocks = 1024;
inline std::int64_t norm_partial_floats(std::int64_t columns) { return 2 * kNormBlocks * columns; }

/// Rows of scores of `columns` keys; row r is query r modulo columns, and sees the keys up to its own (causal).
void softmax_forward(Bf16* y, const Bf16* x, float scale, std::int64_t rows, std::int64_t columns, Stream stream);
void softmax_backward(Bf16* dx, const Bf16* dy, const Bf16* y, float scale, std::int64_t rows, std::int64_t columns,
                      Stream stream);
void cross_entropy_forward(float* loss, float* log_sum, const Bf16* logits, const std::int32_t* target,
                           std::int64_t rows, std::int64_t columns, Stream stream);
void cross_entropy_backward(Bf16* dlogits, const Bf16* logits, const float* log_sum, const std::int32_t* target,
                            float scale, std::int64_t rows, std::int64_t columns, Stream stream);

void embedding_forward(Bf16* y, const Bf16* table, const std::int32_t* token, std::int64_t rows, std::int64_t columns,
                       Stream stream);
void embedding_backward(float* dtable, const Bf16* dy, const std::int32_t* token, std::int64_t rows,
                        std::int64_t columns, Stream stream);

/// y[token] = sum over its kChosen rows of x, each times its weight; row[token * kChosen + i] says where they are.
inline constexpr int kChosen = 8;
void unpermute(Bf16* y, const Bf16* x, const std::int32_t* row, const float* weight, std::int64_t tokens,
               std::int64_t columns, Stream stream);

void adam(float* parameter, float* momentum, float* variance, Bf16* copy, const float* gradient, std::int64_t count,
          Stream stream);
/// `sums`: two floats of scratch, |parameter|^2 and |direction|^2.
void lamb(float* parameter, float* momentum, float* variance, float* direction, Bf16* copy, float* sums,
          const float* gradient, std::int64_t count, Stream stream);
/// *sum = sum of squares.
void gradient_norm(float* sum, const float* gradient, std::int64_t count, Stream stream);

/// e4m3 of x * scale in x's order and transposed; rows and columns multiples of 64. *largest takes the maximum of |x|.
void cast_transpose(std::uint8_t* out, std::uint8_t* transposed, float* largest, const Bf16* x, float scale,
                    std::int64_t rows, std::int64_t columns, Stream stream);

/// One query of each sequence over `keys` cached tokens, in pages of kPageTokens of which a sequence has `pages` in the
/// table; `splits` parts along the keys. head_dim: a power of two from 16 to kLongestHead.
inline constexpr int kLongestHead = 256;
struct PagedShape {
  std::int64_t keys = 0, pages = 0, window = 0;  // window 0: all
  int heads = 1, kv_heads = 1, head_dim = 128, splits = 1;
  float scale = 1;
};
/// Parts that fill the device.
int paged_splits(const PagedShape& shape, std::int64_t sequences, std::int64_t processors);
/// `parts`: paged_part_floats() floats of scratch.
void paged_attention(Bf16* out, float* parts, const Bf16* q, const Bf16* k, const Bf16* v, const std::int32_t* table,
                     const PagedShape& shape, std::int64_t sequences, Stream stream);
inline std::int64_t paged_part_floats(const PagedShape& s, std::int64_t sequences) {
  return sequences * s.heads * s.splits * (s.head_dim + 2);
}

/// A token of each row by its probability, and the logarithm of the sum of exponentials; columns a multiple of 8.
inline constexpr int kSamplingThreads = 512;
void sample(std::int32_t* token, float* log_sum, const Bf16* logits, std::int64_t rows, std::int64_t columns,
            std::uint64_t seed, Stream stream);

/// Experts of few tokens, each weight in rows of its inner size: gate_up [experts, 2 width, hidden], down [experts,
/// hidden, width]. Of each token y is the mean over the `chosen` rows that experts made of it. Widths: multiples of 8.
inline constexpr int kExpertRows = 8;
struct ExpertSizes {
  int tokens = 1, hidden = 8, width = 8, experts = 1, chosen = 1;
};
/// Rows lie by expert: `first` of each (one more than experts), the `token` of each row, the `row` of each choice.
struct ExpertTables {
  const std::int32_t *first = nullptr, *token = nullptr, *row = nullptr;
};
void few_experts(Bf16* y, Bf16* hidden, Bf16* rows, const Bf16* x, const Bf16* gate_up, const Bf16* down,
                 const ExpertTables& tables, const ExpertSizes& sizes, Stream stream);

}  // namespace orrery::calibration::gpu
