// What a device draws, and the clock that its limit leaves, against arithmetic by hand and laws.
#include "calibration/power.h"

#include <cmath>

#include "calibration/profile_model.h"
#include "tests/calibration/support.h"
#include "tests/catch.h"

namespace {

using namespace orrery::calibration;
using namespace orrery::calibration_test;
using orrery::sim::to_seconds;

std::size_t index(DataType type) { return static_cast<std::size_t>(type); }

/// 100 W standing, 50 W active, 1 pJ a FLOP, 100 pJ a byte.
PowerModel device(double limit) {
  PowerModel power;
  power.limit = limit;
  power.standing = 100;
  power.active = 50;
  power.per_flop[index(DataType::bf16)] = 1e-12;
  power.per_byte = 100e-12;
  return power;
}

/// A second of products at 500 TFLOP/s.
Duty products() {
  Duty duty;
  duty.clocked = 1;
  duty.flops[index(DataType::bf16)] = 500e12;
  return duty;
}

}  // namespace

TEST_CASE("energy is the sum of what stands, runs, multiplies and moves") {
  Duty duty = products();
  duty.streaming = 1;
  duty.waiting = 2;
  duty.bytes = 1e12;
  // Four seconds of 100 W, two of 50 W, 500 J of products, 100 J of memory.
  CHECK(joules_at(device(1000), duty, 1) == Approx(400 + 100 + 500 + 100));
  // At half the clock the second of products takes two: five seconds stand, three run at 50/8 W, products take a
  // quarter, memory the same.
  CHECK(joules_at(device(1000), duty, 0.5) == Approx(500 + 3 * 50 / 8.0 + 125 + 100));
  CHECK(seconds_at(duty, 0.5) == Approx(5));
}

TEST_CASE("products alone leave the cube root of the power that is left for switching") {
  // 100 + (50 + 500) f^3 = 400.
  CHECK(clock_within_limit(device(400), products()) == Approx(std::cbrt(300.0 / 550.0)).epsilon(1e-9));
}

TEST_CASE("a limit that is not reached, or not known, leaves the full clock") {
  CHECK(clock_within_limit(device(651), products()) == 1);
  CHECK(clock_within_limit(device(0), products()) == 1);
  CHECK(clock_within_limit(device(400), Duty{}) == 1);
  // No clock is low enough for a limit below what stands.
  CHECK(clock_within_limit(device(90), products()) == Approx(kLowestClock));
}

TEST_CASE("more of what draws less leaves a higher clock, a lower limit a lower one") {
  double before = 0;
  for (const double waiting : {0.0, 0.1, 0.3, 1.0}) {
    Duty duty = products();
    duty.waiting = waiting;
    const double clock = clock_within_limit(device(400), duty);
    CHECK(clock > before);
    before = clock;
  }
  before = 0;
  for (const double limit : {250.0, 350.0, 500.0, 600.0}) {
    const double clock = clock_within_limit(device(limit), products());
    CHECK(clock > before);
    before = clock;
  }
}

TEST_CASE("at a lower clock products and attention take as much longer, kernels bound by memory do not") {
  const DeviceProfile full = profile("h100-sxm-80gb"), slow = full.at_clock(0.8);
  Gemm g;
  g.m = g.n = g.k = 8192;
  const double launch = full.model().gemm[index(DataType::bf16)].launch;
  CHECK(to_seconds(slow.gemm(g)) - launch == Approx((to_seconds(full.gemm(g)) - launch) / 0.8).epsilon(1e-6));
  Attention a;
  a.queries = a.keys = 8192;
  a.heads = a.kv_heads = 32;
  a.head_dim = 128;
  for (const AttentionKernel kernel :
       {AttentionKernel::fused, AttentionKernel::flash_1, AttentionKernel::flash_2, AttentionKernel::fused_fp8}) {
    a.kernel = kernel;
    CHECK(to_seconds(slow.attention(a)) / to_seconds(full.attention(a)) == Approx(1.25).epsilon(0.01));
  }
  CHECK(slow.streaming(Streaming::gelu, 1e9) == full.streaming(Streaming::gelu, 1e9));
}

TEST_CASE("attention in fp8 on a B200 runs at cuDNN's published rates") {
  // Causal, 128 heads of 128 channels over 8, one sequence, TFLOP/s of cuDNN 9.10 (NVIDIA/cudnn-frontend,
  // benchmark/sdpa_benchmark_training/artifacts, sdpa_fp8_benchmark_results_NVIDIA_B200.csv).
  struct Point {
    std::int64_t seq;
    double forward, backward;
  };
  const DeviceProfile device = profile("b200-sxm-180gb");
  REQUIRE(device.has(AttentionKernel::fused_fp8));
  CHECK(!profile("h100-sxm-80gb").has(AttentionKernel::fused_fp8));
  for (const Point& p : {Point{8192, 1370, 1214}, Point{16384, 1560, 1435}, Point{32768, 1651, 1561},
                         Point{65536, 1690, 1610}, Point{131072, 1705, 1602}}) {
    Attention a;
    a.queries = a.keys = p.seq;
    a.heads = 128;
    a.kv_heads = 8;
    a.head_dim = 128;
    a.kernel = AttentionKernel::fused_fp8;
    const double flops = 2.0 * 128 * 128 * static_cast<double>(p.seq) * static_cast<double>(p.seq);
    INFO(p.seq);
    CHECK(flops / to_seconds(device.attention(a)) / 1e12 == Approx(p.forward).epsilon(0.08));
    a.backward = true;
    CHECK(2.5 * flops / to_seconds(device.attention(a)) / 1e12 == Approx(p.backward).epsilon(0.1));
    const auto in_fp8 = device.attention(a);
    a.kernel = AttentionKernel::fused;
    CHECK(in_fp8 < device.attention(a));
  }
}

TEST_CASE("FlashAttention 2 on an H100 runs at the rates of FlashAttention-3's figures 5 and 6") {
  // Causal forward passes of 16384 tokens in all (below 2048, where a task's setup counts, they are up to 12 % slow
  // here) and a hidden size of 2048, TFLOP/s by sequence (arXiv 2407.08608).
  struct Point {
    std::int64_t seq, dim;
    double rate;
  };
  const DeviceProfile device = profile("h100-sxm-80gb");
  for (const Point& p : {Point{2048, 128, 298}, Point{4096, 128, 319}, Point{8192, 128, 333}, Point{16384, 128, 335},
                         Point{2048, 64, 262}, Point{4096, 64, 284}, Point{16384, 64, 299}}) {
    Attention a;
    a.queries = a.keys = p.seq;
    a.batch = 16384 / p.seq;
    a.heads = a.kv_heads = 2048 / p.dim;
    a.head_dim = p.dim;
    a.kernel = AttentionKernel::flash_2;
    const double flops = 2.0 * 16384 * static_cast<double>(p.seq) * 2048;
    INFO(p.seq << " x " << p.dim);
    CHECK(flops / to_seconds(device.attention(a)) / 1e12 == Approx(p.rate).epsilon(0.08));
  }
  // Backward, not causal.
  for (const Point& p : {Point{2048, 128, 291}, Point{8192, 128, 318}, Point{4096, 64, 279}, Point{16384, 64, 291}}) {
    Attention a;
    a.queries = a.keys = p.seq;
    a.batch = 16384 / p.seq;
    a.heads = a.kv_heads = 2048 / p.dim;
    a.head_dim = p.dim;
    a.causal = false;
    a.backward = true;
    a.kernel = AttentionKernel::flash_2;
    const double flops = 2.5 * 4.0 * 16384 * static_cast<double>(p.seq) * 2048;
    INFO(p.seq << " x " << p.dim << ", backward");
    CHECK(flops / to_seconds(device.attention(a)) / 1e12 == Approx(p.rate).epsilon(0.08));
  }
}
