// How many kernel-time questions a core answers in a second: plan building asks one for each distinct kernel, sweeps
// and other programs many more. Shapes vary from question to question, as branches that always go one way flatter. Not
// measured: loading a profile.
#include <benchmark/benchmark.h>

#include <vector>

#include "calibration/device/profile.h"
#include "scenarios/scenario.h"

namespace {

using namespace orrery::calibration;

constexpr std::size_t kShapes = 1024;

DeviceProfile device(const benchmark::State& state) {
  static const std::vector<std::string> names{"a100-sxm-80gb", "h100-sxm-80gb", "b200-sxm-180gb"};
  return DeviceProfile::load(orrery::scenarios::read_yaml(orrery::scenarios::data_directory() +
                                                          "/calibration/profiles/" +
                                                          names[static_cast<std::size_t>(state.range(0))] + ".yaml"));
}

/// Powers of two and odd sizes from 64 to 16384, one for each i.
std::int64_t size(std::size_t i) { return (std::int64_t{64} << (i % 9)) - static_cast<std::int64_t>(i % 7); }

template <class Shape, class Make, class Ask>
void ask(benchmark::State& state, const Make& make, const Ask& question) {
  const DeviceProfile profile = device(state);
  std::vector<Shape> shapes;
  for (std::size_t i = 0; i < kShapes; ++i) shapes.push_back(make(i));
  std::size_t next = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(question(profile, shapes[next]));
    next = (next + 1) % kShapes;
  }
  state.SetItemsProcessed(state.iterations());
}

void gemm_time(benchmark::State& state) {
  ask<Gemm>(
      state,
      [](std::size_t i) {
        Gemm g;
        g.dtype = i % 2 == 0 ? DataType::bf16 : DataType::fp8;
        g.m = size(i);
        g.n = size(i / 9);
        g.k = size(i / 81 + i);
        return g;
      },
      [](const DeviceProfile& p, const Gemm& g) { return p.gemm(g); });
}
BENCHMARK(gemm_time)->Arg(0)->Arg(1)->Arg(2);

void attention_time(benchmark::State& state) {
  ask<Attention>(
      state,
      [](std::size_t i) {
        Attention a;
        a.queries = a.keys = size(i);
        a.heads = a.kv_heads = 1 + static_cast<std::int64_t>(i % 96);
        a.head_dim = i % 3 == 0 ? 64 : 128;
        a.backward = i % 2 == 1;
        return a;
      },
      [](const DeviceProfile& p, const Attention& a) { return p.attention(a); });
}
BENCHMARK(attention_time)->Arg(1);

void streaming_time(benchmark::State& state) {
  ask<std::size_t>(
      state, [](std::size_t i) { return i; },
      [](const DeviceProfile& p, std::size_t i) {
        return p.streaming(static_cast<Streaming>(i % kStreamingKernels), static_cast<double>(i) * 1e6);
      });
}
BENCHMARK(streaming_time)->Arg(1);

void gemm_uncertainty(benchmark::State& state) {
  ask<Gemm>(
      state,
      [](std::size_t i) {
        Gemm g;
        g.m = size(i);
        g.n = size(i / 9);
        g.k = size(i / 81 + i);
        return g;
      },
      [](const DeviceProfile& p, const Gemm& g) { return p.uncertainty(g); });
}
BENCHMARK(gemm_uncertainty)->Arg(1);

}  // namespace
