// Kernels of inference engines: laws that hold on every device and engine, documents, the fit, and published tables
// where they exist.
#include "calibration/device/serving_kernels.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "calibration/device/routing.h"
#include "calibration/device/serving_families.h"
#include "calibration/measure/fit_serving.h"
#include "scenarios/scenario.h"
#include "sim/error.h"
#include "tests/calibration/support.h"
#include "tests/catch.h"
#include "tests/skipped.h"

namespace {

using namespace orrery::calibration;
using namespace orrery::calibration_test;
using orrery::sim::Settings;
using orrery::sim::UserError;

Settings serving_document(const std::string& device) {
  namespace scenarios = orrery::scenarios;
  return scenarios::resolve(scenarios::shelf_of("serving"), Settings::scalar(device, {"test", 1, 1})).document;
}

constexpr Engine kAllEngines[] = {Engine::trtllm, Engine::vllm, Engine::sglang};

/// Every engine on every device whose kernels ship, and one without.
template <class Law>
void each_engine(const Law& law) {
  for (const std::string& name : names_in("calibration/serving")) {
    const Settings document = serving_document(name);
    for (const Engine engine : kAllEngines) {
      INFO(name << ", " << name_of(engine));
      law(ServingKernels(profile(name), engine, &document));
    }
  }
  law(ServingKernels(profile("mi300x"), Engine::vllm));
}

double bandwidth(const ServingKernels& kernels) { return kernels.device().memory_bandwidth().value(); }

TEST_CASE("an engine's kernels never read faster than the memory does") {
  each_engine([](const ServingKernels& kernels) {
    for (const double sequences : {1., 8., 64., 512.})
      for (const double cached : {1., 100., 4096., 100000.})
        for (const double element : {1., 2.}) {
          const double bytes = 2 * sequences * cached * 8 * 128 * element;
          CHECK(kernels.seconds(DecodeAttention{sequences, sequences * cached, 0, 64, 8, 128, 0, element}) >=
                bytes / bandwidth(kernels));
          const double latent = sequences * cached * 576 * element;
          CHECK(kernels.seconds(LatentDecode{sequences, sequences * cached, 0, 128, 512, 64, element}) >=
                latent / bandwidth(kernels));
        }
    for (std::size_t t = 0; t < kWeightTypes; ++t) {
      const auto type = static_cast<WeightType>(t);
      for (const double m : {1., 16., 256.})
        CHECK(kernels.seconds(ServedProduct{type, m, 8192, 8192}) >=
              weight_bytes(type) * 8192 * 8192 / bandwidth(kernels));
      // One token for each of eight experts, no more and no less.
      CHECK(kernels.seconds(ServedMixture{type, 1, 4096, 1024, 8, 128}) >=
            8 * 3 * 4096 * 1024 * weight_bytes(type) / bandwidth(kernels));
    }
  });
}

/// A table's own rows fall by as much from one size to the next, where a library changes its kernel.
constexpr double kFall = 0.15;

TEST_CASE("twice the work never takes an engine's kernel much less time") {
  each_engine([](const ServingKernels& kernels) {
    const auto rises = [](const auto& seconds_at, double from, double to) {
      for (double size = from; size < to; size *= 2) {
        INFO("from " << size << ": " << seconds_at(size) * 1e6 << " us to " << seconds_at(2 * size) * 1e6);
        CHECK(seconds_at(2 * size) >= (1 - kFall) * seconds_at(size));
      }
    };
    rises([&](double x) { return kernels.seconds(DecodeAttention{64, 64 * x, 0, 32, 8, 128}); }, 16, 1 << 17);
    rises([&](double x) { return kernels.seconds(DecodeAttention{x, x * 2048, 0, 32, 8, 128}); }, 1, 1024);
    rises([&](double x) { return kernels.seconds(LatentDecode{x, x * 4096, 0, 128}); }, 1, 512);
    rises([&](double x) { return kernels.seconds(ServedProduct{WeightType::bf16, 32, x, 4096}); }, 1024, 65536);
    rises([&](double x) { return kernels.seconds(ServedProduct{WeightType::bf16, x, 8192, 8192}); }, 1, 4096);
    rises([&](double x) { return kernels.seconds(ServedMixture{WeightType::bf16, x, 4096, 768, 8, 128}); }, 1, 2048);
    rises([&](double x) { return kernels.seconds(ServedAllReduce{8, x}); }, 1 << 13, 1 << 28);
    rises(
        [&](double x) {
          const PromptPiece piece{4, x, 0};
          return kernels.seconds(PrefillAttention{{&piece, 1}, 32, 8, 128});
        },
        128, 8192);
  });
}

TEST_CASE("a little more work takes an engine's kernel a little more time") {
  each_engine([](const ServingKernels& kernels) {
    const auto joins = [](double before, double after) {
      CHECK(std::abs(after / before - 1) < 0.25);  // one more wave of tasks, at most
    };
    for (double x = 1000; x < 1500; x *= 1.05) {
      joins(kernels.seconds(DecodeAttention{100, 100 * x, 0, 64, 8, 128}),
            kernels.seconds(DecodeAttention{100, 105 * x, 0, 64, 8, 128}));
      joins(kernels.seconds(ServedAllReduce{4, 1000 * x}), kernels.seconds(ServedAllReduce{4, 1050 * x}));
    }
  });
}

TEST_CASE("products of few rows join those of training") {
  each_engine([](const ServingKernels& kernels) {
    const DeviceProfile& device = kernels.device();
    for (const double n : {1024., 8192.})
      for (const WeightType type : {WeightType::bf16, WeightType::fp8}) {
        const auto at = [&](double m) { return kernels.seconds(ServedProduct{type, m, n, 8192}); };
        CHECK(std::abs(at(512.001) / at(512) - 1) < 1e-3);
        CHECK(std::abs(at(1024) / at(1023.999) - 1) < 1e-3);
        Gemm trained{multiplied_as(type), 2048, static_cast<std::int64_t>(n), 8192};
        trained.cast_input = type == WeightType::fp8;
        CHECK(at(2048) == orrery::sim::to_seconds(device.gemm(trained)));
      }
  });
}

TEST_CASE("behind DeepEP, SGLang's experts in blocks of fp8 are DeepGEMM's where they were measured, else as others") {
  const Settings document = serving_document("h100-sxm-80gb");
  // DeepSeek-V3's of a rank of 32: eight experts, of so many rows each.
  const auto of = [&](Engine engine, WeightType type, ExpertKernels kind, double rows) {
    ServedMixture m{type, rows, 7168, 2048, 8, 8};
    m.kernels = kind;
    return ServingKernels(profile("h100-sxm-80gb"), engine, &document).seconds(m);
  };
  using K = ExpertKernels;
  constexpr WeightType kBlocks = WeightType::fp8_block;
  // Eight experts' weights of 44 MB each are read once, whatever the rows: 105 us at 3.35 TB/s at least.
  const double few = of(Engine::sglang, kBlocks, K::masked, 4);
  CHECK(few > 8 * 3 * 7168.0 * 2048 / 3.35e12);
  CHECK(few < 1.5 * 8 * 3 * 7168.0 * 2048 / 3.35e12);
  CHECK(of(Engine::sglang, kBlocks, K::masked, 256) < 0.7 * of(Engine::sglang, kBlocks, K::grouped, 256));
  CHECK(of(Engine::sglang, kBlocks, K::contiguous, 8192) != of(Engine::sglang, kBlocks, K::grouped, 8192));
  for (const K kind : {K::masked, K::contiguous}) {
    CHECK(of(Engine::vllm, kBlocks, kind, 64) == of(Engine::vllm, kBlocks, K::grouped, 64));
    CHECK(of(Engine::sglang, WeightType::bf16, kind, 64) == of(Engine::sglang, WeightType::bf16, K::grouped, 64));
  }
}

TEST_CASE("nothing to do takes an engine's kernels no time") {
  const ServingKernels kernels(profile("h100-sxm-80gb"), Engine::vllm);
  CHECK(kernels.seconds(DecodeAttention{0, 0}) == 0);
  CHECK(kernels.seconds(LatentDecode{0, 0}) == 0);
  CHECK(kernels.seconds(ServedProduct{WeightType::bf16, 0, 1, 1}) == 0);
  CHECK(kernels.seconds(ServedMixture{WeightType::bf16, 0}) == 0);
  CHECK(kernels.seconds(ServedAllReduce{1, 1e6}) == 0);
  CHECK(kernels.seconds(LowLatencyExchange{ExchangePass::dispatch, 0}) == 0);
  CHECK(kernels.seconds(PrefillAttention{{}, 8, 8, 128}) == 0);
  CHECK(kernels.seconds(LatentBlock{}) == 0);
}

TEST_CASE("load of a mixture's rank") {
  // 16 tokens of 4 choices each dealt out in turn to 64 experts: one each.
  const MixtureLoad balanced = load_of({WeightType::bf16, 16, 1024, 512, 4, 64});
  CHECK(balanced.activated == 64);
  CHECK(balanced.rows == 64);
  // A rank of eight has its eighth.
  const MixtureLoad shared = load_of({WeightType::bf16, 16, 1024, 512, 4, 64, 8});
  CHECK(shared.activated == 8);
  CHECK(shared.rows == 8);
}

TEST_CASE("experts by chance: what drawing every token's choices comes to, of the fullest rank") {
  // A token's choices are top_k different experts; draws by a generator of their own.
  for (const auto& [tokens, top_k, experts, ranks] :
       {std::tuple(1, 8, 256, 1), std::tuple(32, 8, 256, 1), std::tuple(32, 8, 256, 8), std::tuple(200, 4, 128, 4),
        std::tuple(16, 2, 8, 2)}) {
    constexpr int kDraws = 400;
    std::uint64_t state = 88172645463325252u;
    const auto next = [&](int below) {
      state ^= state << 13;
      state ^= state >> 7;
      state ^= state << 17;
      return static_cast<int>(state % static_cast<std::uint64_t>(below));
    };
    double activated = 0, rows = 0;
    for (int draw = 0; draw < kDraws; ++draw) {
      std::vector<int> taken(static_cast<std::size_t>(experts), 0);
      for (int t = 0; t < tokens; ++t) {
        std::vector<int> own;
        while (static_cast<int>(own.size()) < top_k) {
          const int e = next(experts);
          if (std::find(own.begin(), own.end(), e) == own.end()) own.push_back(e);
        }
        for (const int e : own) ++taken[static_cast<std::size_t>(e)];
      }
      double most_rows = 0, most_activated = 0;
      for (int r = 0; r < ranks; ++r) {
        double here = 0, active = 0;
        for (int e = r * experts / ranks; e < (r + 1) * experts / ranks; ++e) {
          here += taken[static_cast<std::size_t>(e)];
          active += taken[static_cast<std::size_t>(e)] > 0 ? 1 : 0;
        }
        most_rows = std::max(most_rows, here);
        most_activated = std::max(most_activated, active);
      }
      rows += most_rows / kDraws;
      activated += most_activated / kDraws;
    }
    ServedMixture m{WeightType::bf16,
                    static_cast<double>(tokens),
                    1024,
                    512,
                    static_cast<double>(top_k),
                    static_cast<double>(experts),
                    static_cast<double>(ranks)};
    m.dealt = Dealt::by_chance;
    const MixtureLoad load = load_of(m);
    INFO(tokens << " tokens, " << top_k << " of " << experts << " on " << ranks);
    CHECK(load.rows == Approx(rows).epsilon(0.05));
    CHECK(load.activated == Approx(activated).epsilon(0.05));
  }
}

TEST_CASE("experts by a power law: what its draws come to in the mean") {
  // The draws are those that kernels were measured with (routing.h), and so is the rank that is looked at.
  for (const auto& [tokens, top_k, experts, ranks, alpha] :
       {std::tuple(16, 8, 128, 1, 1.2), std::tuple(64, 4, 128, 1, 1.2), std::tuple(512, 8, 256, 1, 1.01),
        std::tuple(64, 8, 128, 4, 1.2), std::tuple(4, 8, 128, 1, 1.2)}) {
    constexpr std::uint64_t kDraws = 200;
    const Routing routing{tokens, top_k, experts, ranks, alpha};
    double activated = 0, rows = 0;
    for (std::uint64_t draw = 0; draw < kDraws; ++draw)
      for (const std::int64_t each : tokens_of_experts(routing, draw)) {
        rows += static_cast<double>(each) / kDraws;
        activated += each > 0 ? 1.0 / kDraws : 0;
      }
    ServedMixture m{WeightType::bf16,
                    static_cast<double>(tokens),
                    1024,
                    512,
                    static_cast<double>(top_k),
                    static_cast<double>(experts),
                    static_cast<double>(ranks)};
    m.alpha = alpha;
    m.dealt = Dealt::by_power;
    const MixtureLoad load = load_of(m);
    INFO(tokens << " tokens, " << top_k << " of " << experts << " on " << ranks);
    CHECK(load.rows == Approx(rows).epsilon(0.1));
    CHECK(load.activated == Approx(activated).epsilon(0.1));
  }
}

TEST_CASE("a product whose activations come cast takes no longer, and no less than its bytes") {
  each_engine([](const ServingKernels& kernels) {
    for (const WeightType type : {WeightType::bf16, WeightType::fp8, WeightType::nvfp4})
      for (const double m : {1., 16., 256., 512., 800., 2048.}) {
        const double with = kernels.seconds(ServedProduct{type, m, 4096, 8192, true}),
                     without = kernels.seconds(ServedProduct{type, m, 4096, 8192, false});
        INFO(name_of(type) << ", " << m << " rows");
        CHECK(without <= with);
        CHECK(without >= 4096 * 8192 * weight_bytes(type) / bandwidth(kernels));
        if (type == WeightType::bf16) CHECK(without == with);
      }
  });
}

TEST_CASE("a fit of an engine's kernel finds the parameters that samples were made with") {
  const ServingFamily& family = decode::kFamily;
  const ServingFacts facts = facts_of(profile("h100-sxm-80gb"));
  ServingKernel truth = assumed_kernel(family);
  truth.parameters[0] = 9e-6;  // launch
  truth.parameters[3] = 0.7;   // efficiency
  std::vector<ServingSample> samples;
  std::uint64_t place = 0;
  for (double sequences = 1; sequences <= 512; sequences *= 2)
    for (double keys = 16; keys <= 65536; keys *= 2)
      for (const double heads : {8., 16., 64.}) {
        const double channels = heads == 16 ? 64 : 128, window = heads == 64 ? 128 : 0;
        DecodeAttention a{sequences, sequences * keys, 0, heads, 8, channels, window};
        if (window > 0) a.visible = sequences * std::min(window, keys);
        a.cached = sequences * keys;
        const Asked shape = asked(a);
        samples.push_back({Engine::vllm, shape, truth.seconds(facts, shape.work), place += 7919});
      }
  const ServingKernel fitted = fit_serving_kernel(family, facts, samples);
  CHECK(fitted.parameters[0] == Approx(9e-6).epsilon(0.05));
  CHECK(fitted.parameters[3] == Approx(0.7).epsilon(0.05));
  CHECK(serving_error(fitted, facts, samples).p90_ape < 1);
  // What the structure does not hold goes into the correction: long contexts take twice as long.
  for (ServingSample& s : samples)
    if (s.asked.work[decode::cached] > 4096 * s.asked.work[decode::sequences]) s.seconds *= 2;
  const ServingKernel corrected = fit_serving_kernel(family, facts, samples);
  CHECK(serving_error(corrected, facts, samples).median_ape < 2);
  // The text that is written reads back as the same kernel.
  const FittedServing text = fit_serving(facts, samples);
  const Settings document = orrery::scenarios::parse_yaml("name: x\n" + text.yaml, "x.yaml");
  const ServingKernels read(profile("h100-sxm-80gb"), Engine::vllm, &document);
  for (const ServingSample& s : samples)
    CHECK(read.model().seconds(s.asked) == Approx(corrected.seconds(facts, s.asked.work)).epsilon(0.01));
}

TEST_CASE("sampling takes its launch, and waves of rows or the memory's rate") {
  const Settings document = orrery::scenarios::parse_yaml(
      "name: x\nengines: {vllm: {sampling: {bf16: {launch: 10 us, stream: 2, efficiency: 0.5}}}}\n", "x.yaml");
  const DeviceProfile h100 = profile("h100-sxm-80gb");
  const ServingKernels kernels(h100, Engine::vllm, &document);
  CHECK(kernels.times_sampling());
  CHECK(!ServingKernels(h100, Engine::sglang, &document).times_sampling());
  CHECK(kernels.seconds(ServedSampling{0, 32000}) == 0);
  const double memory = h100.memory_bandwidth().value(), processors = static_cast<double>(h100.processors());
  // A row of bf16 is a block's, which pulls twice its share of the memory.
  const double row = 2 * 131072 / (2 * memory / processors);
  CHECK(kernels.seconds(ServedSampling{1, 131072}) == Approx(10e-6 + row));
  // Nine waves, or all bytes at half of the memory's rate.
  const double rows = 8 * processors + 1;
  CHECK(kernels.seconds(ServedSampling{rows, 131072}) ==
        Approx(10e-6 + std::max(9 * row, rows * 2 * 131072 / (0.5 * memory))));
}

TEST_CASE("products of many rows in nvfp4 are quicker where all kernels were timed, by what the document says") {
  const Settings document =
      orrery::scenarios::parse_yaml("name: x\nsearched: {nvfp4: 1.5}\nengines: {trtllm: {}}\n", "x.yaml");
  const DeviceProfile b200 = profile("b200-sxm-180gb");
  const ServingKernels kernels(b200, Engine::trtllm, &document);
  const auto gain = [&](WeightType type, double rows) {
    ServedProduct product{type, rows, 8192, 8192};
    const double unasked = kernels.seconds(product);
    product.kernels = ProductKernels::searched;
    return unasked / kernels.seconds(product);
  };
  CHECK(gain(WeightType::nvfp4, 4096) == Approx(1.5));
  CHECK(gain(WeightType::nvfp4, 512) == 1);
  // Halfway in the logarithm between 512 rows, of which a table has times, and 1024, which are training's.
  CHECK(gain(WeightType::nvfp4, 512 * std::sqrt(2.0)) == Approx(std::sqrt(1.5)));
  CHECK(gain(WeightType::fp8, 4096) == 1);
}

TEST_CASE("where no queries are packed, decodes beside prompts take a tile for each head; elsewhere as long as alone") {
  const Settings document = orrery::scenarios::parse_yaml(
      "name: x\nquery_tiles: {rate: 0.5, setup: 2 us, bandwidth: 0.8}\nengines: {vllm: {}, trtllm: {}}\n", "x.yaml");
  const DeviceProfile h100 = profile("h100-sxm-80gb");
  const ServingKernels kernels(h100, Engine::vllm, &document), others(h100, Engine::trtllm, &document);
  CHECK(kernels.packs_no_queries());
  CHECK(!others.packs_no_queries());
  const double processors = static_cast<double>(h100.processors());
  // 64 rows of a tile times a key and a value of 128 channels each.
  const double key = 4.0 * 64 * 128 / (0.5 * h100.peak(DataType::bf16).value() / processors);
  // One sequence waits for its keys one after the other, beside whatever prompts there are.
  const DecodeAttention one{1, 16384, 0, 32, 8, 128};
  CHECK(kernels.seconds_beside(one, 10e-6) == Approx(2e-6 + 16384 * key - 10e-6));
  CHECK(kernels.seconds_beside(one, 1) == Approx(32 / processors * (2e-6 + 16384 * key)));
  CHECK(others.seconds_beside(one, 10e-6) == others.seconds(one));
  // More sequences than processors: every head reads the keys of its own, 512 bytes each.
  const DecodeAttention many{1024, 1024.0 * 8192, 0, 32, 8, 128};
  const double read = 1024.0 * 8192 * 32 * 512 / (0.8 * h100.memory_bandwidth().value());
  const double computed = 1024 * 32 / processors * (2e-6 + 8192 * key);
  CHECK(kernels.seconds_beside(many, 1e-3) == Approx(std::max(read, computed)));
  // With no prompts at all, a launch too.
  CHECK(kernels.seconds_beside(many, 0) > std::max(read, computed));
  CHECK(kernels.seconds_beside(many, 0) < std::max(read, computed) + 50e-6);
  CHECK(kernels.seconds_beside({0, 0, 0, 32, 8, 128}, 1e-3) == 0);
}

TEST_CASE("documents of engines' kernels are checked") {
  const auto load = [](const std::string& text) {
    const Settings document = orrery::scenarios::parse_yaml(text, "x.yaml");
    ServingKernels(profile("h100-sxm-80gb"), Engine::vllm, &document);
  };
  CHECK_THROWS_AS(load("name: x\nengines: {vlm: {}}\n"), UserError);
  CHECK_THROWS_AS(load("name: x\nquery_tiles: {rate: 2, setup: 2 us, bandwidth: 0.8}\nengines: {}\n"), UserError);
  CHECK_THROWS_AS(load("name: x\nsearched: {nvfp4: 0.5}\nengines: {}\n"), UserError);
  CHECK_THROWS_AS(load("name: x\nengines: {vllm: {decode-attention: {bf32: {}}}}\n"), UserError);
  CHECK_THROWS_AS(load("name: x\nengines: {vllm: {all-reduce: {graph: {launch: 1 us}}}}\n"), UserError);
  const std::string whole =
      "name: x\nengines: {vllm: {all-reduce: {graph: {launch: 1 us, peer: 1 us, one_rate: 1 GB/s, second: 1 us, "
      "two_rate: 1 GB/s, library: 1 us, large_rate: 1 GB/s, correction: [{bytes: [1, 2], per_mille: '";
  CHECK_NOTHROW(load(whole + "1 -2'}]}}}}\n"));
  CHECK_THROWS_AS(load(whole + "1'}]}}}}\n"), UserError);
  CHECK_THROWS_AS(load(whole + "1 2 3'}]}}}}\n"), UserError);
  CHECK_THROWS_AS(load(whole + "1 x'}]}}}}\n"), UserError);
  CHECK_THROWS_AS(load(whole + "1 9999999'}]}}}}\n"), UserError);
}

TEST_CASE("engines' kernels beside the tables that they were fitted to") {
  struct Figure {
    const char* table;
    double median, p90;
  };
  // Percent: blocks and all-reduces and products as close as a serving step needs; attention of shapes that no model
  // has, by fallback kernels, is far off, so that its bar is looser.
  for (const Figure& f : {Figure{"gqa-decode", 5.5, 30},
                          {"mla-block-decode", 5, 15},
                          {"gemm-decode", 5.5, 20},
                          {"allreduce-small", 8, 20}}) {
    const std::string file = source(std::string("../shared/serving/kernels/") + f.table + "-h100-sxm.csv.gz");
    if (!std::filesystem::exists(file)) {
      orrery::tests::skipped("no published tables of engines' kernels");
      return;
    }
    const Settings document = serving_document("h100-sxm-80gb");
    const ServingSamples samples = read_serving_samples(file);
    for (const Engine engine : kAllEngines) {
      const ServingKernels kernels(profile("h100-sxm-80gb"), engine, &document);
      std::vector<double> errors;
      for (const ServingSample& s : samples.rows)
        if (s.engine == engine) errors.push_back(kernels.model().seconds(s.asked) / s.seconds - 1);
      if (errors.empty()) continue;
      const FitError error = summarise(errors);
      INFO(f.table << ", " << name_of(engine));
      CHECK(error.median_ape < f.median);
      CHECK(error.p90_ape < f.p90);
    }
  }
}

}  // namespace
