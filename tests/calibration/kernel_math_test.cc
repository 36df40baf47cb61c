// Is the arithmetic of the GPU kernels right? It is shared with the host, so that it can be asked here.
#include <cmath>
#include <cstdint>
#include <vector>

#include "calibration/kernels/rows.h"
#include "calibration/kernels/values.h"
#include "tests/catch.h"

using namespace orrery::calibration::gpu;

namespace {

/// Checks that `encode` picks the nearest of all numbers of a format, the even one of two.
template <class Encode, class Decode>
void check_rounding(unsigned codes, double largest, const Encode& encode, const Decode& decode) {
  std::vector<double> numbers;  // of the positive half, in order
  for (unsigned c = 0; c < codes && static_cast<double>(decode(c)) <= largest; ++c)
    numbers.push_back(static_cast<double>(decode(c)));
  REQUIRE(numbers.size() > 100);
  for (std::size_t i = 0; i + 1 < numbers.size(); ++i) {
    REQUIRE(numbers[i] < numbers[i + 1]);
    const double middle = (numbers[i] + numbers[i + 1]) / 2, step = numbers[i + 1] - numbers[i];
    CHECK(encode(static_cast<float>(numbers[i])) == i);
    CHECK(encode(static_cast<float>(middle - 0.25 * step)) == i);
    CHECK(encode(static_cast<float>(middle + 0.25 * step)) == i + 1);
    CHECK(encode(static_cast<float>(middle)) == (i % 2 == 0 ? i : i + 1));
    CHECK(encode(static_cast<float>(-numbers[i + 1])) == codes + i + 1);
  }
  CHECK(encode(1e30f) == numbers.size() - 1);  // saturates
}

template <class F>
double slope(const F& f, double x) {
  const double h = 1e-5;
  return (f(x + h) - f(x - h)) / (2 * h);
}

}  // namespace

TEST_CASE("narrow formats round to nearest even and saturate") {
  check_rounding(
      128, 448, [](float v) { return unsigned{to_e4m3(v)}; },
      [](unsigned c) { return from_e4m3(static_cast<std::uint8_t>(c)); });
  check_rounding(
      128, 57344, [](float v) { return unsigned{to_e5m2(v)}; },
      [](unsigned c) { return from_e5m2(static_cast<std::uint8_t>(c)); });
  check_rounding(
      32768, 65504, [](float v) { return unsigned{to_fp16(v)}; },
      [](unsigned c) { return from_fp16(static_cast<std::uint16_t>(c)); });
  // The formats' own corners (arXiv 2209.05433, table 1).
  CHECK(from_e4m3(0x7e) == 448);
  CHECK(from_e4m3(0x01) == std::ldexp(1.0f, -9));
  CHECK(from_e5m2(0x7b) == 57344);
  CHECK(from_fp16(0x3c00) == 1);
  // bf16: the upper half of a float; 1 + 2^-8 lies between 1 and 1 + 2^-7 and goes to the even one.
  CHECK(to_bf16(1.0f) == 0x3f80);
  CHECK(to_bf16(1.00390625f) == 0x3f80);
  CHECK(to_bf16(1.01171875f) == 0x3f82);
  CHECK(from_bf16(to_bf16(-3.0f)) == -3);
}

TEST_CASE("random inputs are about normal, and different for every seed and place") {
  double sum = 0, squares = 0, product = 0;
  const int count = 200000;
  for (int i = 0; i < count; ++i) {
    const double a = static_cast<double>(normal_at(1, static_cast<std::uint64_t>(i)));
    const double b = static_cast<double>(normal_at(2, static_cast<std::uint64_t>(i)));
    sum += a;
    squares += a * a;
    product += a * b;
    REQUIRE(std::abs(a) < 3.5);
  }
  // Standard errors: 1 / sqrt(count) = 0.0022; five of them.
  CHECK(std::abs(sum / count) < 0.012);
  CHECK(squares / count == Approx(1).epsilon(0.012));
  CHECK(std::abs(product / count) < 0.012);
}

TEST_CASE("slopes are the derivatives of their functions, and float agrees with double") {
  for (double x = -4; x <= 4; x += 0.37) {
    INFO(x);
    CHECK(gelu_slope(x) == Approx(slope([](double v) { return gelu(v); }, x)).margin(1e-8));
    for (const double up : {-1.5, 0.2, 2.0}) {
      CHECK(swiglu_gate_slope(x, up) == Approx(slope([&](double v) { return swiglu(v, up); }, x)).margin(1e-8));
      CHECK(x * logistic(x) == Approx(slope([&](double v) { return swiglu(x, v); }, up)).margin(1e-8));
    }
    const auto f = static_cast<float>(x);
    CHECK(static_cast<double>(gelu(f)) == Approx(gelu(x)).margin(1e-5));
    CHECK(static_cast<double>(gelu_slope(f)) == Approx(gelu_slope(x)).margin(1e-5));
    CHECK(static_cast<double>(swiglu(f, 0.5f)) == Approx(swiglu(x, 0.5)).margin(1e-5));
  }
  // GeLU is x times the normal distribution's integral, to the third digit in its tanh form.
  for (const double x : {-2.0, -0.5, 0.7, 1.9})
    CHECK(gelu(x) == Approx(x * 0.5 * std::erfc(-x / std::sqrt(2))).margin(1e-3));
}

TEST_CASE("the first step of Adam goes against the sign of the gradient, whatever its size") {
  AdamRates rates;
  rates.decay = 0;
  for (const double gradient : {1e-3, -5.0}) {
    AdamState<double> s{0.3, 0, 0};
    // Corrected momentum is the gradient, corrected variance its square: the direction is its sign.
    CHECK(adam_direction(s, gradient, rates) == Approx(gradient > 0 ? 1 : -1).epsilon(1e-4));
    CHECK(s.momentum == Approx((1 - rates.first) * gradient));
    CHECK(s.variance == Approx((1 - rates.second) * gradient * gradient));
  }
  rates.decay = 0.1;
  AdamState<double> still{2, 0, 0};
  CHECK(adam_direction(still, 0.0, rates) == Approx(0.2));  // decay alone
}

TEST_CASE("dropout keeps nine of ten elements and scales them so that the mean stays") {
  int count = 0;
  for (std::uint64_t vector = 0; vector < 20000; ++vector)
    for (unsigned i = 0; i < 8; ++i) count += kept(bits_at(kDropoutSeed, vector), i) ? 1 : 0;
  // 160000 draws: a standard error of 0.00075.
  CHECK(count / 160000.0 * kKeepScale == Approx(1).epsilon(0.005));
}
