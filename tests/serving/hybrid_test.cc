// Models whose blocks follow a pattern, as engines serve them: mixers with a state and attention to some of the keys.
#include <fmt/format.h>

#include <cmath>

#include "scenarios/scenario.h"
#include "scenarios/serving.h"
#include "tests/catch.h"
#include "workloads/step/iteration_times.h"
#include "workloads/step/serving_memory.h"

namespace orrery::workloads {
namespace {

scenarios::ServingScenario served(const std::string& model, const std::string& layout = "{tensor: 1}",
                                  const std::string& pool = "", const std::string& precision = "kv_cache: bf16") {
  return scenarios::load_serving(scenarios::parse_yaml(
      "name: t\ncluster: {device: h100-sxm-80gb, gpus: 8}\nmodel: " + model + "\nprecision: {weights: bf16, " +
          precision + "}\nsoftware: sglang-0.5\nserving: {pools: [{replicas: 1, parallelism: " + layout + pool +
          "}]}\ntraffic: {concurrency: 4, input: 100, output: 10}\n",
      "t.yaml"));
}

IterationTimes times_of(const scenarios::ServingScenario& s) {
  return {s.replica, scenarios::kernels_of(s.machine.device, s.replica.engine.kernels)};
}

constexpr const char* kSizes =
    "hidden: 2048, vocab: 32000, seq: 4096, gated_mlp: true, positions: rotary, norm: rms_norm, biases: none, "
    "tied_embeddings: false";

TEST_CASE("a pattern of attention and a channel alone is the model of layers that are alike", "[serving]") {
  const std::string sizes = kSizes;
  const std::string attention = "heads: 16, kv_heads: 4, head_dim: 128, qk_norm: true",
                    experts = "experts: 32, top_k: 4, expert_ffn_hidden: 1024, shared_experts: 1";
  const auto of_layers = [&](const std::string& kind, const std::string& more) {
    return fmt::format("{{kind: {}, layers: 12, {}, {}, {}}}", kind, attention, more, sizes);
  };
  const auto of_blocks = [&](const std::string& channel) {
    return fmt::format(
        "{{blocks: {{pattern: A+C, repeat: 12}}, mixers: {{A: {{kind: attention, {}}}}}, channels: {{C: {}}}, {}}}",
        attention, channel, sizes);
  };
  for (const auto& [layers, blocks, layout] :
       {std::tuple(of_layers("gpt", "ffn_hidden: 6144"), of_blocks("{kind: mlp, ffn_hidden: 6144}"), "{tensor: 2}"),
        std::tuple(of_layers("moe", "ffn_hidden: 6144, " + experts), of_blocks("{kind: moe, " + experts + "}"),
                   "{tensor: 2, attention_data: 2, expert: 4}")}) {
    INFO(blocks);
    const IterationTimes a = times_of(served(layers, layout)), b = times_of(served(blocks, layout));
    CHECK(weight_bytes(a.pass()) == weight_bytes(b.pass()));
    CHECK(cache_bytes_per_token(a.pass()) == cache_bytes_per_token(b.pass()));
    CHECK(cache_bytes_per_sequence(b.pass()) == 0);
    for (const PassTokens& tokens : {PassTokens{{{3, 1, 900}}, 3}, PassTokens{{{100, 1, 4000}}, 100},
                                     PassTokens{{{1, 3000, 0}}, 1}, PassTokens{{{40, 1, 500}, {1, 700, 300}}, 41}})
      CHECK(a.seconds(tokens) == b.seconds(tokens));
  }
}

TEST_CASE("a served hybrid weighs what its parameters do", "[serving]") {
  for (const char* model : {"qwen3-next-80b-a3b", "qwen3.5-35b-a3b", "nemotron-h-8b", "falcon-h1-34b", "minimax-m1",
                            "kimi-linear-48b-a3b", "glm-5", "deepseek-v3.2", "gemma3-12b", "granite-4.0-h-small"}) {
    const auto s = served(model);
    INFO(model);
    CHECK(weight_bytes(times_of(s).pass()) == Approx(2 * parameter_count(s.replica.model)).epsilon(0.005));
  }
}

TEST_CASE("states are a sequence's, keys a token's", "[serving]") {
  // Qwen3-Next: of 48 blocks 36 have 32 heads of 128 x 128 and the last 3 positions of 2 x 16 x 128 + 32 x 128
  // channels, 12 keys and values of 2 heads of 256.
  const IterationTimes whole = times_of(served("qwen3-next-80b-a3b"));
  const double states = 32 * 128 * 128 * 4, taps = 3 * (2 * 16 * 128 + 32 * 128) * 2;
  CHECK(cache_bytes_per_sequence(whole.pass()) == Approx(36 * (states + taps)));
  CHECK(cache_bytes_per_token(whole.pass()) == Approx(12 * 2 * 2 * 256 * 2));
  const IterationTimes halves =
      times_of(served("qwen3-next-80b-a3b", "{tensor: 2}", "", "kv_cache: bf16, states: bf16"));
  CHECK(cache_bytes_per_sequence(halves.pass()) == Approx(36 * (states / 2 + taps) / 2));
  // DeepSeek-V3.2 in 8 bits: 512 channels with a scale for each 128, 64 rotated ones in 16 bits, and the indexer's key
  // of 128 with its scale, in each of 61 layers.
  const IterationTimes sparse = times_of(served("deepseek-v3.2", "{tensor: 8}", "", "kv_cache: fp8"));
  CHECK(cache_bytes_per_token(sparse.pass()) == Approx(61 * (512 + 16 + 128 + 128 + 4)));
  CHECK(cache_bytes_per_sequence(sparse.pass()) == 0);
  // DeepSeek-V4-Pro: 9.62 GiB for a sequence of 2^20 tokens with all in 16 bits (AINews of 2026-04-25), where the
  // indexer's keys, one for four tokens in 30 of 61 layers, have 8 here with a scale in fp32.
  const double million = 1 << 20, in_16_bits = 30 * million / 4 * (2 * 128 - (128 + 4));
  const IterationTimes longest = times_of(served("deepseek-v4-pro", "{tensor: 8}"));
  CHECK((million * cache_bytes_per_token(longest.pass()) + in_16_bits) / (1 << 30) == Approx(9.62).epsilon(0.001));
}

TEST_CASE("what a state takes does not grow with what is behind it", "[serving]") {
  const auto times =
      times_of(served(fmt::format("{{blocks: {{pattern: M+C, repeat: 8}}, mixers: {{M: {{kind: gated_delta, heads: 16, "
                                  "head_dim: 128}}}}, channels: {{C: {{kind: mlp, "
                                  "ffn_hidden: 6144}}}}, {}}}",
                                  kSizes)));
  CHECK(times.seconds({{{16, 1, 100}}, 16}) == times.seconds({{{16, 1, 100'000}}, 16}));
  CHECK(cache_bytes_per_token(times.pass()) == 0);
  // Of chosen keys it grows until there are as many as the choice, and then by the indexer's scores alone.
  const auto chosen = times_of(served("deepseek-v3.2", "{tensor: 8}"));
  const auto all = times_of(served("deepseek-v3", "{tensor: 8}"));
  const auto grown = [](const IterationTimes& t) {
    return t.seconds({{{32, 1, 60'000}}, 32}) - t.seconds({{{32, 1, 15'000}}, 32});
  };
  CHECK(grown(chosen) < grown(all) / 2);
}

TEST_CASE("states have places set aside, of fewer sequences where they would leave keys little room", "[serving]") {
  const auto s = served("qwen3-next-80b-a3b", "{tensor: 4}", ", max_sequences: 64");
  const IterationTimes times = times_of(s);
  const double device = static_cast<double>(s.machine.device.memory().value()),
               each = cache_bytes_per_sequence(times.pass());
  const ServingMemory memory = serving_memory(s.replica, times.pass(), device, s.limits);
  CHECK(memory.sequences == 64);
  CHECK(memory.states == Approx(64 * each));
  CHECK(memory.cache + memory.states + memory.held() == Approx(memory.given));
  ServingLimits more = s.limits;
  more.max_sequences = 100'000;
  const ServingMemory full = serving_memory(s.replica, times.pass(), device, more);
  CHECK(full.sequences < 100'000);
  CHECK(full.states / full.cache == Approx(0.9).epsilon(0.01));
  CHECK_FALSE(s.prefix_caching);
}

TEST_CASE("pieces of prompts of a mean length are scanned as one batch of them", "[serving]") {
  const IterationTimes times = times_of(served("nemotron-h-8b", "{tensor: 2}"));
  double states = 0, of_two = 0;
  for (const PartOfIteration& part : times.parts({{{1, 2048, 0}}, 1}))
    if (part.name == "states of prompts") states += part.times * part.seconds;
  for (const PartOfIteration& part : times.parts({{{2, 2048, 0}}, 2}))
    if (part.name == "states of prompts") of_two += part.times * part.seconds;
  CHECK(states > 0);
  CHECK(of_two > states);
  CHECK(of_two <= 2.5 * states);
}

std::string run_of_transformer(const char* shared) {
  return fmt::format(
      "[{{op: norm}}, {{op: product, in: 2048, out: 1024, cut: out, shared: {0}}}, {{op: product, in: 2048, out: 1024, "
      "cut: out, beside: true, shared: {0}}}, {{op: product, in: 2048, out: 1024, cut: out, beside: true, shared: "
      "{0}}}, {{op: attention, heads: 8, head_dim: 128}}, {{op: product, in: 1024, out: 2048, cut: in, shared: {0}}}, "
      "{{op: residual}}]",
      shared);
}

/// Two layers whose second reads the first one's keys (shares) or makes its own.
std::string two_layers(bool shares) {
  return fmt::format(
      "{{blocks: A+C B+C, mixers: {{A: {{kind: attention, heads: 16, kv_heads: 4, head_dim: 128}}, B: {{kind: "
      "attention, heads: 16, kv_heads: 4, head_dim: 128, shares_keys: {}}}}}, channels: {{C: {{kind: mlp, ffn_hidden: "
      "6144}}}}, {}}}",
      shares, kSizes);
}

TEST_CASE("a layer that reads the keys of one ahead makes and leaves none, and attends as long", "[serving]") {
  const IterationTimes own = times_of(served(two_layers(false))), shared = times_of(served(two_layers(true)));
  const double keys = 2 * 4 * 128;
  CHECK(cache_bytes_per_token(own.pass()) == 2 * keys * 2);
  CHECK(cache_bytes_per_token(shared.pass()) == keys * 2);
  CHECK(weight_bytes(own.pass()) - weight_bytes(shared.pass()) == keys * 2048 * 2);
  const auto seconds_of = [](const IterationTimes& times, std::string_view name) {
    double seconds = 0;
    for (const PartOfIteration& part : times.parts({{{64, 1, 4000}}, 64}))
      if (part.name == name) seconds += part.times * part.seconds;
    return seconds;
  };
  CHECK(seconds_of(own, "attention of decodes") == seconds_of(shared, "attention of decodes"));
  CHECK(seconds_of(shared, "qkv") < seconds_of(own, "qkv"));
}

TEST_CASE("operators that attend leave keys, those of shared weights hold none and are read as often", "[serving]") {
  const auto model = [](const char* shared) {
    return fmt::format(
        "{{blocks: A+C Z A+C Y, mixers: {{A: {{kind: attention, heads: 16, kv_heads: 4, head_dim: 128}}, Z: {{kind: "
        "operators, run: {0}}}, Y: {{kind: operators, run: {1}}}}}, channels: {{C: {{kind: mlp, ffn_hidden: 6144}}}}, "
        "{2}}}",
        run_of_transformer("false"), run_of_transformer(shared), kSizes);
  };
  const auto own_scenario = served(model("false")), shared_scenario = served(model("true"));
  const IterationTimes own = times_of(own_scenario), shared = times_of(shared_scenario);
  // Two layers of attention of 4 heads of keys, two of operators with 8, of 16 bits.
  CHECK(cache_bytes_per_token(own.pass()) == 2 * (2 * 2 * 4 * 128 + 2 * 2 * 8 * 128));
  CHECK(cache_bytes_per_token(shared.pass()) == cache_bytes_per_token(own.pass()));
  CHECK(weight_bytes(own.pass()) - weight_bytes(shared.pass()) == 2.0 * (2048 * 1024 * 3 + 1024 * 2048));
  const auto seconds_of = [](const IterationTimes& times) {
    double seconds = 0;
    for (const PartOfIteration& part : times.parts({{{16, 1, 2000}}, 16})) seconds += part.times * part.seconds;
    return seconds;
  };
  CHECK(seconds_of(own) == Approx(seconds_of(shared)));
}

TEST_CASE("operators and inputs of layers are served as they weigh", "[serving]") {
  const std::string model = fmt::format(
      "{{blocks: {{pattern: A+C+P, repeat: 4}}, layer_inputs: {{width: 256, vocab: 30000}}, post_norm: true, mixers: "
      "{{A: {{kind: attention, heads: 16, kv_heads: 4, head_dim: 128}}, P: {{kind: operators, run: [{{op: product, in: "
      "2048, out: 256}}, {{op: elementwise, reads: 512, writes: 256}}, {{op: product, in: 256, out: 2048}}, {{op: "
      "residual}}]}}}}, channels: {{C: {{kind: mlp, ffn_hidden: 6144}}}}, {}}}",
      kSizes);
  const auto s = served(model);
  const IterationTimes times = times_of(s);
  CHECK(weight_bytes(times.pass()) == Approx(2 * parameter_count(s.replica.model)).epsilon(0.001));
  const auto rows_of = [&](std::string_view name) {
    double count = 0;
    for (const PartOfIteration& part : times.parts({{{8, 1, 100}}, 8}))
      if (part.name == name) count += part.times;
    return count;
  };
  CHECK(rows_of("operator product") == 4 * 2);
  CHECK(rows_of("layer input embedding") == 1);
}

TEST_CASE("an encoder answers behind its prompts, of which every token sees all", "[serving]") {
  const auto model = [](const char* kind) {
    return fmt::format(
        "{{blocks: {{pattern: B+C, repeat: 12}}, mixers: {{B: {{kind: {}, heads: 16, kv_heads: 16, head_dim: 128}}}}, "
        "channels: {{C: {{kind: mlp, ffn_hidden: 6144}}}}, {}}}",
        kind, kSizes);
  };
  const auto scenario = [&](const std::string& sizes, const char* output, const char* pool) {
    return scenarios::load_serving(scenarios::parse_yaml(
        fmt::format("name: t\ncluster: {{device: h100-sxm-80gb, gpus: 8}}\nmodel: {}\nprecision: {{weights: bf16, "
                    "kv_cache: bf16}}\nsoftware: vllm-0.15\nserving: {{pools: [{{replicas: 1, parallelism: {{tensor: "
                    "1}}{}}}]}}\ntraffic: {{concurrency: 4, input: 512, output: {}}}\n",
                    sizes, pool, output),
        "t.yaml"));
  };
  const auto s = scenario(model("bidirectional"), "1", "");
  CHECK_FALSE(s.chunked_prefill);
  CHECK_FALSE(s.prefix_caching);
  const IterationTimes encoder = times_of(s), decoder = times_of(scenario(model("attention"), "1", ""));
  CHECK(cache_bytes_per_token(encoder.pass()) == 0);
  // The table of words stays; the head, as large, goes for a pooler.
  CHECK(weight_bytes(decoder.pass()) - weight_bytes(encoder.pass()) == (32000.0 - 2048) * 2048 * 2);
  const auto flops = [](const IterationTimes& times) {
    double sum = 0;
    for (const PartOfIteration& part : times.parts({{{1, 4096, 0}}, 1}))
      if (part.name == "attention of prompts") sum += part.times * part.flops;
    return sum;
  };
  CHECK(flops(encoder) == Approx(12 * 4 * 4096.0 * 4096 * 16 * 128));
  CHECK(flops(encoder) == Approx(2 * flops(decoder)).epsilon(0.001));
  CHECK_THROWS_WITH(scenario(model("bidirectional"), "10", ""), ContainsSubstring("expected output: 1"));
  CHECK_THROWS_WITH(scenario(model("bidirectional"), "1", ", chunked_prefill: true"),
                    ContainsSubstring("chunked_prefill: false"));
}

TEST_CASE("what of a pattern cannot be served is refused", "[serving]") {
  CHECK_THROWS_WITH(served("qwen3-next-80b-a3b", "{tensor: 3}"), ContainsSubstring("parallelism.tensor"));
  CHECK_THROWS_WITH(served("llama3.1-8b", "{tensor: 1}", "", "kv_cache: bf16, states: bf16"),
                    ContainsSubstring("is of mixers with a state"));
  CHECK_THROWS_WITH(served("dit-xl-2"), ContainsSubstring("blocks of operators"));
  CHECK_THROWS_WITH(served("t5-11b"), ContainsSubstring("a decoder behind an encoder of text"));
}

}  // namespace
}  // namespace orrery::workloads
