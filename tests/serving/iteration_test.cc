// Times of iterations: tables against the kernels themselves, and what an iteration is made of.
#include <fmt/format.h>

#include <cmath>

#include "scenarios/scenario.h"
#include "scenarios/serving.h"
#include "sim/hash.h"
#include "tests/catch.h"
#include "workloads/step/iteration_times.h"

namespace orrery::workloads {
namespace {

scenarios::ServingScenario scenario_of(const std::string& model, const std::string& layout,
                                       const std::string& more = "") {
  return scenarios::load_serving(
      scenarios::parse_yaml("name: t\ncluster: {device: h100-sxm-80gb, gpus: 8}\nmodel: " + model +
                                "\nprecision: {weights: bf16, kv_cache: bf16}\nsoftware: vllm-0.15\nserving: {pools: "
                                "[{replicas: 1, parallelism: " +
                                layout + more + "}]}\ntraffic: {concurrency: 4, input: 100, output: 10}\n",
                            "t.yaml"));
}

IterationTimes times_of(const scenarios::ServingScenario& s) {
  return {s.replica, scenarios::kernels_of(s.machine.device, s.replica.engine.kernels)};
}

std::int64_t draw(std::uint64_t n, std::int64_t low, std::int64_t high) {
  return low + static_cast<std::int64_t>(sim::mix64(n) % static_cast<std::uint64_t>(high - low + 1));
}

TEST_CASE("tabulated iterations are within 1 % of the kernels at random batches", "[serving]") {
  for (const auto& [model, layout] :
       {std::pair("llama3.1-70b", "{tensor: 4}"), std::pair("qwen3-8b", "{tensor: 1}"),
        std::pair("gemma2-27b", "{tensor: 2, pipeline: 2}"), std::pair("mixtral-8x7b", "{tensor: 4, expert: 2}"),
        std::pair("deepseek-v2-lite", "{tensor: 1, attention_data: 4, expert: 4}"),
        std::pair("qwen3-next-80b-a3b", "{tensor: 4}"), std::pair("deepseek-v3.2", "{tensor: 8}")}) {
    const auto s = scenario_of(model, layout);
    IterationTimes times = times_of(s);
    INFO(model);
    for (std::uint64_t i = 0; i < 60; ++i) {
      // Sequences of like caches, so that the direct computation needs one group.
      const std::int64_t sequences = draw(7 * i, 1, 300), each = draw(7 * i + 1, 1, 6000);
      const std::int64_t keys = sequences * (each + 1);
      const double direct = times.seconds({{{sequences, 1, each}}, sequences});
      const double table = static_cast<double>(times.decode(sequences, keys).at(keys)) / 1e12;
      INFO(sequences << " sequences of " << each);
      CHECK(std::abs(table / direct - 1) < 0.01);
      const std::int64_t fresh = draw(7 * i + 2, 2, 6000), cached = draw(7 * i + 3, 0, 3000);
      const serving::Piece piece{fresh, cached};
      const double mixed = times.seconds({{{sequences, 1, each}, {1, fresh, cached}}, sequences + 1});
      const double looked = static_cast<double>(times.mixed({sequences, keys, {&piece, 1}, sequences + 1})) / 1e12;
      INFO(fresh << " fresh on " << cached);
      CHECK(std::abs(looked / mixed - 1) < 0.01);
    }
  }
}

TEST_CASE("an iteration is the sum of its parts, and of each part a data sheet allows no less", "[serving]") {
  for (const auto& [model, layout] :
       {std::pair("llama3.1-70b", "{tensor: 4}"), std::pair("gemma2-27b", "{tensor: 2, pipeline: 2}"),
        std::pair("mixtral-8x7b", "{tensor: 4, expert: 2}"), std::pair("llama3.1-70b", "{tensor: 8}"),
        std::pair("deepseek-v2-lite", "{tensor: 1, attention_data: 4, expert: 4}"),
        std::pair("nemotron-h-8b", "{tensor: 2}"), std::pair("kimi-linear-48b-a3b", "{tensor: 2, expert: 2}"),
        std::pair("falcon-h1-34b", "{tensor: 2}"), std::pair("glm-5", "{tensor: 8, expert: 8}")}) {
    const auto s = scenario_of(model, layout);
    const IterationTimes times = times_of(s);
    INFO(model << " " << layout);
    for (const PassTokens& tokens : {PassTokens{{{3, 1, 900}}, 3}, PassTokens{{{100, 1, 4000}}, 100},
                                     PassTokens{{{1, 3000, 0}}, 1}, PassTokens{{{40, 1, 500}, {1, 700, 300}}, 41}}) {
      double sum = 0;
      for (const PartOfIteration& part : times.parts(tokens)) {
        sum += part.times * part.seconds;
        CHECK(part.seconds > 0);
      }
      CHECK(sum == Approx(times.seconds(tokens)).epsilon(1e-9));
    }
  }
}

TEST_CASE("shared experts beside the routed ones hide behind them, and no longer than those take", "[serving]") {
  auto s = scenario_of("deepseek-v2-lite", "{tensor: 1}");
  const auto with = [&](calibration::SharedExperts shared, std::int64_t sequences) {
    s.replica.engine.habits.shared = shared;
    return times_of(s).seconds({{{sequences, 1, 500}}, sequences});
  };
  double routed = 0, shared = 0;
  s.replica.engine.habits.shared = calibration::SharedExperts::in_line;
  for (const PartOfIteration& part : times_of(s).parts({{{4, 1, 500}}, 4})) {
    if (part.name == "experts" || part.name == "router") routed += part.times * part.seconds;
    if (part.name.starts_with("shared")) shared += part.times * part.seconds;
  }
  const double apart = with(calibration::SharedExperts::in_line, 4),
               beside = with(calibration::SharedExperts::beside, 4);
  CHECK(beside < apart);
  CHECK(beside >= apart - std::min(routed, shared));
  // Beyond the largest captured size nothing runs beside anything.
  const std::int64_t many = s.replica.engine.largest_graph() + 1;
  CHECK(with(calibration::SharedExperts::beside, many) == with(calibration::SharedExperts::in_line, many));
}

TEST_CASE("a tensor group over two nodes sums up as a collective of training does", "[serving]") {
  const auto at = [](const std::string& nodes) {
    return scenarios::load_serving(scenarios::parse_yaml(
        "name: t\ncluster: {device: h100-sxm-80gb, gpus: 8" + nodes +
            "}\nmodel: llama3.1-70b\nprecision: {weights: bf16, kv_cache: bf16}\nsoftware: vllm-0.15\nserving: {pools: "
            "[{replicas: 1, parallelism: {tensor: 8}}]}\ntraffic: {concurrency: 4, input: 100, output: 10}\n",
        "t.yaml"));
  };
  const auto sum_of = [](const scenarios::ServingScenario& s) {
    for (const PartOfIteration& part : times_of(s).parts({{{64, 1, 1000}}, 64}))
      if (part.name == "all-reduce") return part.seconds;
    return 0.0;
  };
  const auto two = at(", gpus_per_node: 4, fabric: ndr-rail");
  // 64 rows of 8192 elements of 2 bytes.
  CHECK(sum_of(two) == Approx(two.replica.across->seconds(8, 64 * 8192 * 2)));
  CHECK(sum_of(two) > sum_of(at("")));
  // A megabyte and its neighbours: what is between lies between, and a larger buffer takes no less.
  const double low = two.replica.across->seconds(8, 1 << 20), high = two.replica.across->seconds(8, 1 << 21);
  CHECK(two.replica.across->seconds(8, 1.5 * (1 << 20)) == Approx((low + high) / 2));
  CHECK(low < high);
}

TEST_CASE("an iteration with prompts is padded where its pieces are captured, and where not, is not", "[serving]") {
  const auto norm = [](scenarios::ServingScenario& s, std::int64_t tokens, double layer) {
    s.replica.engine.host.layer = layer;
    for (const PartOfIteration& part : times_of(s).parts({{{1, tokens, 0}}, 1}))
      if (part.name == "norm") return part.bytes;
    return 0.0;
  };
  auto s = scenario_of("qwen3-8b", "{tensor: 1}");
  const double pieces = 25e-6;
  CHECK(norm(s, 100, pieces) == norm(s, 104, pieces));
  CHECK(norm(s, 100, 0) / norm(s, 104, 0) == Approx(100.0 / 104));
}

TEST_CASE("a board's limit stretches what computes, and no iteration draws more", "[serving]") {
  for (const auto& [device, model] : {std::pair("h100-sxm-80gb", "llama3.1-8b"), std::pair("a100-sxm-80gb", "qwen3-8b"),
                                      std::pair("b200-sxm-180gb", "deepseek-v2-lite")}) {
    const auto at = [&, device = device, model = model](const std::string& power) {
      return scenarios::load_serving(scenarios::parse_yaml(
          fmt::format(
              "name: t\ncluster: {{device: {}, gpus: 1}}\nmodel: {}\nprecision: {{weights: bf16, kv_cache: "
              "bf16}}\nsoftware: vllm-0.15\n{}serving: {{pools: [{{replicas: 1}}]}}\ntraffic: {{concurrency: 4, "
              "input: 100, output: 10}}\n",
              device, model, power),
          "t.yaml"));
    };
    INFO(device << " " << model);
    auto free = at("");
    const double limit = free.replica.power.board.limit;
    REQUIRE(limit > 0);
    free.replica.power = {};
    const PassTokens prompts{{{4, 2000, 0}}, 4}, decodes{{{2, 1, 3000}}, 2};
    const double full = times_of(free).seconds(prompts), slow = times_of(free).seconds(decodes);
    double before = full;
    for (const double share : {1.0, 0.8, 0.6, 0.5}) {
      const auto capped = at(fmt::format("power: {{cap: {} W}}\n", share * limit));
      const IterationTimes times = times_of(capped);
      const double now = times.seconds(prompts);
      CHECK(now >= before * (1 - 1e-9));
      before = now;
      // What waits for memory takes as long as ever, until next to nothing is left for it.
      if (share >= 0.8) CHECK(times.seconds(decodes) == Approx(slow).epsilon(0.02));
      double sum = 0;
      calibration::Duty duty;
      for (const PartOfIteration& part : times_of(free).parts(prompts)) {
        GpuWork one;
        one.add(part, part.times);
        duty += one.duty;
      }
      for (const PartOfIteration& part : times.parts(prompts)) sum += part.times * part.seconds;
      CHECK(sum == Approx(now).epsilon(1e-9));
      if (capped.replica.power.board.governs && capped.replica.power.clock(duty) > calibration::kLowestClock) {
        const double seconds =
            calibration::seconds_at(capped.replica.power.board, duty, 1) + capped.replica.power.stretch(duty);
        CHECK(capped.replica.power.joules(duty) + capped.replica.power.board.standing * seconds <=
              share * limit * seconds * (1 + 1e-6));
      }
    }
    CHECK(before > 1.05 * full);
  }
}

TEST_CASE("scales of blocks are found as they are cast, those of a tensor a checkpoint knows", "[serving]") {
  const auto takes = [](const std::string& type, const std::string& casts) {
    const auto s = scenarios::load_serving(scenarios::parse_yaml(
        fmt::format("name: t\ncluster: {{device: b200-sxm-180gb, gpus: 1}}\nmodel: llama3.1-8b\nprecision: {{weights: "
                    "{0}}}\nsoftware: {{inherits: trtllm-1.0, kernels: {{casts: {1}}}}}\nserving: {{pools: [{{}}]}}\n"
                    "traffic: {{concurrency: 4, input: 100, output: 10}}\n",
                    type, casts),
        "t.yaml"));
    return times_of(s).seconds({{{16, 1, 900}}, 16});
  };
  CHECK(takes("nvfp4", "known_scales") == takes("nvfp4", "found_scales"));
  CHECK(takes("nvfp4", "fused") < takes("nvfp4", "known_scales"));
  CHECK(takes("fp8", "known_scales") < takes("fp8", "found_scales"));
}

TEST_CASE("TensorRT-LLM's products in nvfp4 are those of SGLang's table where there is one", "[serving]") {
  using calibration::Engine;
  const calibration::ServedProduct product{calibration::WeightType::nvfp4, 8, 8192, 8192},
      other{calibration::WeightType::fp8, 8, 8192, 8192};
  for (const auto& [name, has] : {std::pair("b200-sxm-180gb", true), {"b300-sxm-288gb", false}}) {
    const calibration::DeviceProfile device =
        scenarios::load_serving(
            scenarios::parse_yaml(fmt::format("name: t\ncluster: {{device: {}, gpus: 1}}\nmodel: llama3.1-8b\n"
                                              "software: trtllm-1.0\nserving: {{pools: [{{}}]}}\n"
                                              "traffic: {{concurrency: 4, input: 100, output: 10}}\n",
                                              name),
                                  "t.yaml"))
            .machine.device;
    const auto of = [&device = device](Engine engine, const calibration::ServedProduct& of_this) {
      return scenarios::kernels_of(device, engine).seconds(of_this);
    };
    INFO(name);
    CHECK((of(Engine::trtllm, product) == of(Engine::sglang, product)) == has);
    CHECK(of(Engine::trtllm, other) != of(Engine::sglang, other));
  }
}

TEST_CASE("limits of tokens are a micro-batch's, and of sequences whose the engine says", "[serving]") {
  auto s = scenario_of("llama3.1-70b", "{tensor: 2, pipeline: 4}", ", max_sequences: 100, max_batched_tokens: 1000");
  CHECK(s.scheduler_limits(7).batched_tokens == 4000);
  CHECK(s.scheduler_limits(7).sequences == 100);
  s.replica.engine.sequences_of = calibration::SequencesOf::stage;
  CHECK(s.scheduler_limits(7).sequences == 400);
  s.replica.layout = {.tensor = 1, .pipeline = 2, .attention_data = 4};
  CHECK(s.scheduler_limits(7).sequences == 800);
  CHECK(s.scheduler_limits(7).batched_tokens == 8000);
}

TEST_CASE("segments meet: an iteration's time has no jumps beyond rounding", "[serving]") {
  IterationTimes times = times_of(scenario_of("llama3.1-70b", "{tensor: 4}"));
  for (const std::int64_t sequences : {1, 3, 64}) {
    std::int64_t keys = sequences;
    for (int i = 0; i < 60 && keys < 10'000'000; ++i) {
      const serving::Segment here = times.decode(sequences, keys);
      CHECK(here.from <= keys);
      CHECK(here.until > keys);
      const serving::Segment next = times.decode(sequences, here.until);
      // The slope is a whole number of picoseconds: off by half of one for each key.
      CHECK(std::abs(here.at(here.until) - next.at(here.until)) <= (here.until - here.from) / 2 + 1);
      keys = here.until;
    }
  }
}

TEST_CASE("weights and caches are what the model's shapes say", "[serving]") {
  // Llama 3.1 70B on 4 ranks: 70.55e9 parameters of 2 bytes but for norms; keys and values of 2 of 8 heads of 128.
  const auto s = scenario_of("llama3.1-70b", "{tensor: 4}");
  const IterationTimes times = times_of(s);
  CHECK(weight_bytes(times.pass()) == Approx(70.55e9 * 2 / 4).epsilon(0.002));
  CHECK(cache_bytes_per_token(times.pass()) == Approx(80 * 2 * 2 * 128 * 2));
  // FLOPs of a token: two for each parameter that it meets, the table aside.
  const double head = 2.0 * 128256 / 4 * 8192;
  double all = 0;
  for (const PartOfIteration& part : times.parts({{{1, 1, 1}}, 1})) {
    if (part.name == "head") CHECK(part.flops == Approx(head));
    all += part.times * part.flops;
  }
  CHECK(all == Approx(2 * (70.55e9 - 128256.0 * 8192) / 4).epsilon(0.002));
  // Latent attention: 512 + 64 elements a token, whatever the ranks.
  const auto latent = scenario_of("deepseek-v2-lite", "{tensor: 4}");
  CHECK(cache_bytes_per_token(times_of(latent).pass()) == Approx(27 * 576 * 2));
}

/// Of a pool that writes answers.
IterationTimes answers_of(const std::string& layout) {
  const scenarios::ServingScenario s = scenarios::load_serving(scenarios::parse_yaml(
      "name: t\ncluster: {device: h100-sxm-80gb, gpus: 32, fabric: ndr-rail}\nmodel: qwen3-235b-a22b\n"
      "precision: {weights: fp8-block, kv_cache: bf16}\nsoftware: sglang-0.5\nserving: {pools: [{role: prefill, "
      "parallelism: {tensor: 8}}, {role: decode, parallelism: " +
          layout + "}]}\ntraffic: {concurrency: 4, input: 100, output: 10}\n",
      "t.yaml"));
  return {s.answers->replica, scenarios::kernels_of(s.machine.device, s.answers->replica.engine.kernels)};
}

TEST_CASE("experts on GPUs of their own: the weights are shared out, and no GPU has both", "[serving]") {
  const auto apart = answers_of("{attention_data: 8, expert: 8, expert_gpus: 8, micro_batches: 3}"),
             together = answers_of("{attention_data: 8, expert: 8}");
  CHECK(apart_weight_bytes(together.pass()) == 0);
  CHECK(weight_bytes(apart.pass()) + apart_weight_bytes(apart.pass()) == Approx(weight_bytes(together.pass())));
  // 94 layers of 128 experts of three products of 4096 x 1536, a byte each, over eight.
  CHECK(apart_weight_bytes(apart.pass()) == Approx(94 * 128 / 8 * 3 * 4096.0 * 1536).epsilon(0.01));
  CHECK(apart.replica().layout.gpus() == 16);
}

TEST_CASE("prompts of one length are dealt out to attention groups as any are", "[serving]") {
  const auto s = scenario_of("deepseek-v2-lite", "{tensor: 1, attention_data: 4, expert: 4}");
  const IterationTimes times = times_of(s);
  PassTokens apart{{}, 8};
  for (int i = 0; i < 8; ++i) apart.groups.push_back({1, 700, 0});
  CHECK(times.seconds({{{8, 700, 0}}, 8}) == Approx(times.seconds(apart)));
  CHECK(times.seconds({{{8, 700, 0}}, 8}) < times.seconds({{{1, 5600, 0}}, 1}));  // which one group has to itself
}

TEST_CASE("on no more ranks than a token has experts all ranks gather all rows, where the engine does", "[serving]") {
  const auto times = [](const std::string& software, int gpus) {
    const std::string n = std::to_string(gpus);
    const scenarios::ServingScenario s = scenarios::load_serving(
        scenarios::parse_yaml("name: t\ncluster: {device: gb200, gpus: " + n +
                                  ", fabric: nvl72-ndr}\nmodel: qwen3-235b-a22b\n"
                                  "precision: {weights: fp8-block, kv_cache: bf16}\nsoftware: " +
                                  software + "\nserving: {pools: [{parallelism: {attention_data: " + n +
                                  ", expert: " + n + "}}]}\ntraffic: {concurrency: 4, input: 100, output: 10}\n",
                              "t.yaml"));
    return IterationTimes(s.replica, scenarios::kernels_of(s.machine.device, s.replica.engine.kernels));
  };
  const auto sent = [](const IterationTimes& t, std::int64_t sequences) {
    for (const PartOfIteration& part : t.parts({{{sequences, 1, 500}}, sequences}))
      if (part.name == "dispatch") return part.seconds;
    return 0.0;
  };
  const char* exchanges = "{inherits: trtllm-1.0, kernels: {few_ranks: exchange}}";
  // Eight of 128 experts a token, on eight ranks of 8 rows each, of 4096 elements of two bytes.
  const IterationTimes eight = times("trtllm-1.0", 8);
  CHECK(sent(eight, 64) == Approx(eight.kernels().seconds(calibration::ServedAllReduce{8, 64 * 4096 * 2.0, true}) / 2));
  CHECK(sent(eight, 64) != Approx(sent(times(exchanges, 8), 64)));
  // On sixteen each goes to half of them at most.
  CHECK(sent(times("trtllm-1.0", 16), 128) == Approx(sent(times(exchanges, 16), 128)));
}

TEST_CASE("micro-batches between attention and experts hide the quicker side, and never more", "[serving]") {
  const PassTokens few{{{16, 1, 2000}}, 16}, many{{{2048, 1, 2000}}, 2048};
  const auto seconds = [&](int batches, const PassTokens& tokens) {
    return answers_of("{attention_data: 8, expert: 8, expert_gpus: 8, micro_batches: " + std::to_string(batches) + "}")
        .seconds(tokens);
  };
  const double one = seconds(1, many), three = seconds(3, many);
  CHECK(three < one);
  // One side at least is busy all the time: of two sides and their exchanges the longest is a quarter or more.
  CHECK(three > one / 4);
  // Of few sequences each part reads its weights for a batch that is no shorter.
  CHECK(seconds(4, few) > seconds(1, few));
  double sum = 0;
  const IterationTimes times = answers_of("{attention_data: 8, expert: 8, expert_gpus: 8, micro_batches: 3}");
  for (const PartOfIteration& part : times.parts(many)) sum += part.times * part.seconds;
  CHECK(sum == Approx(three).epsilon(1e-3));
}

TEST_CASE("more keys than heads of them: ranks hold copies", "[serving]") {
  const auto four = times_of(scenario_of("qwen2.5-7b", "{tensor: 4}")),
             two = times_of(scenario_of("qwen2.5-7b", "{tensor: 2}"));
  CHECK(cache_bytes_per_token(four.pass()) == Approx(cache_bytes_per_token(two.pass()) / 2));
}

TEST_CASE("what is left for the cache is what the engine takes less all that it holds", "[serving]") {
  const auto s = scenario_of("llama3.1-70b", "{tensor: 4}", ", max_sequences: 128, max_batched_tokens: 8192");
  const IterationTimes times = times_of(s);
  const double device = static_cast<double>(s.machine.device.memory().value());
  const ServingMemory memory = serving_memory(s.replica, times.pass(), device, s.limits);
  CHECK(memory.given == Approx(0.9 * device));
  CHECK(memory.cache + memory.held() == Approx(memory.given));
  CHECK(static_cast<double>(memory.blocks) == std::floor(memory.cache / (16 * cache_bytes_per_token(times.pass()))));
  ServingLimits more = s.limits;
  more.max_batched_tokens *= 2;
  CHECK(serving_memory(s.replica, times.pass(), device, more).blocks < memory.blocks);
}

TEST_CASE("tokens of a pass and the pairs that attention sees", "[serving]") {
  const PassTokens pass{{{2, 3, 0}, {4, 1, 10}}, 6};
  CHECK(pass.tokens() == 10);
  CHECK(pass.pairs() == 2 * (1 + 2 + 3) + 4 * 11);
  CHECK(pass.pairs(2) == 2 * (1 + 2 + 2) + 4 * 2);
  CHECK(pairs({1, 4, 2}, 4) == 3 + 4 + 4 + 4);
}

TEST_CASE("batches are padded to the next captured size", "[serving]") {
  const calibration::ServingEngine engine =
      scenarios::load_engine(sim::Settings::scalar("vllm-0.15", {"t.yaml", 1, 1}));
  CHECK(engine.padded(3) == 4);
  CHECK(engine.padded(9) == 16);
  CHECK(engine.padded(257) == 272);
  CHECK(engine.padded(512) == 512);
  CHECK(engine.padded(513) == 0);
}

}  // namespace
}  // namespace orrery::workloads
