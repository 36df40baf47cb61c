// Cases of the kernels that work element by element, of the optimizers and of the cast to fp8.
#include <cmath>

#include "calibration/kernels/rows.h"
#include "calibration/kernels/streaming.h"

namespace orrery::calibration::gpu {
namespace {

constexpr double kCastScale = 4;

bool is_kept(std::int64_t element) {
  const auto i = static_cast<std::uint64_t>(element);
  return kept(bits_at(kDropoutSeed, i / 8), static_cast<unsigned>(i % 8));
}

}  // namespace

Row inputs(const Buffers& b, int tensor, std::int64_t first, std::int64_t count) {
  Row row(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < row.size(); ++i) row[i] = b.value(tensor, first + static_cast<std::int64_t>(i));
  return row;
}

void compare(const Buffers& b, int tensor, std::int64_t first, const Row& right, Difference& d) {
  const Row computed = b.read(tensor, first, static_cast<std::int64_t>(right.size()));
  for (std::size_t i = 0; i < right.size(); ++i) d.add(computed[i], right[i]);
}

/// Kernels whose element i of one output depends on elements i of some inputs.
Streaming elementwise(int inputs_count, std::function<void(const Buffers&, int, std::int64_t, Stream)> launch,
                      std::function<double(const double*, std::int64_t)> right) {
  Streaming s;
  s.declare = [=](Buffers& b, std::int64_t rows, std::int64_t columns) {
    b.output(Storage::bf16, rows * columns);
    for (int i = 0; i < inputs_count; ++i) b.input(Storage::bf16, rows * columns);
  };
  s.launch = [=](const Buffers& b, int set, std::int64_t rows, std::int64_t columns, Stream stream) {
    launch(b, set, rows * columns, stream);
  };
  s.row = [=](const Buffers& b, std::int64_t, std::int64_t columns, std::int64_t r, Difference& d) {
    Row expected(static_cast<std::size_t>(columns));
    for (std::int64_t i = 0; i < columns; ++i) {
      double in[2] = {};
      for (int t = 0; t < inputs_count; ++t) in[t] = b.value(1 + t, r * columns + i);
      expected[static_cast<std::size_t>(i)] = right(in, r * columns + i);
    }
    compare(b, 0, r * columns, expected, d);
  };
  return s;
}

Streaming swiglu_forward_case() {
  Streaming s;
  s.declare = [](Buffers& b, std::int64_t rows, std::int64_t columns) {
    b.output(Storage::bf16, rows * columns);
    b.input(Storage::bf16, 2 * rows * columns);
  };
  s.launch = [](const Buffers& b, int set, std::int64_t rows, std::int64_t columns, Stream stream) {
    swiglu_forward(b.at<Bf16>(0, set), b.at<Bf16>(1, set), rows, columns, stream);
  };
  s.row = [](const Buffers& b, std::int64_t, std::int64_t columns, std::int64_t r, Difference& d) {
    Row right(static_cast<std::size_t>(columns));
    for (std::int64_t i = 0; i < columns; ++i)
      right[static_cast<std::size_t>(i)] =
          swiglu(b.value(1, 2 * r * columns + i), b.value(1, (2 * r + 1) * columns + i));
    compare(b, 0, r * columns, right, d);
  };
  return s;
}

Streaming swiglu_backward_case() {
  Streaming s;
  s.declare = [](Buffers& b, std::int64_t rows, std::int64_t columns) {
    b.output(Storage::bf16, 2 * rows * columns);
    b.input(Storage::bf16, rows * columns);
    b.input(Storage::bf16, 2 * rows * columns);
  };
  s.launch = [](const Buffers& b, int set, std::int64_t rows, std::int64_t columns, Stream stream) {
    swiglu_backward(b.at<Bf16>(0, set), b.at<Bf16>(1, set), b.at<Bf16>(2, set), rows, columns, stream);
  };
  s.row = [](const Buffers& b, std::int64_t, std::int64_t columns, std::int64_t r, Difference& d) {
    Row right(static_cast<std::size_t>(2 * columns));
    for (std::int64_t i = 0; i < columns; ++i) {
      const double gate = b.value(2, 2 * r * columns + i), up = b.value(2, (2 * r + 1) * columns + i);
      const double grad = b.value(1, r * columns + i);
      right[static_cast<std::size_t>(i)] = grad * swiglu_gate_slope(gate, up);
      right[static_cast<std::size_t>(columns + i)] = grad * gate * logistic(gate);
    }
    compare(b, 0, 2 * r * columns, right, d);
  };
  return s;
}

/// y, mask, x; with bias and residual where `residual`.
Streaming dropout_case(bool residual) {
  Streaming s;
  s.declare = [=](Buffers& b, std::int64_t rows, std::int64_t columns) {
    b.output(Storage::bf16, rows * columns);
    b.output(Storage::byte, rows * columns);
    b.input(Storage::bf16, rows * columns);
    if (residual) b.input(Storage::bf16, columns);
    if (residual) b.input(Storage::bf16, rows * columns);
  };
  s.launch = [=](const Buffers& b, int set, std::int64_t rows, std::int64_t columns, Stream stream) {
    auto *y = b.at<Bf16>(0, set), *x = b.at<Bf16>(2, set);
    auto* mask = b.at<std::uint8_t>(1, set);
    if (residual) {
      bias_dropout_residual(y, mask, x, b.at<Bf16>(3, set), b.at<Bf16>(4, set), rows, columns, stream);
    } else {
      dropout(y, mask, x, rows * columns, stream);
    }
  };
  s.row = [=](const Buffers& b, std::int64_t, std::int64_t columns, std::int64_t r, Difference& d) {
    Row right, mask;
    for (std::int64_t i = 0; i < columns; ++i) {
      const std::int64_t at = r * columns + i;
      const double keep = is_kept(at) ? 1 : 0;
      const double x = b.value(2, at) + (residual ? b.value(3, i) : 0);
      right.push_back(x * keep * kKeepScale + (residual ? b.value(4, at) : 0));
      mask.push_back(keep);
    }
    compare(b, 0, r * columns, right, d);
    compare(b, 1, r * columns, mask, d);
  };
  return s;
}

Streaming dropout_backward_case() {
  Streaming s;
  s.declare = [](Buffers& b, std::int64_t rows, std::int64_t columns) {
    b.output(Storage::bf16, rows * columns);
    b.input(Storage::bf16, rows * columns);
    b.input(Storage::byte, rows * columns, 1, Fill::byte_mask);
  };
  s.launch = [](const Buffers& b, int set, std::int64_t rows, std::int64_t columns, Stream stream) {
    dropout_backward(b.at<Bf16>(0, set), b.at<Bf16>(1, set), b.at<std::uint8_t>(2, set), rows * columns, stream);
  };
  s.row = [](const Buffers& b, std::int64_t, std::int64_t columns, std::int64_t r, Difference& d) {
    Row right;
    for (std::int64_t i = r * columns; i < (r + 1) * columns; ++i)
      right.push_back(b.value(1, i) * b.value(2, i) * kKeepScale);
    compare(b, 0, r * columns, right, d);
  };
  return s;
}

Streaming accumulate_case() {
  Streaming s;
  s.declare = [](Buffers& b, std::int64_t rows, std::int64_t columns) {
    b.input(Storage::fp32, rows * columns);  // added to, so not poisoned
    b.input(Storage::bf16, rows * columns);
  };
  s.launch = [](const Buffers& b, int set, std::int64_t rows, std::int64_t columns, Stream stream) {
    accumulate(b.at<float>(0, set), b.at<Bf16>(1, set), rows * columns, stream);
  };
  s.row = [](const Buffers& b, std::int64_t, std::int64_t columns, std::int64_t r, Difference& d) {
    Row right;
    for (std::int64_t i = r * columns; i < (r + 1) * columns; ++i) right.push_back(b.value(0, i) + b.value(1, i));
    compare(b, 0, r * columns, right, d);
  };
  return s;
}

/// parameter, momentum, variance (all updated in place), bf16 copy, gradient.
Streaming adam_case() {
  Streaming s;
  s.declare = [](Buffers& b, std::int64_t rows, std::int64_t columns) {
    const std::int64_t count = rows * columns;
    b.input(Storage::fp32, count);
    b.input(Storage::fp32, count);
    b.input(Storage::fp32, count, 1, Fill::square);
    b.output(Storage::bf16, count);
    b.input(Storage::fp32, count);
  };
  s.launch = [](const Buffers& b, int set, std::int64_t rows, std::int64_t columns, Stream stream) {
    adam(b.at<float>(0, set), b.at<float>(1, set), b.at<float>(2, set), b.at<Bf16>(3, set), b.at<float>(4, set),
         rows * columns, stream);
  };
  s.row = [](const Buffers& b, std::int64_t, std::int64_t columns, std::int64_t r, Difference& d) {
    Row p, m, v;
    for (std::int64_t i = r * columns; i < (r + 1) * columns; ++i) {
      AdamState<double> state{b.value(0, i), b.value(1, i), b.value(2, i)};
      const double u = adam_direction(state, b.value(4, i), AdamRates{});
      p.push_back(state.parameter - AdamRates{}.rate * u);
      m.push_back(state.momentum);
      v.push_back(state.variance);
    }
    compare(b, 0, r * columns, p, d);
    compare(b, 1, r * columns, m, d);
    compare(b, 2, r * columns, v, d);
    compare(b, 3, r * columns, p, d);
  };
  return s;
}

/// parameter, momentum, variance, direction, bf16 copy, sums, gradient.
Streaming lamb_case() {
  Streaming s;
  s.whole = true;
  s.declare = [](Buffers& b, std::int64_t rows, std::int64_t columns) {
    const std::int64_t count = rows * columns;
    b.input(Storage::fp32, count);
    b.input(Storage::fp32, count);
    b.input(Storage::fp32, count, 1, Fill::square);
    b.scratch(Storage::fp32, count);
    b.output(Storage::bf16, count);
    b.scratch(Storage::fp32, 2);
    b.input(Storage::fp32, count);
  };
  s.launch = [](const Buffers& b, int set, std::int64_t rows, std::int64_t columns, Stream stream) {
    lamb(b.at<float>(0, set), b.at<float>(1, set), b.at<float>(2, set), b.at<float>(3, set), b.at<Bf16>(4, set),
         b.at<float>(5, set), b.at<float>(6, set), rows * columns, stream);
  };
  s.row = [](const Buffers& b, std::int64_t rows, std::int64_t columns, std::int64_t r, Difference& d) {
    double of_parameter = 0, of_direction = 0;
    Row direction, right;
    for (std::int64_t i = 0; i < rows * columns; ++i) {
      AdamState<double> state{b.value(0, i), b.value(1, i), b.value(2, i)};
      const double u = adam_direction(state, b.value(6, i), AdamRates{});
      of_parameter += state.parameter * state.parameter;
      of_direction += u * u;
      if (i / columns == r) direction.push_back(u);
    }
    const double rate = AdamRates{}.rate * std::sqrt(of_parameter / of_direction);
    for (std::int64_t i = 0; i < columns; ++i)
      right.push_back(b.value(0, r * columns + i) - rate * direction[static_cast<std::size_t>(i)]);
    compare(b, 0, r * columns, right, d);
    compare(b, 3, r * columns, direction, d);
  };
  return s;
}

Streaming gradient_norm_case() {
  Streaming s;
  s.whole = true;
  s.declare = [](Buffers& b, std::int64_t rows, std::int64_t columns) {
    b.output(Storage::fp32, 1);
    b.input(Storage::fp32, rows * columns);
  };
  s.launch = [](const Buffers& b, int set, std::int64_t rows, std::int64_t columns, Stream stream) {
    gradient_norm(b.at<float>(0, set), b.at<float>(1, set), rows * columns, stream);
  };
  s.row = [](const Buffers& b, std::int64_t rows, std::int64_t columns, std::int64_t, Difference& d) {
    double sum = 0;
    for (std::int64_t i = 0; i < rows * columns; ++i) sum += b.value(1, i) * b.value(1, i);
    compare(b, 0, 0, {sum}, d);
  };
  return s;
}

/// out, transposed, largest, x.
Streaming cast_transpose_case() {
  Streaming s;
  s.multiple = 64;
  s.declare = [](Buffers& b, std::int64_t rows, std::int64_t columns) {
    b.output(Storage::e4m3, rows * columns);
    b.output(Storage::e4m3, rows * columns);
    b.output(Storage::fp32, 1);
    b.input(Storage::bf16, rows * columns);
  };
  s.launch = [](const Buffers& b, int set, std::int64_t rows, std::int64_t columns, Stream stream) {
    cast_transpose(b.at<std::uint8_t>(0, set), b.at<std::uint8_t>(1, set), b.at<float>(2, set), b.at<Bf16>(3, set),
                   static_cast<float>(kCastScale), rows, columns, stream);
  };
  s.row = [](const Buffers& b, std::int64_t rows, std::int64_t columns, std::int64_t r, Difference& d) {
    Row right = inputs(b, 3, r * columns, columns);
    for (double& v : right) v = static_cast<double>(from_e4m3(to_e4m3(static_cast<float>(v * kCastScale))));
    compare(b, 0, r * columns, right, d);
    // Column r of the transposed copy is row r of the input.
    const Row transposed = b.read_column(1, columns, rows, r);
    for (std::size_t i = 0; i < right.size(); ++i) d.add(transposed[i], right[i]);
  };
  return s;
}

}  // namespace orrery::calibration::gpu
