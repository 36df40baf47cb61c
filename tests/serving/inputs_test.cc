// Every key of serving, traffic and their precision counts: each moves what comes out, or is refused with a reason. A
// key that is missing here fails the test.
#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "scenarios/scenario.h"
#include "scenarios/schema.h"
#include "scenarios/serving.h"
#include "tests/catch.h"
#include "workloads/runs/serving/serve.h"
#include "workloads/step/serving_memory.h"

using namespace orrery;

namespace {

constexpr const char* kBase = R"(
name: t
cluster: {device: h100-sxm-80gb, gpus: 8}
model: mixtral-8x7b
precision: {weights: bf16, kv_cache: bf16}
software: vllm-0.15
serving:
  pools: [{parallelism: {tensor: 2}, max_sequences: 16, max_batched_tokens: 512}]
)";
constexpr const char* kOpen =
    "traffic: {rate: 20/s, input: {mean: 300, distribution: lognormal}, output: {mean: 40, distribution: lognormal}, "
    "prefix: {tokens: 64, groups: 3}, duration: 4 s}\n";
constexpr const char* kClosed = "traffic: {concurrency: 24, input: 300, output: 40}\n";

/// What comes out, as one line that any change shows in.
std::string answer(const std::string& text, const std::vector<std::string>& sets) {
  sim::Settings document = scenarios::parse_yaml(text, "t.yaml");
  for (const std::string& set : sets) scenarios::apply_set(document, set);
  const scenarios::ServingScenario s = scenarios::load_serving(document);
  workloads::IterationTimes times(s.replica, scenarios::kernels_of(s.machine.device, s.replica.engine.kernels));
  const auto memory = workloads::serving_memory(s.replica, times.pass(),
                                                static_cast<double>(s.machine.device.memory().value()), s.limits);
  serving::Fleet fleet{{s.limits.max_sequences, s.limits.max_batched_tokens, memory.blocks, s.limits.block_tokens,
                        s.chunked_prefill, s.prefix_caching, s.batching},
                       s.replicas,
                       s.router};
  fleet.front_ends = s.front_ends;
  fleet.looks_every = static_cast<serving::Time>(s.router_looks_every_s * 1e12);
  fleet.limits.order = s.order;
  fleet.limits.waiting = s.max_waiting;
  fleet.limits.polls_every = s.polls_every;
  fleet.limits.gather = {s.gather.iterations,
                         std::llround(s.gather.fill * static_cast<double>(s.limits.max_batched_tokens)),
                         s.gather.prompts};
  const serving::Trace trace = serving::trace_of(s.traffic, s.limits.block_tokens);
  const serving::Outcome outcome = serving::serve(trace, fleet, times);
  std::string line = std::to_string(memory.blocks) + " " + std::to_string(s.slo.ttft_s) + " " +
                     std::to_string(s.slo.tpot_s) + " " + std::to_string(s.slo.percentile) + " " +
                     std::to_string(s.slo.window_s) + " " + s.pool + " " + s.trace_file + " " +
                     std::to_string(s.time_scale) + " " + std::to_string(trace.warm_up);
  for (const serving::Served& served : outcome.requests) line += " " + std::to_string(served.last);
  return line;
}

struct Input {
  std::string set;
  const char* traffic = kOpen;
};

std::string key_of(const std::string& set) { return set.substr(0, set.find('=')); }

/// By key a pool that has another value there.
std::vector<std::pair<std::string, std::string>> other_pools() {
  return {
      {"parallelism.tensor", "{parallelism: {tensor: 4}, max_sequences: 16, max_batched_tokens: 512}"},
      {"parallelism.pipeline", "{parallelism: {tensor: 2, pipeline: 2}, max_sequences: 16, max_batched_tokens: 512}"},
      {"parallelism.expert", "{parallelism: {tensor: 2, expert: 2}, max_sequences: 16, max_batched_tokens: 512}"},
      {"parallelism.attention_data",
       "{parallelism: {tensor: 2, attention_data: 2}, max_sequences: 16, max_batched_tokens: 512}"},
      {"max_sequences", "{parallelism: {tensor: 2}, max_sequences: 2, max_batched_tokens: 512}"},
      {"max_batched_tokens", "{parallelism: {tensor: 2}, max_sequences: 16, max_batched_tokens: 64}"}};
}

/// Every key of a pool, and what it is one of.
void walk_pools(std::set<std::string>& walked, const std::string& open) {
  const std::string pools = "serving.pools=[{parallelism: {tensor: 2}, max_sequences: 16, max_batched_tokens: 512, ";
  // Below a list: the list again, with one member more.
  const std::vector<std::pair<std::string, std::string>> below{{"name", "name: other"},
                                                               {"replicas", "replicas: 1"},
                                                               {"chunked_prefill", "chunked_prefill: false"},
                                                               {"block_tokens", "block_tokens: 32"},
                                                               {"memory_utilization", "memory_utilization: 0.8"},
                                                               {"prefix_caching", "prefix_caching: false"},
                                                               {"graphs", "graphs: none"},
                                                               {"redundant_experts", "redundant_experts: 8"},
                                                               {"polls_every", "polls_every: 50"},
                                                               {"speculative", "speculative: {accepted: 0.5}"},
                                                               {"batching", "batching: sglang"}};
  for (const auto& [key, member] : below) {
    INFO(key);
    walked.insert("serving.pools[]." + key);
    CHECK(answer(std::string(kBase) + kOpen, {pools + member + "}]"}) != open);
  }
  for (const auto& [key, pool] : other_pools()) {
    INFO(key);
    walked.insert("serving.pools[]." + key);
    // One replica in both, so that only the key differs.
    const std::string one = "serving.pools=[{replicas: 1, " + pool.substr(1) + "]";
    CHECK(answer(std::string(kBase) + kOpen, {one}) != answer(std::string(kBase) + kOpen, {pools + "replicas: 1}]"}));
  }
  // Where some are more urgent and have to wait for a place.
  const auto urgent = [&](const std::string& more, const char* shares) {
    return answer(std::string(kBase) + kOpen,
                  {"serving.pools=[{parallelism: {tensor: 2}, max_sequences: 2, replicas: 1" + more + "}]",
                   std::string("traffic.priorities=") + shares});
  };
  CHECK(urgent(", order: priority", "[1, 3]") != urgent("", "[1, 3]"));
  CHECK(urgent(", order: priority", "[1, 3]") != urgent(", order: priority", "[3, 1]"));
  CHECK(urgent(", max_waiting: 1", "[1, 3]") != urgent("", "[1, 3]"));
  walked.insert({"serving.pools[].max_waiting", "serving.pools[].order", "traffic.priorities",
                 "serving.pools[].max_cache_tokens"});
  // Where several are under way at a time.
  const std::string shut = answer(std::string(kBase) + kClosed, {pools + "replicas: 1}]"});
  for (const auto& [key, member] : {std::pair("gather", "gather: {iterations: 9, prompts: 2}"),
                                    {"gather.iterations", "gather: {iterations: 3, prompts: 2}"},
                                    {"gather.prompts", "gather: {iterations: 9, prompts: 3}"},
                                    {"gather.fill", "gather: {iterations: 9, fill: 1}"}}) {
    INFO(key);
    walked.insert(std::string("serving.pools[].") + key);
    CHECK(answer(std::string(kBase) + kClosed, {pools + "replicas: 1, " + member + "}]"}) != shut);
  }
  for (const auto& [key, value] :
       {std::pair("tokens", "{tokens: 2, accepted: 0.5}"), {"accepted", "{accepted: 0.6}"}}) {
    INFO(key);
    walked.insert(std::string("serving.pools[].speculative.") + key);
    CHECK(answer(std::string(kBase) + kOpen, {pools + "speculative: " + value + "}]"}) !=
          answer(std::string(kBase) + kOpen, {pools + "speculative: {accepted: 0.5}}]"}));
  }
}

/// What requests ask of each token, and what a model's own configuration says where they say nothing.
void walk_sampling(std::set<std::string>& walked, const std::string& open) {
  walked.insert("traffic.sampling");
  for (const char* member : {"temperature: 0", "top_p: 0.9", "top_k: 50", "min_p: 0.1", "repetition_penalty: 1.1",
                             "frequency_penalty: 0.5", "presence_penalty: 0.5", "logprobs: 0"}) {
    const std::string text(member);
    walked.insert("traffic.sampling." + text.substr(0, text.find(':')));
    CHECK(answer(std::string(kBase) + kOpen, {"traffic.sampling={" + text + "}"}) != open);
    CHECK(answer(std::string(kBase) + kOpen, {"model.generation={" + text + "}"}) ==
          answer(std::string(kBase) + kOpen, {"model.generation={}", "traffic.sampling={" + text + "}"}));
  }
}

/// Keys that other tests walk.
void walk_elsewhere(std::set<std::string>& walked) {
  // Of two pools, below; of one value only; of the fleet (loop_test.cc).
  for (const char* key : {"serving.pools[].slow", "serving.pools[].slow.replicas", "serving.pools[].slow.factor",
                          "serving.kv_transfer", "serving.kv_transfer.mode", "serving.kv_transfer.latency",
                          "serving.kv_transfer.first_token", "serving.pools[].speculative.method",
                          "serving.pools[].parallelism.expert_gpus", "serving.pools[].parallelism.micro_batches"})
    walked.insert(key);
  // Fleets that change and tiers (elastic_test.cc): each is read into a value of its own.
  for (const scenarios::Key& key : scenarios::schema()) {
    if (key.path.starts_with("serving.autoscale") || key.path.starts_with("serving.failures") ||
        key.path.starts_with("serving.pools[].autoscale") || key.path.starts_with("serving.pools[].failures") ||
        key.path == "serving.pools[].weights_rate" || key.path.starts_with("serving.pools[].cache_tiers") ||
        key.path == "serving.pools[].tier_write")
      walked.insert(key.path);
  }
  // Read elsewhere: a trace's file by tools, roles below.
  for (const char* key :
       {"traffic.trace", "traffic.time_scale", "traffic.burstiness", "traffic.prefix", "serving.pools[].role"})
    walked.insert(key);
}

/// Users that come back.
void walk_sessions(std::set<std::string>& walked, const std::string& open) {
  const std::string asks =
      "traffic.session={turns: {mean: 3, distribution: lognormal, variation: 0.5, max: 9}, gap: 2 s}";
  const std::string asked = answer(std::string(kBase) + kOpen, {asks});
  CHECK(asked != open);
  for (const char* set :
       {"gap=1 s", "turns=4", "turns.mean=4", "turns.distribution=constant", "turns.variation=1", "turns.max=3"}) {
    INFO(set);
    const std::string key = "traffic.session." + std::string(set);
    walked.insert(key.substr(0, key.find('=')));
    CHECK(answer(std::string(kBase) + kOpen, {asks, key}) != asked);
  }
  walked.insert({"traffic.session", "traffic.session.turns.min"});
  CHECK(answer(std::string(kBase) + kOpen,
               {"traffic.session={turns: {distribution: uniform, min: 1, max: 5}, gap: 2 s}"}) !=
        answer(std::string(kBase) + kOpen,
               {"traffic.session={turns: {distribution: uniform, min: 2, max: 5}, gap: 2 s}"}));
}

/// Of a model with experts whose queries are normalised.
void walk_experts(std::set<std::string>& walked) {
  const std::vector<std::string> experts{"model=qwen3-30b-a3b", "cluster.gpus=4",
                                         "serving.pools=[{parallelism: {tensor: 2}}]"};
  const std::string plain = answer(std::string(kBase) + kOpen, experts);
  for (const char* set : {"precision.router=fp32", "precision.router=tf32", "model.served.router=fp32",
                          "model.served.qk_norm_over=all_heads", "model.served.routing_power=0"}) {
    INFO(set);
    std::vector<std::string> changed = experts;
    changed.emplace_back(set);
    CHECK(answer(std::string(kBase) + kOpen, changed) != plain);
  }
  walked.insert("precision.router");
}

TEST_CASE("every key of serving and traffic moves what comes out", "[serving]") {
  std::set<std::string> walked{"serving", "serving.pools", "traffic", "serving.pools[].parallelism"};
  const std::string open = answer(std::string(kBase) + kOpen, {});
  const std::string closed = answer(std::string(kBase) + kClosed, {});
  walk_pools(walked, open);
  const std::vector<Input> inputs{{"precision.weights=fp8"},
                                  {"precision.attention=fp8"},
                                  {"precision.experts=fp8"},
                                  {"precision.kv_cache=fp8"},
                                  {"serving.router=least_loaded"},
                                  {"serving.slo={ttft: 1 s}"},
                                  {"traffic.rate=21/s"},
                                  {"traffic.arrivals=constant"},
                                  {"traffic.duration=5 s"},
                                  {"traffic.levels=[0.5, 1.5]"},
                                  {"traffic.requests=7"},
                                  {"traffic.warmup=3"},
                                  {"traffic.input=200"},
                                  {"traffic.input.mean=200"},
                                  {"traffic.input.distribution=constant"},
                                  {"traffic.input.variation=0.3"},
                                  {"traffic.input.max=200"},
                                  {"traffic.output=20"},
                                  {"traffic.output.mean=20"},
                                  {"traffic.output.distribution=constant"},
                                  {"traffic.output.variation=0.3"},
                                  {"traffic.output.max=30"},
                                  {"traffic.prefix.tokens=128"},
                                  {"traffic.prefix.groups=1"},
                                  {"traffic.seed=2"},
                                  {"traffic.concurrency=25", kClosed},
                                  {"traffic.length_ratio=0.8", kClosed}};
  for (const Input& input : inputs) {
    INFO(input.set);
    walked.insert(key_of(input.set));
    CHECK(answer(std::string(kBase) + input.traffic, {input.set}) != (input.traffic == kOpen ? open : closed));
  }
  walk_sessions(walked, open);
  for (const std::string part : {"input", "output"}) {
    const std::string uniform = "traffic." + part + "={distribution: uniform, min: 10, max: 90}";
    INFO(part);
    walked.insert("traffic." + part + ".min");
    CHECK(answer(std::string(kBase) + kOpen, {uniform}) !=
          answer(std::string(kBase) + kOpen, {"traffic." + part + "={distribution: uniform, min: 20, max: 90}"}));
  }
  walked.insert("serving.slo.window");
  CHECK(answer(std::string(kBase) + kOpen, {"serving.slo={ttft: 1 s, window: 1 min}"}) !=
        answer(std::string(kBase) + kOpen, {"serving.slo={ttft: 1 s}"}));
  CHECK(answer(std::string(kBase) + kOpen, {"traffic.arrivals=gamma", "traffic.burstiness=0.3"}) !=
        answer(std::string(kBase) + kOpen, {"traffic.arrivals=gamma"}));
  for (const char* key : {"ttft", "tpot", "percentile"}) {
    const std::string value = std::string(key) == "percentile" ? "90" : "77 ms";
    CHECK(answer(std::string(kBase) + kOpen,
                 {std::string("serving.slo={ttft: 1 s, tpot: 1 s, ") +
                      (std::string(key) == "percentile" ? "percentile: 90}" : "percentile: 99}"),
                  std::string("serving.slo.") + key + "=" + value}) !=
          answer(std::string(kBase) + kOpen, {"serving.slo={ttft: 1 s, tpot: 1 s, percentile: 99}"}));
    walked.insert(std::string("serving.slo.") + key);
  }
  walk_elsewhere(walked);
  CHECK(answer(std::string(kBase) + kOpen, {"serving.router=least_loaded", "serving.router_looks_every=2 s"}) !=
        answer(std::string(kBase) + kOpen, {"serving.router=least_loaded"}));
  CHECK(answer(std::string(kBase) + kOpen, {"serving.front_ends=10"}) != open);
  walked.insert({"serving.router_looks_every", "serving.front_ends"});
  walk_sampling(walked, open);
  {
    // Of a model that has states.
    const std::vector<std::string> hybrid{"model=qwen3-next-80b-a3b", "cluster.gpus=8",
                                          "serving.pools=[{parallelism: {tensor: 4}}]"};
    std::vector<std::string> halves = hybrid;
    halves.emplace_back("precision.states=bf16");
    walked.insert("precision.states");
    CHECK(answer(std::string(kBase) + kOpen, halves) != answer(std::string(kBase) + kOpen, hybrid));
  }
  walk_experts(walked);
  for (const scenarios::Key& key : scenarios::schema()) {
    const bool here = key.path.starts_with("serving") || key.path.starts_with("traffic") ||
                      key.path == "precision.attention" || key.path == "precision.weights" ||
                      key.path == "precision.experts" || key.path == "precision.kv_cache" ||
                      key.path == "precision.states" || key.path == "precision.router";
    INFO(key.path);
    if (here) CHECK(walked.contains(key.path));
  }
}

TEST_CASE("every key of fleets that change and of tiers is a value of its own", "[serving]") {
  const auto read = [](const std::vector<std::string>& sets) {
    sim::Settings document = scenarios::parse_yaml(std::string(kBase) + kOpen, "t.yaml");
    for (const std::string& set : sets) scenarios::apply_set(document, set);
    return scenarios::load_serving(document);
  };
  constexpr serving::Time kMs = 1'000'000'000;
  const serving::Autoscale a = *read({"serving.autoscale={by: cache, target: 0.5, least: 2, most: 3, tolerance: 0.2, "
                                      "every: 10 s, lag: 5 s, start_up: 2 min, hold: 1 min}"})
                                    .autoscale;
  CHECK(std::tuple(a.by, a.target, a.least, a.most, a.tolerance) ==
        std::tuple(serving::ScaleBy::cache, 0.5, 2, 3, 0.2));
  CHECK(std::tuple(a.every, a.lag, a.start, a.hold) ==
        std::tuple(10'000 * kMs, 5000 * kMs, 120'000 * kMs, 60'000 * kMs));
  CHECK(read({"serving.autoscale={target: 8, start_up: 2 min}"}).replicas == 1);
  const serving::Failures f =
      *read({"serving.failures={at: 3 s, replicas: 2, noticed: 1 s, restart: 2 s, requests: again, seed: 7}"}).failures;
  CHECK(std::tuple(f.at, f.replicas, f.noticed, f.restart, f.requests, f.seed) ==
        std::tuple(3000 * kMs, 2, 1000 * kMs, 2000 * kMs, serving::AtFailure::again, 7u));
  CHECK(read({"serving.failures={mean_time: 2 h, restart: 2 s}"}).failures->mean_s == 7200);
  const std::string pool = "serving.pools=[{parallelism: {tensor: 2}, ";
  const scenarios::ServingScenario s = read(
      {pool + "tier_write: through, cache_tiers: [{name: host, capacity: 2 GB, read_rate: 3 GB/s, latency: 4 ms}]}]"});
  CHECK(s.tier_write == serving::TierWrite::through);
  REQUIRE(s.tiers.size() == 1);
  CHECK(std::tuple(s.tiers[0].name, s.tiers[0].bytes, s.tiers[0].rate) == std::tuple(std::string("host"), 2e9, 3e9));
  CHECK(s.tiers[0].latency_s == Approx(0.004));
  const auto refused = [&](const std::string& set, const char* part) {
    INFO(set);
    CHECK_THROWS_WITH(read({set}), ContainsSubstring(part));
  };
  const serving::Autoscale by_time =
      *read({"serving.autoscale={by: ttft, target_time: 400 ms, start_up: 1 s}"}).autoscale;
  CHECK(std::tuple(by_time.by, by_time.target) == std::tuple(serving::ScaleBy::ttft, Approx(0.4)));
  CHECK(read({"serving.autoscale={by: itl, target_time: 20 ms, start_up: 1 s}"}).autoscale->by ==
        serving::ScaleBy::itl);
  // What a pool says is what the section says of the only one.
  const scenarios::ServingScenario own =
      read({pool + "weights_rate: 5 GB/s, autoscale: {target: 8, start_up: 1 s}, failures: {at: 1 s, restart: 2 s}}]"});
  CHECK(own.autoscale->target == 8);
  CHECK(own.failures->at == 1000 * kMs);
  CHECK(own.weights_rate == 5e9);
  // Closed loops may change too.
  CHECK(read({"traffic={concurrency: 8, input: 10, output: 10}", "serving.failures={mean_time: 2 h, restart: 2 s}"})
            .failures);
  refused("serving.autoscale={target: 8}", "start_up");
  refused("serving.autoscale={by: ttft, target: 8, start_up: 1 s}", "target_time");
  refused("serving.autoscale={by: ttft, start_up: 1 s}", "target_time");
  refused("serving.autoscale={target: 8, target_time: 1 s, start_up: 1 s}", "expected target");
  CHECK_THROWS_WITH(
      read({pool + "failures: {at: 1 s, restart: 2 s}}]", "serving.failures={mean_time: 2 h, restart: 2 s}"}),
      ContainsSubstring("expected them once"));
  refused("serving.autoscale={target: 8, start_up: 1 s, most: 9}", "has GPUs for 4");
  refused("serving.autoscale={target: 8, start_up: 1 s, least: 3, most: 2}", "at most the 2");
  refused("serving.autoscale={by: cache, target: 8, start_up: 1 s}", "at most 1");
  refused("serving.failures={restart: 1 s}", "exactly one of mean_time and at");
  refused("serving.failures={at: 1 s, replicas: 5, restart: 1 s}", "at most the fleet's 4");
  refused(pool + "tier_write: through}]", "expected cache_tiers");
  refused(pool + "prefix_caching: false, cache_tiers: [{capacity: 2 GB, read_rate: 3 GB/s}]}]", "prefix_caching");
  refused("traffic.levels=[0, 0]", "are all 0");
  refused("traffic.session={turns: 3}", "gap");
  refused("traffic={concurrency: 8, input: 10, output: 10, session: {turns: 3, gap: 1 s}}", "open loop");
  refused("traffic.session={turns: 1000000, gap: 1 s}", "at most 1e+06");
  refused("traffic.priorities=[0, 0]", "are all 0");
  refused("traffic.priorities=[1]", "of the most urgent first");
  refused("serving.router_looks_every=1 s", "least_loaded or prefix_aware");
  CHECK_THROWS_WITH(read({"serving.router=least_loaded", "serving.front_ends=2"}),
                    ContainsSubstring("expected router: round_robin"));
  refused("traffic={concurrency: 8, input: 10, output: 10, levels: [1]}", "open loop");
}

TEST_CASE("two pools change each by what it says", "[serving]") {
  const auto read = [](const std::string& pools, const std::string& beside) {
    sim::Settings document = scenarios::parse_yaml(std::string(kBase) + kOpen, "t.yaml");
    scenarios::apply_set(document, "serving={pools: [" + pools + "]" + beside + "}");
    return scenarios::load_serving(document);
  };
  const std::string scale = "autoscale: {by: ttft, target_time: 1 s, start_up: 1 s, most: 2}";
  const std::string prompts = "{role: prefill, parallelism: {tensor: 2}, ",
                    answers = "{role: decode, parallelism: {tensor: 2}";
  const scenarios::ServingScenario s = read(prompts + scale + "}, " + answers + ", replicas: 2}", "");
  CHECK(s.scales());
  CHECK(!s.fails());
  CHECK(s.autoscale->most == 2);
  CHECK(!s.answers->autoscale);
  CHECK(std::tuple(s.replicas, s.gpus(), s.all_gpus()) == std::tuple(1, 4, 8));
  const scenarios::ServingScenario fail =
      read(prompts + "replicas: 1}, " + answers + "}", ", failures: {mean_time: 3 h, restart: 1 s}");
  CHECK(fail.failures->mean_s == 3 * 3600);
  CHECK(fail.answers->failures->mean_s == 3 * 3600);
  const auto refused = [&](const std::string& pools, const std::string& beside, const char* part) {
    INFO(pools << beside);
    CHECK_THROWS_WITH(read(pools, beside), ContainsSubstring(part));
  };
  const std::string both = prompts + "replicas: 1}, " + answers + "}";
  refused(both, ", autoscale: {target: 4, start_up: 1 s}", "expected it in each pool");
  refused(both, ", failures: {at: 1 s, restart: 1 s}", "in the pool that fails");
  refused(prompts + "autoscale: {target: 4, start_up: 1 s}}, " + answers + "}", "", "most");
  refused(prompts + "autoscale: {target: 4, start_up: 1 s, most: 4}}, " + answers + "}", "",
          "GPUs with the other pool");
}

TEST_CASE("two pools have each their layout and limits, and what hands the cache over", "[serving]") {
  const std::string two =
      "serving={pools: [{role: decode, parallelism: {tensor: 4}, max_sequences: 32}, {role: prefill, replicas: 2, "
      "parallelism: {tensor: 2}}], kv_transfer: {mode: layer_by_layer, latency: 3 ms, first_token: prefill}}";
  sim::Settings document = scenarios::parse_yaml(std::string(kBase) + kOpen, "t.yaml");
  scenarios::apply_set(document, two);
  const scenarios::ServingScenario s = scenarios::load_serving(document);
  REQUIRE(s.answers);
  CHECK(s.pool == "prefill");
  CHECK(s.replica.layout.tensor == 2);
  CHECK(s.replicas == 2);
  CHECK(s.answers->replica.layout.tensor == 4);
  CHECK(s.answers->limits.max_sequences == 32);
  CHECK(s.answers->replicas == 1);
  CHECK(s.all_gpus() == 8);
  CHECK(s.transfer.handing == serving::Handing::layer_by_layer);
  CHECK(s.transfer.latency_s == Approx(0.003));
  CHECK(s.transfer.first_token == serving::FirstToken::prefill);
  // Without a word of it as the engine does.
  scenarios::apply_set(document, "serving.kv_transfer=null");
  CHECK(scenarios::load_serving(document).transfer.first_token == serving::FirstToken::decode);
}

TEST_CASE("experts on GPUs of their own are of pools that write answers", "[serving]") {
  const auto read = [](const std::string& answers) {
    sim::Settings document = scenarios::parse_yaml(std::string(kBase) + kOpen, "t.yaml");
    scenarios::apply_set(
        document,
        "serving.pools=[{role: prefill, parallelism: {tensor: 2}}, {role: decode, parallelism: {" + answers + "}}]");
    return scenarios::load_serving(document).answers->replica.layout;
  };
  const workloads::ServedLayout apart = read("tensor: 2, expert: 4, expert_gpus: 4, micro_batches: 2");
  CHECK(std::tuple(apart.expert_gpus, apart.micro_batches, apart.gpus()) == std::tuple(4, 2, 6));
  CHECK(apart.expert_tensor() == 1);
  CHECK(read("tensor: 2, expert: 2, expert_gpus: 4").micro_batches == 3);
  for (const auto& [answers, part] :
       {std::pair("tensor: 2, expert: 3, expert_gpus: 4", "expected a multiple of expert, which is 3"),
        {"tensor: 2, expert_gpus: 4", "at least 2"},
        {"tensor: 2, pipeline: 2, expert: 4, expert_gpus: 4", "without stages"},
        {"tensor: 2, micro_batches: 2", "expected expert_gpus beside it"},
        {"tensor: 4, expert: 4, expert_gpus: 8", "the cluster has 8"}}) {
    INFO(answers);
    CHECK_THROWS_WITH(read(answers), ContainsSubstring(part));
  }
  sim::Settings document = scenarios::parse_yaml(std::string(kBase) + kOpen, "t.yaml");
  scenarios::apply_set(document, "serving.pools=[{parallelism: {tensor: 2, expert: 4, expert_gpus: 4}}]");
  CHECK_THROWS_WITH(scenarios::load_serving(document), ContainsSubstring("expected role: decode"));
}

TEST_CASE("every key of an iteration that is looked at moves it; what is not given is the traffic's", "[serving]") {
  const auto asked = [](const std::string& work) {
    return *scenarios::load_serving(
                scenarios::parse_yaml(std::string(kBase) + kClosed + "workload: " + work + "\n", "t.yaml"))
                .workload;
  };
  // Four replicas of two GPUs share 24 sequences; prompts of 300 tokens, answers of 40.
  const scenarios::ServedWorkload decode = asked("decode"), prefill = asked("prefill");
  CHECK(decode.decodes);
  CHECK(decode.sequences == 6);
  CHECK(decode.tokens == 1);
  CHECK(decode.cached == 320);
  CHECK_FALSE(prefill.decodes);
  CHECK(prefill.sequences == 1);
  CHECK(prefill.tokens == 300);
  CHECK(prefill.cached == 0);
  const scenarios::ServedWorkload own = asked("{kind: prefill, sequences: 3, tokens: 50, cached: 70}");
  CHECK(std::tuple(own.decodes, own.sequences, own.tokens, own.cached) == std::tuple(false, 3, 50, 70));
  CHECK_THROWS_WITH(asked("{kind: decode, tokens: 2}"), ContainsSubstring("expected 1"));
  CHECK_THROWS_WITH(asked("{kind: decode, cached: 0}"), ContainsSubstring("expected a prompt"));
  CHECK_THROWS_WITH(asked("{kind: prefill, sequences: 1000000, tokens: 100000}"),
                    ContainsSubstring("expected at most"));
  CHECK_THROWS_WITH(asked("train"), ContainsSubstring("decode"));
}

TEST_CASE("what cannot be served is refused with its place and a reason", "[serving]") {
  const auto refusal = [](const std::string& traffic, const std::vector<std::string>& sets) {
    try {
      answer(std::string(kBase) + traffic, sets);
    } catch (const sim::UserError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const auto has = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
  CHECK(has(refusal(kOpen, {"serving.pools=[{parallelism: {tensor: 3}}]"}),
            "expected a divisor of the model's 32 heads"));
  CHECK(has(refusal(kOpen, {"serving.pools=[{role: decode, parallelism: {tensor: 2}}]"}), "expected both"));
  CHECK(has(refusal(kOpen, {"serving.pools=[{parallelism: {tensor: 2}}, {parallelism: {tensor: 2}}]"}),
            "expected one of prefill and one of decode"));
  CHECK(has(refusal(kOpen, {"serving.pools=[{role: prefill, replicas: 3, parallelism: {tensor: 2}}, {role: decode, "
                            "parallelism: {tensor: 4}}]"}),
            "makes 10 GPUs with the other pool"));
  CHECK(has(refusal(kOpen, {"serving.kv_transfer={mode: whole}"}), "is between two pools"));
  CHECK(has(refusal(kOpen, {"serving.pools=[{parallelism: {tensor: 2}, speculative: {tokens: 1, accepted: 2}}]"}),
            "at most the 1 tokens"));
  CHECK(has(refusal(kOpen, {"serving.pools=[{parallelism: {tensor: 2}, replicas: 5}]"}), "the cluster has 8 GPUs"));
  CHECK(has(refusal(kOpen, {"traffic.rate=ten"}), "as in 10/s"));
  CHECK(has(refusal(kOpen, {"traffic.concurrency=3"}),
            "has rate and concurrency, expected exactly one of trace, rate and concurrency"));
  CHECK(has(refusal(kOpen, {"traffic.rate=100/s", "traffic.duration=250 h"}), "expected at most 20000000"));
  CHECK(has(refusal(kOpen, {"software=vlm-0.15"}), "did you mean \"vllm-0.15\"?"));
  CHECK(has(refusal(kOpen, {"precision.matmul=bf16"}), "is of training"));
  CHECK(has(refusal(kOpen, {"batch.global=3"}), "is of training"));
  CHECK(has(refusal(kOpen, {"serving.pools=[{tp: 2}]"}), "tp"));
}

TEST_CASE("a model is served in the types that it was published in, unless the scenario says others", "[serving]") {
  const auto types = [](const std::string& model, const std::string& precision) {
    const scenarios::ServingScenario s = scenarios::load_serving(scenarios::parse_yaml(
        "name: t\ncluster: {device: b200-sxm-180gb, gpus: 8}\nmodel: " + model + "\n" + precision +
            "serving: {pools: [{parallelism: {tensor: 8, expert: 8}}]}\ntraffic: {concurrency: 8, input: 300, output: "
            "40}\n",
        "t.yaml"));
    const workloads::ServedPrecision& p = s.replica.precision;
    return std::vector<std::string_view>{name_of(p.weights), name_of(p.attention), name_of(p.experts)};
  };
  using Types = std::vector<std::string_view>;
  CHECK(types("gpt-oss-120b", "") == Types{"bf16", "bf16", "mxfp4"});
  CHECK(types("kimi-k2", "") == Types{"fp8-block", "fp8-block", "fp8-block"});
  CHECK(types("deepseek-v3", "precision: {kv_cache: fp8}\n") == Types{"fp8-block", "fp8-block", "fp8-block"});
  CHECK(types("{inherits: gpt-oss-120b, served: {attention: fp8}}", "") == Types{"bf16", "fp8", "mxfp4"});
  // What the scenario says of weights is meant for all of them.
  CHECK(types("gpt-oss-120b", "precision: {weights: bf16}\n") == Types{"bf16", "bf16", "bf16"});
  CHECK(types("gpt-oss-120b", "precision: bf16\n") == Types{"bf16", "bf16", "bf16"});
  CHECK(types("gpt-oss-120b", "precision: {experts: nvfp4}\n") == Types{"bf16", "bf16", "nvfp4"});
  CHECK(types("qwen3-235b-a22b", "") == Types{"bf16", "bf16", "bf16"});
  CHECK_THROWS_WITH(types("{inherits: kimi-k2, served: {weights: fp7}}", ""),
                    ContainsSubstring("model.served.weights: expected one of bf16"));
}

TEST_CASE("a device without bf16 serves in fp16, and says so", "[serving]") {
  const auto served = [](const std::string& device, const std::string& precision) {
    return scenarios::load_serving(scenarios::parse_yaml(
        "name: t\ncluster: {device: " + device + ", gpus: 8}\nmodel: llama3.1-8b\n" + precision +
            "serving: {pools: [{parallelism: {tensor: 2}}]}\ntraffic: {concurrency: 8, input: 300, output: 40}\n",
        "t.yaml"));
  };
  const auto remark = [](const scenarios::ServingScenario& s) {
    return std::any_of(s.assumptions.begin(), s.assumptions.end(), [](const std::string& line) {
      return line.find("precision.activations is not given: fp16") != std::string::npos;
    });
  };
  for (const char* precision : {"", "precision: bf16\n", "precision: {weights: int4}\n"}) {
    INFO(precision);
    CHECK(remark(served("v100-sxm-32gb", precision)));
    CHECK_FALSE(remark(served("a100-sxm-80gb", precision)));
  }
  CHECK_FALSE(remark(served("v100-sxm-32gb", "precision: {activations: fp16}\n")));
  CHECK_THROWS_WITH(served("v100-sxm-32gb", "precision: {activations: bf16}\n"),
                    ContainsSubstring("t.yaml:4:13: precision.activations: got bf16, which v100-sxm-32gb has no "
                                      "arithmetic for, expected fp16"));
}

TEST_CASE("drawn traffic has the rate, the spread and the lengths that it was asked for", "[serving]") {
  serving::Traffic traffic;
  traffic.rate = 10;
  traffic.requests = 40'000;
  traffic.input = {serving::Spread::lognormal, 500, 1, 1, 0.5, 1e9};
  traffic.output = {serving::Spread::uniform, 0, 80, 100, 0, 1e9};
  for (const auto& [arrivals, shape, variation] : {std::tuple(serving::Arrivals::constant, 1.0, 0.0),
                                                   {serving::Arrivals::poisson, 1.0, 1.0},
                                                   {serving::Arrivals::gamma, 0.25, 2.0},
                                                   {serving::Arrivals::gamma, 4.0, 0.5}}) {
    traffic.arrivals = arrivals;
    traffic.burstiness = shape;
    const serving::Trace trace = serving::trace_of(traffic, 16);
    double mean = 0, square = 0, input = 0, output = 0;
    serving::Time before = 0;
    const auto n = static_cast<double>(trace.requests.size());
    for (const serving::Request& request : trace.requests) {
      const double gap = static_cast<double>(request.arrival - before) / 1e12;
      before = request.arrival;
      mean += gap / n;
      square += gap * gap / n;
      input += request.input / n;
      output += request.output / n;
    }
    // Four standard errors of 40,000 draws.
    CHECK(mean == Approx(0.1).epsilon(0.02 * variation + 1e-6));
    CHECK(std::sqrt(std::max(0.0, square / (mean * mean) - 1)) == Approx(variation).margin(0.001 + 0.06 * variation));
    CHECK(input == Approx(500).epsilon(0.01));
    CHECK(output == Approx(90).epsilon(0.005));
  }
}

}  // namespace
