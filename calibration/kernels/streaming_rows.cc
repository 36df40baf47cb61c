// Cases of the kernels that reduce over rows, norms, softmax and cross entropy, and of the embedding.
#include <algorithm>
#include <cmath>

#include "calibration/kernels/rows.h"
#include "calibration/kernels/streaming.h"

namespace orrery::calibration::gpu {
namespace {

constexpr double kSoftmaxScale = 0.5, kLossScale = 0.25;
constexpr std::int64_t kTableRows = 51200;  // a vocabulary

double log_sum_of(const Row& logits) {
  double sum = 0;
  for (const double v : logits) sum += std::exp(v);  // at most e^4 each
  return std::log(sum);
}

}  // namespace

/// y, mean, inverse, x, gain, bias.
Streaming norm_forward_case(bool centred) {
  Streaming s;
  s.longest = kLongestRow;
  s.declare = [=](Buffers& b, std::int64_t rows, std::int64_t columns) {
    b.output(Storage::bf16, rows * columns);
    centred ? b.output(Storage::fp32, rows) : b.scratch(Storage::fp32, 1);
    b.output(Storage::fp32, rows);
    b.input(Storage::bf16, rows * columns);
    b.input(Storage::bf16, columns);
    b.input(Storage::bf16, columns);
  };
  s.launch = [=](const Buffers& b, int set, std::int64_t rows, std::int64_t columns, Stream stream) {
    norm_forward(b.at<Bf16>(0, set), centred ? b.at<float>(1, set) : nullptr, b.at<float>(2, set), b.at<Bf16>(3, set),
                 b.at<Bf16>(4, set), b.at<Bf16>(5, set), rows, columns, stream);
  };
  s.row = [=](const Buffers& b, std::int64_t, std::int64_t columns, std::int64_t r, Difference& d) {
    Row x = inputs(b, 3, r * columns, columns);
    const auto count = static_cast<double>(columns);
    double mean = 0, squares = 0;
    if (centred)
      for (const double v : x) mean += v / count;
    for (const double v : x) squares += (v - mean) * (v - mean);
    const double inverse = 1 / std::sqrt(squares / count + kNormEpsilon);
    for (std::int64_t i = 0; i < columns; ++i) {
      double& v = x[static_cast<std::size_t>(i)];
      v = (v - mean) * inverse * b.value(4, i) + (centred ? b.value(5, i) : 0);
    }
    compare(b, 0, r * columns, x, d);
    if (centred) compare(b, 1, r, {mean}, d);
    compare(b, 2, r, {inverse}, d);
  };
  return s;
}

/// dx, dgain, dbias, partial, dy, x, gain, mean, inverse. Mean and inverse are any numbers: the formula holds for all.
Streaming norm_backward_case(bool centred) {
  Streaming s;
  s.longest = kLongestRow;
  s.declare = [=](Buffers& b, std::int64_t rows, std::int64_t columns) {
    b.output(Storage::bf16, rows * columns);
    b.output(Storage::fp32, columns);
    centred ? b.output(Storage::fp32, columns) : b.scratch(Storage::fp32, 1);
    b.scratch(Storage::fp32, norm_partial_floats(columns));
    b.input(Storage::bf16, rows * columns);
    b.input(Storage::bf16, rows * columns);
    b.input(Storage::bf16, columns);
    b.input(Storage::fp32, rows, 0.1);
    b.input(Storage::fp32, rows, 1, Fill::square);
  };
  s.launch = [=](const Buffers& b, int set, std::int64_t rows, std::int64_t columns, Stream stream) {
    norm_backward(b.at<Bf16>(0, set), b.at<float>(1, set), centred ? b.at<float>(2, set) : nullptr, b.at<float>(3, set),
                  b.at<Bf16>(4, set), b.at<Bf16>(5, set), b.at<Bf16>(6, set), centred ? b.at<float>(7, set) : nullptr,
                  b.at<float>(8, set), rows, columns, stream);
  };
  const auto normal = [=](const Buffers& b, std::int64_t columns, std::int64_t r, std::int64_t i) {
    return (b.value(5, r * columns + i) - (centred ? b.value(7, r) : 0)) * b.value(8, r);
  };
  s.row = [=](const Buffers& b, std::int64_t, std::int64_t columns, std::int64_t r, Difference& d) {
    Row scaled, normals, right;
    double mean = 0, product = 0;
    for (std::int64_t i = 0; i < columns; ++i) {
      scaled.push_back(b.value(4, r * columns + i) * b.value(6, i));
      normals.push_back(normal(b, columns, r, i));
      if (centred) mean += scaled.back() / static_cast<double>(columns);
      product += scaled.back() * normals.back() / static_cast<double>(columns);
    }
    for (std::size_t i = 0; i < scaled.size(); ++i)
      right.push_back(b.value(8, r) * (scaled[i] - mean - normals[i] * product));
    compare(b, 0, r * columns, right, d);
  };
  s.column = [=](const Buffers& b, std::int64_t rows, std::int64_t columns, std::int64_t c, Difference& d) {
    double gain = 0, bias = 0;
    for (std::int64_t r = 0; r < rows; ++r) {
      const double dy = b.value(4, r * columns + c);
      gain += dy * normal(b, columns, r, c);
      bias += dy;
    }
    compare(b, 1, c, {gain}, d);
    if (centred) compare(b, 2, c, {bias}, d);
  };
  return s;
}

Streaming softmax_case() {
  Streaming s = elementwise(1, nullptr, nullptr);
  s.longest = kLongestRow;
  s.launch = [](const Buffers& b, int set, std::int64_t rows, std::int64_t columns, Stream stream) {
    softmax_forward(b.at<Bf16>(0, set), b.at<Bf16>(1, set), static_cast<float>(kSoftmaxScale), rows, columns, stream);
  };
  s.row = [](const Buffers& b, std::int64_t, std::int64_t columns, std::int64_t r, Difference& d) {
    Row y = inputs(b, 1, r * columns, columns);
    double sum = 0;
    for (std::int64_t i = 0; i < columns; ++i) {
      double& v = y[static_cast<std::size_t>(i)];
      v = i <= r % columns ? std::exp(v * kSoftmaxScale) : 0;
      sum += v;
    }
    for (double& v : y) v /= sum;
    compare(b, 0, r * columns, y, d);
  };
  return s;
}

Streaming softmax_backward_case() {
  Streaming s = elementwise(2, nullptr, nullptr);
  s.longest = kLongestRow;
  s.launch = [](const Buffers& b, int set, std::int64_t rows, std::int64_t columns, Stream stream) {
    softmax_backward(b.at<Bf16>(0, set), b.at<Bf16>(1, set), b.at<Bf16>(2, set), static_cast<float>(kSoftmaxScale),
                     rows, columns, stream);
  };
  s.row = [](const Buffers& b, std::int64_t, std::int64_t columns, std::int64_t r, Difference& d) {
    Row dy = inputs(b, 1, r * columns, columns);
    const Row y = inputs(b, 2, r * columns, columns);
    double sum = 0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += dy[i] * y[i];
    for (std::size_t i = 0; i < y.size(); ++i) dy[i] = kSoftmaxScale * y[i] * (dy[i] - sum);
    compare(b, 0, r * columns, dy, d);
  };
  return s;
}

/// loss, log_sum, logits, target.
Streaming cross_entropy_case() {
  Streaming s;
  s.declare = [](Buffers& b, std::int64_t rows, std::int64_t columns) {
    b.output(Storage::fp32, rows);
    b.output(Storage::fp32, rows);
    b.input(Storage::bf16, rows * columns);
    b.input(Storage::int32, rows, static_cast<double>(columns), Fill::index);
  };
  s.launch = [](const Buffers& b, int set, std::int64_t rows, std::int64_t columns, Stream stream) {
    cross_entropy_forward(b.at<float>(0, set), b.at<float>(1, set), b.at<Bf16>(2, set), b.at<std::int32_t>(3, set),
                          rows, columns, stream);
  };
  s.row = [](const Buffers& b, std::int64_t, std::int64_t columns, std::int64_t r, Difference& d) {
    const Row logits = inputs(b, 2, r * columns, columns);
    const double total = log_sum_of(logits);
    compare(b, 0, r, {total - logits[static_cast<std::size_t>(b.value(3, r))]}, d);
    compare(b, 1, r, {total}, d);
  };
  return s;
}

/// dlogits, logits, log_sum, target. The logarithm is near 1, not of these logits: the formula holds for any.
Streaming cross_entropy_backward_case() {
  Streaming s;
  s.declare = [](Buffers& b, std::int64_t rows, std::int64_t columns) {
    b.output(Storage::bf16, rows * columns);
    b.input(Storage::bf16, rows * columns);
    b.input(Storage::fp32, rows);
    b.input(Storage::int32, rows, static_cast<double>(columns), Fill::index);
  };
  s.launch = [](const Buffers& b, int set, std::int64_t rows, std::int64_t columns, Stream stream) {
    cross_entropy_backward(b.at<Bf16>(0, set), b.at<Bf16>(1, set), b.at<float>(2, set), b.at<std::int32_t>(3, set),
                           static_cast<float>(kLossScale), rows, columns, stream);
  };
  s.row = [](const Buffers& b, std::int64_t, std::int64_t columns, std::int64_t r, Difference& d) {
    Row right = inputs(b, 1, r * columns, columns);
    for (double& v : right) v = kLossScale * std::exp(v - b.value(2, r));
    right[static_cast<std::size_t>(b.value(3, r))] -= kLossScale;
    compare(b, 0, r * columns, right, d);
  };
  return s;
}

/// y, x, token: rows in the order of their experts, kChosen for each token on average.
Streaming permute_case() {
  Streaming s;
  const auto tokens = [](std::int64_t rows) { return std::max<std::int64_t>(1, rows / kChosen); };
  s.declare = [=](Buffers& b, std::int64_t rows, std::int64_t columns) {
    b.output(Storage::bf16, rows * columns);
    b.input(Storage::bf16, tokens(rows) * columns);
    b.input(Storage::int32, rows, static_cast<double>(tokens(rows)), Fill::index);
  };
  s.launch = [](const Buffers& b, int set, std::int64_t rows, std::int64_t columns, Stream stream) {
    embedding_forward(b.at<Bf16>(0, set), b.at<Bf16>(1, set), b.at<std::int32_t>(2, set), rows, columns, stream);
  };
  s.row = [](const Buffers& b, std::int64_t, std::int64_t columns, std::int64_t r, Difference& d) {
    compare(b, 0, r * columns, inputs(b, 1, static_cast<std::int64_t>(b.value(2, r)) * columns, columns), d);
  };
  return s;
}

/// y, x, row, weight: a token is the sum of kChosen rows.
Streaming unpermute_case() {
  Streaming s;
  s.declare = [](Buffers& b, std::int64_t tokens, std::int64_t columns) {
    b.output(Storage::bf16, tokens * columns);
    b.input(Storage::bf16, tokens * kChosen * columns);
    b.input(Storage::int32, tokens * kChosen, static_cast<double>(tokens * kChosen), Fill::index);
    b.input(Storage::fp32, tokens * kChosen);
  };
  s.launch = [](const Buffers& b, int set, std::int64_t tokens, std::int64_t columns, Stream stream) {
    unpermute(b.at<Bf16>(0, set), b.at<Bf16>(1, set), b.at<std::int32_t>(2, set), b.at<float>(3, set), tokens, columns,
              stream);
  };
  s.row = [](const Buffers& b, std::int64_t, std::int64_t columns, std::int64_t r, Difference& d) {
    Row right(static_cast<std::size_t>(columns), 0.0);
    for (std::int64_t i = r * kChosen; i < (r + 1) * kChosen; ++i) {
      const Row x = inputs(b, 1, static_cast<std::int64_t>(b.value(2, i)) * columns, columns);
      for (std::size_t c = 0; c < right.size(); ++c) right[c] += b.value(3, i) * x[c];
    }
    compare(b, 0, r * columns, right, d);
  };
  return s;
}

Streaming embedding_case() {
  Streaming s;
  s.declare = [](Buffers& b, std::int64_t rows, std::int64_t columns) {
    b.output(Storage::bf16, rows * columns);
    b.input(Storage::bf16, kTableRows * columns);
    b.input(Storage::int32, rows, static_cast<double>(kTableRows), Fill::index);
  };
  s.launch = [](const Buffers& b, int set, std::int64_t rows, std::int64_t columns, Stream stream) {
    embedding_forward(b.at<Bf16>(0, set), b.at<Bf16>(1, set), b.at<std::int32_t>(2, set), rows, columns, stream);
  };
  s.row = [](const Buffers& b, std::int64_t, std::int64_t columns, std::int64_t r, Difference& d) {
    compare(b, 0, r * columns, inputs(b, 1, static_cast<std::int64_t>(b.value(2, r)) * columns, columns), d);
  };
  return s;
}

Streaming embedding_backward_case() {
  Streaming s;
  s.declare = [](Buffers& b, std::int64_t rows, std::int64_t columns) {
    b.input(Storage::fp32, kTableRows * columns);  // added to
    b.input(Storage::bf16, rows * columns);
    b.input(Storage::int32, rows, static_cast<double>(kTableRows), Fill::index);
  };
  s.launch = [](const Buffers& b, int set, std::int64_t rows, std::int64_t columns, Stream stream) {
    embedding_backward(b.at<float>(0, set), b.at<Bf16>(1, set), b.at<std::int32_t>(2, set), rows, columns, stream);
  };
  s.row = [](const Buffers& b, std::int64_t rows, std::int64_t columns, std::int64_t r, Difference& d) {
    const auto token = static_cast<std::int64_t>(b.value(2, r));
    Row right = inputs(b, 0, token * columns, columns);
    for (std::int64_t other = 0; other < rows; ++other) {
      if (static_cast<std::int64_t>(b.value(2, other)) != token) continue;
      for (std::int64_t i = 0; i < columns; ++i) right[static_cast<std::size_t>(i)] += b.value(1, other * columns + i);
    }
    compare(b, 0, token * columns, right, d);
  };
  return s;
}

}  // namespace orrery::calibration::gpu
