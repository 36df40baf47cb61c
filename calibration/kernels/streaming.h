// A streaming kernel as a case: which tensors it has, how it is launched, and what a row of its results must be.
// References compute sampled rows (and sampled columns, for sums over rows) in float64 with the formulas of rows.h.
#pragma once

#include <functional>
#include <vector>

#include "calibration/kernels/buffers.h"

namespace orrery::calibration::gpu {

using Row = std::vector<double>;

/// A kernel on rows x columns. Tensors are numbers of `b`, in the order in which `declare` adds them.
struct Streaming {
  std::function<void(Buffers& b, std::int64_t rows, std::int64_t columns)> declare;
  std::function<void(const Buffers& b, int set, std::int64_t rows, std::int64_t columns, Stream s)> launch;
  /// Adds what was computed and what is right to `d`, for row `r`.
  std::function<void(const Buffers& b, std::int64_t rows, std::int64_t columns, std::int64_t r, Difference& d)> row;
  /// The same for column `c` of sums over rows; may be empty.
  std::function<void(const Buffers& b, std::int64_t rows, std::int64_t columns, std::int64_t c, Difference& d)> column;
  bool whole = false;         // results depend on every row: checked on a small run
  std::int64_t longest = 0;   // elements of a row; 0: any
  std::int64_t multiple = 8;  // of the elements of a row
};

/// Stored values of an input of set 0.
Row inputs(const Buffers& b, int tensor, std::int64_t first, std::int64_t count);
/// Adds elements from `first` on of a tensor of set 0, and what they should be.
void compare(const Buffers& b, int tensor, std::int64_t first, const Row& right, Difference& d);

/// One bf16 output whose element i depends on elements i of bf16 inputs (tensors 1, 2, ...).
Streaming elementwise(int inputs_count, std::function<void(const Buffers&, int, std::int64_t, Stream)> launch,
                      std::function<double(const double*, std::int64_t)> right);
Streaming swiglu_forward_case();
Streaming swiglu_backward_case();
Streaming dropout_case(bool residual);
Streaming dropout_backward_case();
Streaming accumulate_case();
Streaming norm_forward_case(bool centred);
Streaming norm_backward_case(bool centred);
Streaming softmax_case();
Streaming softmax_backward_case();
Streaming cross_entropy_case();
Streaming cross_entropy_backward_case();
Streaming permute_case();
Streaming unpermute_case();
Streaming embedding_case();
Streaming embedding_backward_case();
Streaming adam_case();
Streaming lamb_case();
Streaming gradient_norm_case();
Streaming cast_transpose_case();

}  // namespace orrery::calibration::gpu
