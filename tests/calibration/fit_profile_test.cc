// From samples to a profile: times made with a known device over the kind of grid that a calibration measures, with a
// percent of noise, give back a profile that loads, says where its numbers come from, and predicts shapes that it has
// not seen.
#include "calibration/measure/fit_profile.h"

#include <cmath>

#include "calibration/device/measured_host.h"
#include "calibration/measure/fit.h"
#include "sim/error.h"
#include "tests/calibration/support.h"
#include "tests/catch.h"
#include "tests/skipped.h"

namespace {

using namespace orrery::calibration;
using namespace orrery::calibration_test;
using orrery::sim::to_seconds;
using orrery::sim::UserError;

constexpr double kDataGradient = 1.04, kWeightGradient = 1.10;  // times of the other forms over the forward form's

DeviceFacts known_facts(const DeviceProfile& p) {
  DeviceFacts f;
  f.name = "Round Trip's GPU";
  f.description = "driver 1; made of\nknown times";
  f.processors = p.processors();
  f.memory_bytes = static_cast<double>(p.memory().value());
  f.memory_bandwidth = p.memory_bandwidth().value();
  for (DataType t : {DataType::bf16, DataType::fp16, DataType::fp32, DataType::fp8})
    f.peak_flops[t] = p.peak(t).value();
  f.links.bandwidth = 450e9;
  f.notes = {"clocks as they come"};
  return f;
}

/// Between 0.99 and 1.01.
double noise(Random& random) { return 1 + 0.01 * (static_cast<double>(random.next() >> 11) * 0x1p-52 - 1); }

Gemm product(std::int64_t m, std::int64_t n, std::int64_t k, Gemm::Form form) {
  Gemm g;
  g.m = m;
  g.n = n;
  g.k = k;
  g.form = form;
  return g;
}

Attention fused(std::int64_t seq, std::int64_t heads, std::int64_t dim, bool backward) {
  Attention a;
  a.queries = a.keys = seq;
  a.heads = a.kv_heads = heads;
  a.head_dim = dim;
  a.backward = backward;
  return a;
}

double form_of(Gemm::Form form) {
  return form == Gemm::Form::forward ? 1 : form == Gemm::Form::data_gradient ? kDataGradient : kWeightGradient;
}

Samples measured(const DeviceProfile& truth) {
  Random random(17);
  Samples out;
  for (std::int64_t m = 256; m <= 16384; m *= 2)
    for (std::int64_t n = 256; n <= 16384; n *= 2)
      for (std::int64_t k = 256; k <= 16384; k *= 2)
        for (auto form : {Gemm::Form::forward, Gemm::Form::data_gradient, Gemm::Form::weight_gradient}) {
          if (form != Gemm::Form::forward && (m * n * k) % 3 == 1) continue;  // not every form of every shape
          const Gemm g = product(m, n, k, form);
          out.gemm.push_back(
              {g, to_seconds(truth.gemm(product(m, n, k, Gemm::Form::forward))) * form_of(form) * noise(random)});
        }
  for (std::int64_t seq = 512; seq <= 16384; seq *= 2)
    for (std::int64_t heads : {8, 16, 32, 64})
      for (std::int64_t dim : {64, 128})
        for (bool backward : {false, true}) {
          const Attention a = fused(seq, heads, dim, backward);
          out.attention.push_back({a, to_seconds(truth.attention(a)) * noise(random)});
        }
  for (std::size_t i = 0; i < kStreamingKernels; ++i)
    for (double bytes = 1e5; bytes < 4e9; bytes *= 4) {
      const auto kernel = static_cast<Streaming>(i);
      out.streaming.push_back({kernel, bytes, to_seconds(truth.streaming(kernel, bytes)) * noise(random)});
    }
  for (std::size_t i = 0; i < kCollectiveOps; ++i)
    for (std::int64_t gpus : {2, 4, 8})
      for (std::int64_t bytes = 4096; bytes <= 1 << 30; bytes *= 4) {
        const auto op = static_cast<CollectiveOp>(i);
        const orrery::sim::Bytes size(bytes);
        out.collective.push_back(
            {op, gpus, size, to_seconds(truth.node_collective(op, gpus, size).total()) * noise(random), {}});
      }
  out.steady = {{DataType::bf16, false, 0.9}, {DataType::bf16, true, 0.95}, {DataType::fp8, false, 1.02}};
  out.facts = {{"host", "launch_eager", 0, 4e-6}, {"interference", "gemm_beside_copy", 0, 1.2}};
  return out;
}

DeviceProfile load(const std::string& yaml) {
  return DeviceProfile::load(orrery::scenarios::resolve(orrery::scenarios::shelf_of("devices"),
                                                        orrery::scenarios::parse_yaml(yaml, "fitted.yaml"))
                                 .document);
}

FitError errors(const std::vector<std::pair<Duration, Duration>>& fitted_and_true) {
  std::vector<double> relative;
  for (const auto& [fitted, truth] : fitted_and_true) relative.push_back(to_seconds(fitted) / to_seconds(truth) - 1);
  return summarise(std::move(relative));
}

}  // namespace

TEST_CASE("samples of a known device give that device back") {
  const DeviceProfile truth = profile("a100-sxm-80gb").isolated();
  const std::string yaml = fit_profile(known_facts(truth), measured(truth), nullptr);
  const DeviceProfile fitted = load(yaml);
  CHECK(fitted.name() == "Round Trip's GPU");
  CHECK(fitted.provenance() == "measured here: driver 1; made of known times");
  CHECK(fitted.processors() == truth.processors());
  CHECK(fitted.peak(DataType::bf16).value() == Approx(truth.peak(DataType::bf16).value()));
  CHECK(yaml.find("transferred") == std::string::npos);
  CHECK(measured_host(fitted).launch == Approx(4e-6));
  // Beside how much traffic was not measured: for the reader alone.
  CHECK(measured_host(fitted).beside.empty());
  CHECK(yaml.find("gemm_beside_copy: 1.200 times as long") != std::string::npos);
  const DeviceProfile cool = fitted.isolated();
  Random random(23);
  std::vector<std::pair<Duration, Duration>> gemm, attention, backward;
  std::vector<double> form_ratio;
  for (int i = 0; i < 400; ++i) {
    const Gemm g = product(random.size(300, 16000), random.size(300, 16000), random.size(300, 16000), {});
    gemm.emplace_back(cool.gemm(g), truth.gemm(g));
    Gemm weight = g;
    weight.form = Gemm::Form::weight_gradient;
    form_ratio.push_back(to_seconds(cool.gemm(weight)) / to_seconds(cool.gemm(g)));
    const Attention a = fused(random.size(512, 16000), random.size(8, 64), i % 2 == 0 ? 64 : 128, i % 4 > 1);
    (a.backward ? backward : attention).emplace_back(cool.attention(a), truth.attention(a));
  }
  const FitError g = errors(gemm), a = errors(attention), b = errors(backward);
  INFO("gemm " << g.median_ape << " / " << g.p90_ape << ", attention " << a.median_ape << " / " << a.p90_ape
               << ", backward " << b.median_ape << " / " << b.p90_ape);
  CHECK(g.median_ape < 4);
  CHECK(a.median_ape < 3);
  CHECK(b.median_ape < 4);  // one ratio for all shapes
  CHECK(quantile(form_ratio, 0.5) == Approx(kWeightGradient).epsilon(0.02));
  for (std::size_t i = 0; i < kStreamingKernels; ++i) {
    const auto kernel = static_cast<Streaming>(i);
    for (double bytes : {3e5, 3e7, 3e9})
      CHECK(to_seconds(fitted.streaming(kernel, bytes)) ==
            Approx(to_seconds(truth.streaming(kernel, bytes))).epsilon(0.03));
  }
  std::vector<std::pair<Duration, Duration>> collective;
  for (std::size_t i = 0; i < kCollectiveOps; ++i)
    for (std::int64_t bytes : {3000000, 30000000, 300000000}) {
      const auto op = static_cast<CollectiveOp>(i);
      collective.emplace_back(fitted.node_collective(op, 8, orrery::sim::Bytes(bytes)).total(),
                              truth.node_collective(op, 8, orrery::sim::Bytes(bytes)).total());
    }
  CHECK(errors(collective).median_ape < 5);
  // A ratio above 1 is noise: clocks do not rise when the device gets warm.
  const Gemm large = product(8192, 8192, 8192, {});
  CHECK(to_seconds(fitted.gemm(large)) == Approx(to_seconds(cool.gemm(large)) / 0.9).epsilon(0.01));
  Gemm fp8 = large;
  fp8.dtype = DataType::fp8;
  CHECK(fitted.gemm(fp8) == cool.gemm(fp8));
}

TEST_CASE("what was not measured is transferred from a base, or assumed, and says so") {
  const BaseProfile shipped{"h100-sxm-80gb", profile("h100-sxm-80gb"), {8, 450e9, 0.88, true, false}, {}};
  const DeviceProfile& base = shipped.device;
  const DeviceFacts facts = known_facts(base);
  Samples few;
  Random random(29);
  for (int i = 0; i < 40; ++i) {
    const Gemm g = product(random.size(256, 8192), random.size(256, 8192), random.size(256, 8192), {});
    few.gemm.push_back({g, to_seconds(base.isolated().gemm(g))});
  }
  const std::string with_base = fit_profile(facts, few, &shipped), alone = fit_profile(facts, few, nullptr);
  CHECK(with_base.find("inherits: h100-sxm-80gb") != std::string::npos);
  CHECK(alone.find("inherits") == std::string::npos);
  CHECK(alone.find("assumed") != std::string::npos);
  const DeviceProfile p = load(with_base);
  load(alone);
  Attention a = fused(4096, 32, 128, false);
  CHECK(to_seconds(p.isolated().attention(a)) == Approx(to_seconds(base.isolated().attention(a))).epsilon(0.01));
  CHECK(p.uncertainty(a) == base.uncertainty(a));  // of the same chip
  CHECK(p.uncertainty(product(1024, 1024, 1024, {})) < kUnmeasured);
  // Only the base has matrix products.
  CHECK(load(fit_profile(facts, Samples{}, &shipped)).gemm(Gemm{}) == base.gemm(Gemm{}));
  CHECK_THROWS_AS(fit_profile(facts, Samples{}, nullptr), UserError);
  DeviceFacts nothing = facts;
  nothing.processors = 0;
  CHECK_THROWS_AS(fit_profile(nothing, few, &shipped), UserError);
}

TEST_CASE("what was measured of the host and beside traffic is what the profile says") {
  const DeviceProfile truth = profile("a100-sxm-80gb").isolated();
  Samples samples = measured(truth);
  // 512 MB in 0.4 ms are 1.28 TB/s; two products beside the full rate and one beside a fifth, which is noise below 1.
  samples.facts = {{"interference", "traffic_alone", 512e6, 4e-4},
                   {"interference", "gemm_beside_copy", 0, 1.6},
                   {"interference", "gemm_beside_copy", 0, 1.8},
                   {"interference", "gemm_beside_copy", 0, 1.7},
                   {"interference", "gemm_beside_copy_20", 0, 0.99},
                   {"host", "copy_h2d", 1e9, 0.04},
                   {"host", "copy_d2h", 1e9, 0.05}};
  for (const auto& [kernel, seconds] : {std::pair{GroupedKernel::grouped, 3e-5}, {GroupedKernel::streams, 4e-5}}) {
    GroupedGemm experts;
    experts.out = experts.in = 1024;
    experts.tokens = {256, 256};
    experts.kernel = kernel;
    samples.grouped.push_back({experts, seconds});
  }
  const std::string yaml = fit_profile(known_facts(truth), samples, nullptr);
  CHECK(yaml.find("in one launch: 0.750 times as long") != std::string::npos);
  const MeasuredHost host = measured_host(load(yaml));
  REQUIRE(host.beside.size() == 2);
  CHECK(host.beside[0].traffic == Approx(0.2 * 1.28e12));
  CHECK(host.beside[0].product == 1);
  CHECK(host.beside[1].traffic == Approx(1.28e12));
  CHECK(host.beside[1].product == Approx(1.7));
  CHECK(host.launch == 0);
  CHECK(yaml.find("host_link: 20.00 GB/s") != std::string::npos);  // the slower direction's
}

TEST_CASE("measured scans become the rates of their kinds, and those that were not measured stay the base's") {
  const DeviceProfile truth = profile("a100-sxm-80gb").isolated();
  const double bandwidth = truth.memory_bandwidth().value(), peak = truth.peak(DataType::bf16).value();
  const MixerRates slow{4e-6, 0.3, 0.1}, fast{3e-6, 0.8, 0.4}, convolution{2e-6, 0.8, 0};
  Samples samples = measured(truth);
  const auto add = [&](Scan s) {
    const MixerRates& rates = s.kernel == MixerKernel::convolution ? convolution : s.kind == &kMamba2Scan ? slow : fast;
    samples.scans.push_back({s, seconds_of(work_of(s), rates, bandwidth, peak)});
  };
  const auto all = [&](const ScanKind& kind, std::int64_t heads, std::int64_t key_heads, std::int64_t value_dim,
                       const auto& use) {
    for (const std::int64_t positions : {256, 4096, 16384})
      for (const ScanPass pass : {ScanPass::forward, ScanPass::backward}) {
        Scan s;
        s.kind = &kind;
        s.positions = positions;
        s.heads = heads;
        s.key_heads = key_heads;
        s.key_dim = 128;
        s.value_dim = value_dim;
        s.chunk = kind.chunk;
        s.pass = pass;
        use(s);
      }
  };
  all(kMamba2Scan, 128, 8, 64, add);
  all(kGatedDeltaScan, 32, 32, 128, add);
  const std::string of_chunks = fit_profile(known_facts(truth), samples, nullptr);
  const DeviceProfile fitted = load(of_chunks).isolated();
  const auto same_times = [&](const DeviceProfile& device) {
    for (const ScanSample& s : samples.scans)
      CHECK(to_seconds(device.isolated().scan(s.shape)) == Approx(s.seconds).epsilon(0.03));
  };
  same_times(fitted);
  // The convolution's are as an H100's, and the profile says so.
  CHECK(of_chunks.find("as Python runs them: gated_delta, gated_delta backward, mamba2, mamba2 backward; at the rates "
                       "of these together: kda, lightning, rwkv7; convolution: as an H100'") != std::string::npos);
  CHECK(fitted.has(kMamba2Scan));
  CHECK(!fitted.has(kKdaScan));
  // A kind that was not measured runs at rates between those of the kinds that were.
  all(kKdaScan, 32, 32, 128, [&](const Scan& s) {
    if (s.positions < 4096) return;
    INFO(s.positions);
    const double time = to_seconds(fitted.scan(s));
    CHECK(time < seconds_of(work_of(s), slow, bandwidth, peak));
    CHECK(time > seconds_of(work_of(s), fast, bandwidth, peak));
  });
  Scan s;
  s.kernel = MixerKernel::convolution;
  s.channels = 8192;
  s.positions = 1 << 16;
  CHECK(load(of_chunks).scan(s) != orrery::sim::seconds(seconds_of(work_of(s), convolution, bandwidth, peak)));
  for (const std::int64_t positions : {256, 4096, 65536}) {
    s.positions = positions;
    add(s);
  }
  same_times(load(fit_profile(known_facts(truth), samples, nullptr)));
  // Without a scan, the section of the base holds.
  const BaseProfile shipped{"h100-sxm-80gb", profile("h100-sxm-80gb"), {8, 450e9, 0.88, true, false}, {}};
  CHECK(load(fit_profile(known_facts(shipped.device), Samples{}, &shipped)).scan(s) == shipped.device.scan(s));
}

TEST_CASE("widths of heads that were timed are knots of attention's correction, and no others") {
  const auto knots = [](const std::vector<std::int64_t>& widths) {
    std::vector<AttentionSample> samples;
    for (const std::int64_t width : widths)
      for (int i = 0; i < 500; ++i) {
        AttentionSample one;
        one.shape.head_dim = width;
        samples.push_back(one);
      }
    return attention_options(samples).k;
  };
  CHECK(knots({128}) == std::vector<double>{128});
  CHECK(knots({64, 128}) == std::vector<double>{64, 128});
  CHECK(knots({64, 128, 256}) == std::vector<double>{64, 128, 256});
  CHECK(knots({64, 128, 512}) == std::vector<double>{64, 128, 256, 512});
  CHECK(knots({64, 192}) == std::vector<double>{64, 128});
}

TEST_CASE("measured sparse attention becomes its kernels' rates, each at the peak of the type that it ran in") {
  const DeviceProfile h100 = profile("h100-sxm-80gb");
  const double bandwidth = h100.memory_bandwidth().value();
  const BaseProfile shipped{"h100-sxm-80gb", h100, {8, 450e9, 0.88, true, false}, {}};
  const MixerRates index{5e-6, 0.7, 0.3}, choice{20e-6, 0.05, 0}, single{5e-6, 0.6, 0.5}, blocks{8e-6, 0.3, 0.2};
  Samples samples;
  std::vector<SparseKernel> all;
  const auto add = [&](MixerKernel kernel, const MixerRates& rates, DataType type, ScanPass pass, std::int64_t heads,
                       std::int64_t key_heads, std::int64_t query, std::int64_t value, std::int64_t block) {
    for (const std::int64_t positions : {512, 2048, 8192, 32768}) {
      const SparseKernel s{kernel, pass, type, positions, heads, key_heads, query, value, 2048 / (block > 1 ? 2 : 1),
                           block};
      const double peak = kernel == MixerKernel::choice ? 0 : h100.peak(type).value();
      samples.sparse.push_back({s, seconds_of(work_of(s), rates, bandwidth, peak)});
    }
  };
  add(MixerKernel::index, index, DataType::fp8, ScanPass::forward, 64, 1, 128, 1, 1);
  add(MixerKernel::choice, choice, DataType::fp32, ScanPass::forward, 1, 1, 1, 1, 1);
  add(MixerKernel::block_attention, blocks, DataType::bf16, ScanPass::forward, 64, 4, 128, 128, 64);
  add(MixerKernel::block_attention, blocks, DataType::bf16, ScanPass::backward, 64, 4, 128, 128, 64);
  const auto times = [&](const DeviceProfile& device) {
    for (const SparseSample& s : samples.sparse) {
      INFO(name_of(s.shape.kernel) << " of " << s.shape.positions);
      CHECK(to_seconds(device.isolated().mixer(s.shape.kernel, work_of(s.shape), s.shape.dtype)) ==
            Approx(s.seconds).epsilon(0.03));
    }
  };
  const auto fitted = [&] { return fit_profile(known_facts(h100), samples, &shipped); };
  const std::string without = fitted();
  CHECK(without.find("as Python runs them: block_attention, block_attention backward, choice, index; attention: as "
                     "h100-sxm-80gb'") != std::string::npos);
  times(load(without));
  add(MixerKernel::attention, single, DataType::bf16, ScanPass::forward, 128, 1, 576, 512, 1);
  times(load(fitted()));
  // Products bind what a query does with its keys at every length: no share of bandwidth is told by these.
  const std::string with = fitted();
  const std::size_t at = with.find("\n  attention: {", with.find("\nsparse:"));
  REQUIRE(at != std::string::npos);
  const std::string line = with.substr(at + 1, with.find('\n', at + 1) - at);
  CHECK(line.find("rate: ") != std::string::npos);
  CHECK(line.find("bandwidth: ") == std::string::npos);
  CHECK(line.find("bandwidth'}") > line.find("not told by it and inherited: "));
}

TEST_CASE("stated uncertainty covers about nine in ten samples that the fit has not seen") {
  const std::string file = table("gemm-a100-sxm");
  if (file.empty()) {
    orrery::tests::skipped("no table of matrix products beside the source tree");
    return;
  }
  const DeviceProfile device = profile("a100-sxm-80gb").isolated();
  std::vector<GemmSample> train, test;
  const auto all = read_samples(file).gemm;
  // A fold of its own: the fit judges itself on the others.
  for (std::size_t i = 0; i < all.size(); ++i) (fold_of(i + 7919, 4) == 0 ? test : train).push_back(all[i]);
  Samples samples;
  samples.gemm = train;
  const DeviceProfile fitted = load(fit_profile(known_facts(device), samples, nullptr));
  std::size_t covered = 0;
  for (const GemmSample& s : test)
    if (std::fabs(to_seconds(fitted.isolated().gemm(s.shape)) / s.seconds - 1) <= fitted.uncertainty(s.shape))
      ++covered;
  const double share = static_cast<double>(covered) / static_cast<double>(test.size());
  INFO(share << " of " << test.size());
  CHECK(share > 0.85);
  CHECK(share < 0.96);
}
