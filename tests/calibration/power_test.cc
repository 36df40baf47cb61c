// What a device draws, and the clock that its limit leaves, against arithmetic by hand and laws.
#include "calibration/device/power.h"

#include <cmath>

#include "calibration/device/profile_model.h"
#include "calibration/measure/fit.h"
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
  duty.products = 1;
  duty.flops[index(DataType::bf16)] = 500e12;
  return duty;
}

}  // namespace

TEST_CASE("energy is the sum of what stands, runs, multiplies and moves") {
  Duty duty = products();
  duty.streaming = 1;
  duty.exchanges = 2;
  duty.bytes = 1e12;
  // Four seconds of 100 W, two of 50 W, 500 J of products, 100 J of memory.
  CHECK(joules_at(device(1000), duty, 1) == Approx(400 + 100 + 500 + 100));
  // At half the clock the second of products takes two: five seconds stand, three run at 50/8 W, products take a
  // quarter, memory the same.
  CHECK(joules_at(device(1000), duty, 0.5) == Approx(500 + 3 * 50 / 8.0 + 125 + 100));
  CHECK(seconds_at(device(1000), duty, 0.5) == Approx(5));
}

TEST_CASE("kernels that go by elements take power as those of memory do and time as attention does") {
  Duty elements, streaming;
  elements.elements = streaming.streaming = 1;
  elements.bytes = streaming.bytes = 1e12;
  CHECK(joules_at(device(1000), elements, 1) == Approx(joules_at(device(1000), streaming, 1)));
  CHECK(seconds_at(device(1000), elements, 0.5) == Approx(2));
  CHECK(seconds_at(device(1000), streaming, 0.5) == Approx(1));
  // Two seconds of 100 W and of 50/8 W, 100 J of memory.
  CHECK(joules_at(device(1000), elements, 0.5) == Approx(200 + 2 * 50 / 8.0 + 100));
}

TEST_CASE("a collective that kernels wait for draws the share of its processors, at any clock for as long") {
  Duty duty = products();
  duty.exchanges = 2;
  PowerModel power = device(1000);
  const double none = joules_at(power, duty, 1), none_at_half = joules_at(power, duty, 0.5);
  power.exchange = 0.2;
  // Two seconds of a fifth of 50 W, and of an eighth of that.
  CHECK(joules_at(power, duty, 1) - none == Approx(20));
  CHECK(joules_at(power, duty, 0.5) - none_at_half == Approx(20 / 8.0));
  CHECK(seconds_at(power, duty, 0.5) == Approx(4));
  // The limit leaves less than where a device only stands meanwhile.
  power.limit = 250;
  PowerModel stands = power;
  stands.exchange = 0;
  CHECK(clock_within_limit(power, duty) < clock_within_limit(stands, duty));
  CHECK(profile("h100-sxm-80gb").power().exchange == Approx(24 / 132.0));
  CHECK(profile("a100-sxm-80gb").power().exchange == Approx(24 / 108.0));
}

TEST_CASE("what is sent to other devices is read, moved and written at the same price at any clock") {
  PowerModel power = device(1000);
  power.per_link_byte = 80e-12;
  Duty duty = products(), sends = products();
  sends.sent = 0.1e12;
  // 8 J on the link, 10 J to read and 10 J to write as many.
  for (const double clock : {1.0, 0.5})
    CHECK(joules_at(power, sends, clock) - joules_at(power, duty, clock) == Approx(8 + 2 * 10));
  // A second of products takes 1 / f: 100 + (50 + 500) f^3 + 28 f = 400.
  power.limit = 400;
  const double clock = clock_within_limit(power, sends);
  CHECK(100 + 550 * std::pow(clock, 3) + 28 * clock == Approx(400).epsilon(1e-9));
  CHECK(clock < clock_within_limit(power, duty));
}

TEST_CASE("products alone on an H100 of 500 W run at the rates that were measured there") {
  // TFLOP/s in bf16 (pytorch/FBGEMM#2546 of April 2024, "H100 500W"): energies were fitted to steps, not to these. As
  // far off as the profile says that products are, nine times of ten.
  struct Point {
    std::int64_t m, n, k;
    double rate;
  };
  const DeviceProfile full = profile("h100-hbm2e-96gb");
  for (const Point& p :
       {Point{8192, 8192, 8192, 585.2}, Point{65536, 8192, 7168, 575.1}, Point{65536, 3584, 8192, 546.3}}) {
    Gemm g;
    g.m = p.m;
    g.n = p.n;
    g.k = p.k;
    const double flops = 2.0 * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k);
    Duty duty;
    duty.products = to_seconds(full.gemm(g));
    duty.flops[index(DataType::bf16)] = flops;
    const double clock = clock_within_limit(full.power(), duty);
    INFO(p.m << " x " << p.n << " x " << p.k << " at " << clock);
    CHECK(clock < 0.85);
    CHECK(flops / to_seconds(full.at_clock(clock).gemm(g)) / 1e12 == Approx(p.rate).epsilon(0.08));
  }
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
    duty.exchanges = waiting;
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

TEST_CASE("products that use a share of the clock run at full speed down to it, and power follows speeds") {
  PowerModel power = device(1000);
  power.product_clock = 0.8;
  power.exponent = 2;
  power.attention = 1.5;
  Duty duty = products();
  duty.attention = 1;
  duty.attention_flops[index(DataType::bf16)] = 200e12;
  duty.streaming = 1;
  // At 0.9 of the clock products lose nothing, attention takes 1 / 0.9 s: activity 50 (1 + 0.9^2 / 0.9 + 0.9^2),
  // products 500, attention 1.5 x 200 x 0.9.
  CHECK(seconds_at(power, duty, 0.9) == Approx(1 + 1 / 0.9 + 1));
  CHECK(joules_at(power, duty, 0.9) == Approx(100 * (2 + 1 / 0.9) + 50 * (1 + 0.9 + 0.81) + 500 + 270));
  // At 0.4 they run at half of their speed: activity 50 x 0.25 x 2 s, half of their energy.
  CHECK(joules_at(power, products(), 0.4) == Approx(100 * 2 + 25 + 250));
  // 100 + 550 s^2 = 400 of products alone.
  CHECK(clock_within_limit(
            [&] {
              power.limit = 400;
              return power;
            }(),
            products()) == Approx(0.8 * std::sqrt(300.0 / 550)).epsilon(1e-9));
}

TEST_CASE("an H200 at its limit runs products and attention as fast as it was measured to, in the mix too") {
  // Over the times of a board that has rested (calibration/measured/h200-power.csv): alone, and a quarter of the time
  // beside three of a bf16 product of 8192^3. PyTorch's FlashAttention 2 draws the limit at full clock.
  const DeviceProfile full = profile("h200-sxm-141gb");
  PowerModel power = full.power();
  power.standing = 126;  // as it stood then
  const auto kernel = [&](double seconds, double flops, double bytes, DataType type, bool attention) {
    Duty duty;
    (attention ? duty.attention : flops > 0 ? duty.products : duty.streaming) = seconds;
    (attention ? duty.attention_flops : duty.flops)[index(type)] = flops;
    duty.bytes = bytes;
    return duty;
  };
  const Duty bf16 = kernel(1384e-6, 1.0995e12, 0.4e9, DataType::bf16, false);
  const Duty fp8 = kernel(728e-6, 1.0995e12, 0.27e9, DataType::fp8, false);
  const Duty flash = kernel(9533e-6, 2.749e12, 1.07e9, DataType::bf16, true);
  const Duty cudnn = kernel(4981e-6, 2.749e12, 1.07e9, DataType::bf16, true);
  const Duty silu = kernel(367e-6, 0, 1.61e9, DataType::bf16, false);
  const auto slower = [&](const Duty& mix, bool attention) {
    const double clock = clock_within_limit(power, mix);
    return attention ? 1 / clock : 1 / power.product_speed(clock);
  };
  CHECK(slower(bf16, false) == Approx(1.171).epsilon(0.04));
  CHECK(slower(fp8, false) == Approx(1.184).epsilon(0.04));
  CHECK(slower(flash, true) == Approx(1.0).epsilon(0.04));
  CHECK(slower(cudnn, true) == Approx(1.134).epsilon(0.04));
  Duty with_flash = bf16 * 11, with_silu = bf16 * 11;
  with_flash += flash * 0.5;
  with_silu += silu * 14;
  CHECK(slower(with_flash, false) == Approx(1.048).epsilon(0.06));
  CHECK(slower(with_flash, true) == Approx(1.165).epsilon(0.06));
  CHECK(slower(with_silu, false) == Approx(1.120).epsilon(0.06));
}

TEST_CASE("at a lower clock products, attention and kernels that go by elements take longer, those of memory do not") {
  const DeviceProfile full = profile("h100-sxm-80gb"), slow = full.at_clock(0.8);
  Gemm g;
  g.m = g.n = g.k = 8192;
  const double launch = full.model().gemm[index(DataType::bf16)].launch, speed = full.power().product_speed(0.8);
  CHECK(speed == Approx(0.8 / 0.89));
  CHECK(to_seconds(slow.gemm(g)) - launch == Approx((to_seconds(full.gemm(g)) - launch) / speed).epsilon(1e-6));
  Attention a;
  a.queries = a.keys = 8192;
  a.heads = a.kv_heads = 32;
  a.head_dim = 128;
  for (const AttentionKernel kernel : {AttentionKernel::fused, AttentionKernel::flash_1, AttentionKernel::flash_2,
                                       AttentionKernel::fused_fp8, AttentionKernel::fused_2026}) {
    a.kernel = kernel;
    CHECK(to_seconds(slow.attention(a)) / to_seconds(full.attention(a)) == Approx(1.25).epsilon(0.01));
  }
  CHECK(slow.streaming(Streaming::gelu, 1e9) == full.streaming(Streaming::gelu, 1e9));
  // Sums into rows of 16 bit: 6 bytes an element, which memory would move in a third of the time.
  const double floor = full.model().streaming.floor;
  CHECK(full.goes_by_elements(Streaming::scatter_add, 6e9, 1e9));
  CHECK(to_seconds(slow.streaming(Streaming::scatter_add, 6e9, 1e9)) - floor ==
        Approx((to_seconds(full.streaming(Streaming::scatter_add, 6e9, 1e9)) - floor) / 0.8).epsilon(1e-6));
  CHECK_FALSE(full.goes_by_elements(Streaming::scatter_add, 60e9, 1e9));
  CHECK_FALSE(full.goes_by_elements(Streaming::gelu, 0, 1e9));
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
  CHECK(!profile("a100-sxm-80gb").has(AttentionKernel::fused_fp8));
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

TEST_CASE("attention of 2026 on GB200 and GB300 takes the times of a later cuDNN than it was fitted to") {
  // Causal, two sequences, milliseconds of cuDNN 9.22 (NVIDIA/cudnn-frontend of May 2026,
  // benchmark/sdpa_benchmark_training/results). Heads of 160 channels stand for latent attention's 192 and 128.
  struct Point {
    const char* device;
    std::int64_t seq, heads, kv_heads, dim, window;
    double forward, backward;
  };
  for (const Point& p :
       {Point{"gb200", 4096, 128, 128, 160, 0, 0.977, 3.383}, Point{"gb200", 8192, 64, 64, 160, 0, 1.733, 6.005},
        Point{"gb200", 4096, 64, 8, 128, 0, 0.391, 1.198}, Point{"gb200", 8192, 64, 8, 128, 0, 1.397, 4.127},
        Point{"gb300", 4096, 128, 128, 160, 0, 0.864, 3.127}, Point{"gb300", 8192, 64, 64, 160, 0, 1.466, 5.466},
        Point{"gb300", 4096, 64, 8, 128, 0, 0.323, 1.101}, Point{"gb300", 8192, 64, 8, 128, 0, 1.185, 3.832}}) {
    const DeviceProfile device = profile(p.device);
    REQUIRE(device.has(AttentionKernel::fused_2026));
    Attention a;
    a.batch = 2;
    a.queries = a.keys = p.seq;
    a.heads = p.heads;
    a.kv_heads = p.kv_heads;
    a.head_dim = p.dim;
    a.window = p.window;
    a.kernel = AttentionKernel::fused_2026;
    INFO(p.device << ": " << p.seq << " x " << p.dim);
    CHECK(to_seconds(device.attention(a)) * 1e3 == Approx(p.forward).epsilon(0.08));
    a.backward = true;
    CHECK(to_seconds(device.attention(a)) * 1e3 == Approx(p.backward).epsilon(0.08));
  }
  CHECK(!profile("a100-sxm-80gb").has(AttentionKernel::fused_2026));
}

TEST_CASE("attention on an H200 takes what PyTorch measured of cuDNN 9.19, which it was not fitted to") {
  // Causal, microseconds, of a board that had rested (calibration/measured/h200-pytorch.csv).
  struct Point {
    std::int64_t batch, seq, heads, kv_heads, dim;
    double forward, backward;
  };
  for (const char* name : {"h200-sxm-141gb", "h100-sxm-80gb"}) {
    const DeviceProfile device = profile(name);
    for (const Point& p : {Point{2, 8192, 32, 8, 128, 1697, 5102}, Point{16, 8192, 4, 1, 128, 1701, 5060},
                           Point{4, 4096, 32, 8, 128, 895, 2894}, Point{1, 16384, 32, 8, 128, 3313, 9393},
                           Point{4, 4096, 32, 8, 64, 633, 1824}, Point{1, 4096, 128, 128, 160, 1148, 3922}}) {
      Attention a;
      a.batch = p.batch;
      a.queries = a.keys = p.seq;
      a.heads = p.heads;
      a.kv_heads = p.kv_heads;
      a.head_dim = p.dim;
      a.kernel = AttentionKernel::fused_2026;
      INFO(name << ": " << p.batch << " x " << p.seq << " x " << p.heads << " x " << p.dim);
      CHECK(to_seconds(device.attention(a)) * 1e6 == Approx(p.forward).epsilon(0.08));
      a.backward = true;
      CHECK(to_seconds(device.attention(a)) * 1e6 == Approx(p.backward).epsilon(0.1));
      // Older ones are no faster backward.
      const auto later = device.attention(a);
      a.kernel = AttentionKernel::fused;
      CHECK(to_seconds(device.attention(a)) > 0.98 * to_seconds(later));
    }
  }
}

TEST_CASE("a block of queries sees the window ahead of each of its queries") {
  // 128 queries with a window of 128 keys each: 255 keys in all, of two blocks; the first block of queries one.
  AttentionModel model;
  model.peak = 1e15;
  model.memory_bandwidth = 1e18;
  model.rate_64 = model.rate_128 = 1;
  model.launch = model.setup = 0;
  AttentionModel::Shape shape;
  shape.queries = shape.keys = 128 * 1000;
  shape.head_dim = 128;
  shape.window = 128;
  const double block = 4.0 * 128 * 128 * 128 / 1e15;
  CHECK(model.structure(shape) == Approx((2 * 1000 - 1) * block).epsilon(0.002));
  shape.window = 128 * 1000;  // as without one
  const double windowed = model.structure(shape);
  shape.window = 0;
  CHECK(model.structure(shape) == windowed);
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

TEST_CASE("PyTorch's FlashAttention 2 takes three operations a score longer than the library's") {
  // Forward, not causal, 16 heads of 128, 16384 tokens in all, milliseconds of scaled_dot_product_attention and of the
  // library (pytorch/benchmark#2443, an H100).
  struct Point {
    std::int64_t seq;
    double own, library;
  };
  const DeviceProfile device = profile("h100-sxm-80gb");
  for (const Point& p :
       {Point{4096, 1.65574, 1.55882}, Point{8192, 3.27904, 3.08669}, Point{16384, 6.55098, 6.14246}}) {
    Attention a;
    a.queries = a.keys = p.seq;
    a.batch = 16384 / p.seq;
    a.heads = a.kv_heads = 16;
    a.head_dim = 128;
    a.causal = false;
    a.kernel = AttentionKernel::flash_2;
    const double library = to_seconds(device.attention(a));
    a.score_operations = 3;
    INFO(p.seq);
    CHECK(1e3 * (to_seconds(device.attention(a)) - library) == Approx(p.own - p.library).epsilon(0.08));
    // Backward likewise, and causal half of it, but for blocks on the diagonal.
    a.backward = true;
    const double back = to_seconds(device.attention(a));
    a.score_operations = 0;
    const double whole = back - to_seconds(device.attention(a));
    CHECK(1e3 * whole == Approx(p.own - p.library).epsilon(0.08));
    a.causal = true;
    const double half = to_seconds(device.attention(a));
    a.score_operations = 3;
    CHECK(to_seconds(device.attention(a)) - half == Approx(whole / 2).epsilon(0.05));
  }
}

TEST_CASE("a board's constants come back from what it drew under kernels of several kinds, clocks and shares") {
  PowerModel truth = device(700);
  truth.active = 280;
  truth.per_byte = 45e-12;  // taken for known
  truth.per_flop[index(DataType::fp8)] = 0.6e-12;
  truth.attention = 1.3;
  truth.product_clock = 0.9;
  truth.exponent = 2.4;
  std::vector<PowerSample> samples{{"idle", 0, DataType::bf16, 0, 0, 0, 0, truth.standing}};
  const auto add = [&](const char* kernel, DataType type, double share, double flops, double bytes, double clock) {
    // By hand: activity goes with the speed to 2.4, operations to one less, bytes with nothing.
    const bool product = std::string_view(kernel) == "gemm", copy = std::string_view(kernel) == "copy";
    const double speed = copy ? 1 : product ? std::min(1.0, clock / 0.9) : clock, seconds = 1e-3 / speed;
    const double energy = truth.per_flop[index(type)] * (product ? 1 : 1.3);
    PowerSample s{kernel, share, type, flops, bytes, seconds, clock * 1980, 0};
    s.watts = 100 + share * (280 * std::pow(speed, 2.4) + energy * std::pow(speed, 1.4) * flops / seconds +
                             45e-12 * bytes / seconds);
    samples.push_back(s);
  };
  add("copy", DataType::bf16, 1, 0, 4e9, 1);
  add("copy", DataType::bf16, 0.5, 0, 4e9, 1);
  add("gemm", DataType::bf16, 1, 600e9, 0.4e9, 0.7);
  add("gemm", DataType::bf16, 0.75, 600e9, 0.4e9, 0.8);
  add("gemm", DataType::bf16, 0.5, 600e9, 0.4e9, 1);
  add("gemm", DataType::fp8, 1, 1100e9, 0.4e9, 0.65);
  add("gemm", DataType::fp8, 0.5, 1100e9, 0.4e9, 0.95);
  add("attention", DataType::bf16, 1, 450e9, 0.1e9, 0.95);
  const std::optional<PowerFit> fit = fit_power(samples, 1980);
  REQUIRE(fit);
  CHECK(fit->largest_error < 1);
  CHECK(fit->power.standing == 100);
  CHECK(fit->power.active == Approx(280).epsilon(0.02));
  CHECK(fit->power.per_flop[index(DataType::bf16)] == Approx(1e-12).epsilon(0.02));
  CHECK(fit->power.per_flop[index(DataType::fp8)] == Approx(0.6e-12).epsilon(0.02));
  CHECK(fit->power.attention == Approx(1.3).epsilon(0.03));
  CHECK(fit->power.product_clock == Approx(0.9).epsilon(0.01));
  CHECK(fit->power.exponent == Approx(2.4).epsilon(0.02));
  samples.erase(samples.begin());
  CHECK_FALSE(fit_power(samples, 1980));  // nothing tells what stands
}
