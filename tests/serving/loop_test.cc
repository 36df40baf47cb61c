// The loop of requests against the one that takes every token by itself, and laws that hold of both.
#include <algorithm>

#include "sim/hash.h"
#include "tests/catch.h"
#include "tests/reference/serving.h"
#include "workloads/runs/serving/serve.h"

namespace orrery::serving {
namespace {

/// A machine whose iterations take what a roofline would: a bend in keys, a part by tokens, odd picoseconds.
class ToyTimes : public StepTimes {
 public:
  Segment decode(std::int64_t sequences, std::int64_t keys) override {
    const Time base = 9'000'017 + 31'013 * sequences;
    if (keys < kBend) return {0, kBend, base, 1'201};
    return {kBend, INT64_MAX, base + 1'201 * kBend, 2'003};
  }
  Time mixed(const Mixed& batch) override {
    Time time = 11'000'003 + 31'013 * batch.decodes + 1'301 * batch.keys + 7'001 * batch.sampled;
    for (const Piece& piece : batch.pieces) time += 90'001 * piece.fresh + 13 * piece.fresh * piece.cached;
    return time;
  }

 private:
  static constexpr std::int64_t kBend = 3'000;
};

std::int64_t draw(std::uint64_t seed, std::uint64_t n, std::int64_t low, std::int64_t high) {
  return low + static_cast<std::int64_t>(sim::mix64(seed * 7919 + n) % static_cast<std::uint64_t>(high - low + 1));
}

Trace random_trace(std::uint64_t seed, std::int64_t count, Time gap, std::int64_t longest) {
  Trace trace;
  Time at = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto n = static_cast<std::uint64_t>(i);
    at += draw(seed, 3 * n, 0, 2 * gap);
    trace.requests.push_back({at, static_cast<std::int32_t>(draw(seed, 3 * n + 1, 1, longest)),
                              static_cast<std::int32_t>(draw(seed, 3 * n + 2, 1, longest)), 0, 0});
  }
  return trace;
}

Fleet one(const Limits& limits) { return {limits, 1, Router::round_robin}; }

Limits looking(Limits limits, std::int64_t every) {
  limits.polls_every = every;
  return limits;
}

Limits reading(Limits limits, Time token) {
  limits.front_token = token;
  return limits;
}

Limits gathering(Limits limits, const Gather& gather) {
  limits.gather = gather;
  return limits;
}

Limits by_priority(Limits limits) {
  limits.order = Order::priority;
  return limits;
}

TEST_CASE("closed sums are the token-by-token run to the picosecond", "[serving]") {
  struct Case {
    const char* what;
    Limits limits;
    Time gap;
    std::int64_t concurrency;
  };
  const Batching* vllm = find_batching("vllm-v1");
  const std::vector<Case> cases{
      {"room for all", {256, 2048, 100'000, 16, true, false, vllm}, 40'000'000, 0},
      {"few sequences", {7, 2048, 100'000, 16, true, false, vllm}, 40'000'000, 0},
      {"chunks", {64, 96, 100'000, 16, true, false, vllm}, 40'000'000, 0},
      {"a cache that runs out", {64, 512, 60, 16, true, false, vllm}, 20'000'000, 0},
      {"blocks of one token", {64, 512, 900, 1, true, false, vllm}, 20'000'000, 0},
      {"all at once", {32, 512, 120, 16, true, false, vllm}, 0, 0},
      {"closed loop", {256, 1024, 100'000, 16, true, false, vllm}, 0, 24},
      {"closed loop without room", {256, 256, 64, 16, true, false, vllm}, 0, 24},
      {"plans made ahead", {256, 512, 100'000, 16, true, false, vllm, 0, true}, 40'000'000, 0},
      {"a front end", {256, 512, 100'000, 16, true, false, vllm, 35'000'003, false}, 40'000'000, 0},
      {"both, few sequences", {9, 512, 100'000, 16, true, false, vllm, 35'000'003, true}, 40'000'000, 0},
      {"both, closed loop", {256, 512, 100'000, 16, true, false, vllm, 70'000'001, true}, 0, 24},
      {"both, a cache that runs out", {64, 512, 60, 16, true, false, vllm, 35'000'003, true}, 20'000'000, 0},
      {"looks now and then", looking({256, 512, 100'000, 16, true, false, vllm}, 10), 40'000'000, 0},
      {"looks now and then, few sequences", looking({7, 512, 100'000, 16, true, false, vllm}, 30), 40'000'000, 0},
      {"looks now and then, plans ahead", looking({256, 512, 100'000, 16, true, false, vllm, 9, true}, 7), 0, 24},
      {"prompts read", reading({256, 512, 100'000, 16, true, false, vllm, 9'001, true}, 70'001), 40'000'000, 0},
      {"prompts read, closed loop", reading({256, 512, 100'000, 16, true, false, vllm}, 70'001), 0, 24},
      {"waits for tokens", gathering({256, 1024, 100'000, 16, true, false, vllm}, {20, 900, 0}), 40'000'000, 0},
      {"waits for prompts", gathering({64, 512, 60, 16, true, false, vllm}, {60, 0, 4}), 20'000'000, 0},
      {"the urgent first", by_priority({256, 512, 100'000, 16, true, false, vllm}), 20'000'000, 0},
      {"the urgent first, few sequences", by_priority({5, 512, 1000, 16, true, false, vllm}), 20'000'000, 0},
      {"the urgent first, a cache that runs out", by_priority({64, 256, 60, 16, true, false, vllm}), 20'000'000, 0},
      {"the urgent first, plans ahead", by_priority({9, 96, 60, 16, true, false, vllm, 9, true}), 20'000'000, 0},
      {"the urgent first, closed loop", by_priority({256, 256, 64, 16, true, false, vllm}), 0, 24},
      {"waits for both, few sequences", gathering({9, 512, 1000, 16, true, false, vllm, 9, true}, {15, 400, 3}), 0, 24},
  };
  for (const Case& c : cases) {
    for (std::uint64_t seed = 1; seed <= 6; ++seed) {
      Trace trace = random_trace(seed, 150, c.gap, 300);
      trace.concurrency = c.concurrency;
      for (std::size_t i = 0; i < trace.requests.size(); ++i)
        trace.requests[i].priority = static_cast<std::int32_t>(draw(seed + 100, i, 0, 2));
      ToyTimes times;
      const Outcome quick = serve(trace, one(c.limits), times);
      const std::vector<Served> slow = reference::serve_by_token(trace, c.limits, times);
      INFO(c.what << ", seed " << seed);
      std::int64_t preemptions = 0;
      for (std::size_t i = 0; i < slow.size(); ++i) {
        INFO("request " << i);
        REQUIRE(quick.requests[i].arrival == slow[i].arrival);
        REQUIRE(quick.requests[i].begun == slow[i].begun);
        REQUIRE(quick.requests[i].first == slow[i].first);
        REQUIRE(quick.requests[i].last == slow[i].last);
        REQUIRE(quick.requests[i].preemptions == slow[i].preemptions);
        preemptions += slow[i].preemptions;
      }
      if (c.limits.blocks <= 64) CHECK(preemptions > 0);  // the case is what it says
    }
  }
}

TEST_CASE("one request alone is its prompt and then a step for each further token", "[serving]") {
  Limits limits{8, 4096, 1000, 16, true, false, nullptr};
  for (const Batching* policy : batching_policies()) {
    limits.batching = policy;
    Trace trace;
    trace.requests.push_back({5, 700, 90, 0, 0});
    ToyTimes times;
    const Outcome outcome = serve(trace, one(limits), times);
    const Piece piece{700, 0};
    const Time prefill = times.mixed({0, 0, {&piece, 1}, 1});
    Time decode = 0;
    for (std::int64_t keys = 701; keys < 701 + 89; ++keys) decode += times.decode(1, keys).at(keys);
    INFO(policy->name);
    CHECK(outcome.requests[0].first == 5 + prefill);
    CHECK(outcome.requests[0].last == 5 + prefill + decode);
  }
}

TEST_CASE("a replica that is slower by a factor is one whose every iteration takes so much longer", "[serving]") {
  ToyTimes times;
  const Limits limits{64, 512, 100'000, 16, true, false, find_batching("vllm-v1")};
  const Trace trace = random_trace(3, 120, 60'000'000, 200);
  SlowTimes slow(times, 2);
  const Outcome whole = serve(trace, one(limits), slow);
  const Outcome factor = serve(trace, {limits, 1, Router::round_robin, 1, 2.0}, times);
  for (std::size_t i = 0; i < trace.requests.size(); ++i) CHECK(whole.requests[i].last == factor.requests[i].last);
  // One of two: the other's requests are what they were.
  const Outcome both = serve(trace, {limits, 2, Router::round_robin}, times);
  const Outcome half = serve(trace, {limits, 2, Router::round_robin, 1, 2.0}, times);
  for (std::size_t i = 0; i < trace.requests.size(); ++i) {
    if (i % 2 == 1) CHECK(half.requests[i].last == both.requests[i].last);
    if (i % 2 == 0) CHECK(half.requests[i].last > both.requests[i].last);
  }
}

TEST_CASE("a front end delays a lone request by itself, a plan made ahead not at all", "[serving]") {
  for (const bool ahead : {false, true}) {
    Trace trace;
    trace.requests.push_back({5, 700, 90, 0, 0});
    ToyTimes times;
    const Outcome outcome =
        serve(trace, one({8, 4096, 1000, 16, true, false, find_batching("vllm-v1"), 3'000'000, ahead}), times);
    const Piece piece{700, 0};
    CHECK(outcome.requests[0].begun == 5 + 3'000'000);
    CHECK(outcome.requests[0].first == 5 + 3'000'000 + times.mixed({0, 0, {&piece, 1}, 1}));
  }
}

TEST_CASE("every policy serves every token once, and gives all blocks back", "[serving]") {
  for (const Batching* policy : batching_policies()) {
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      const Limits limits{24, 256, 80, 16, true, false, policy};
      const Trace trace = random_trace(seed, 200, 15'000'000, 250);
      ToyTimes times;
      const Outcome outcome = serve(trace, {limits, seed % 2 == 0 ? 3 : 1, Router::least_loaded}, times);
      INFO(policy->name << ", seed " << seed);
      std::int64_t expected = 0;
      for (std::size_t i = 0; i < trace.requests.size(); ++i) {
        const Served& served = outcome.requests[i];
        REQUIRE_FALSE(served.refused);
        expected += trace.requests[i].output;
        REQUIRE(served.begun >= served.arrival);
        REQUIRE(served.first > served.begun);
        REQUIRE((trace.requests[i].output == 1 ? served.last == served.first : served.last > served.first));
      }
      CHECK(outcome.output_tokens == expected);
      CHECK(outcome.peak_blocks <= limits.blocks);
      if (!policy->preempts) CHECK(outcome.preemptions == 0);
      for (const auto& samples : outcome.samples) CHECK(samples.size() < 5000);
      // Gaps between tokens: one fewer than tokens of each request.
      CHECK(outcome.between_tokens.total() ==
            Approx(static_cast<double>(expected - static_cast<std::int64_t>(trace.requests.size()))));
    }
  }
}

TEST_CASE("more cache is never slower on a fixed trace", "[serving]") {
  const Batching* vllm = find_batching("vllm-v1");
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    const Trace trace = random_trace(seed, 200, 5'000'000, 250);
    Time before = kNever;
    for (const std::int64_t blocks : {64, 128, 256, 512, 4096}) {
      ToyTimes times;
      const Outcome outcome = serve(trace, one({64, 512, blocks, 16, true, false, vllm}), times);
      INFO("seed " << seed << ", " << blocks << " blocks");
      CHECK(outcome.end <= before);
      before = outcome.end;
    }
  }
}

TEST_CASE("what the cache has of a prompt is not computed again", "[serving]") {
  // Two prompts of 64 tokens whose first 48 are the same, one after the other.
  Trace trace;
  trace.contents = {0, 1, 2, 3, 0, 1, 2, 4};
  trace.different = 5;
  trace.requests.push_back({0, 64, 3, 0, 4});
  trace.requests.push_back({1'000'000'000'000, 64, 3, 4, 4});
  for (const Batching* policy : batching_policies()) {
    ToyTimes times;
    const Outcome outcome = serve(trace, one({8, 4096, 100, 16, true, true, policy}), times);
    const Piece all{64, 0}, rest{16, 48};
    INFO(policy->name);
    CHECK(outcome.found_tokens == 48);
    CHECK(outcome.requests[0].first == times.mixed({0, 0, {&all, 1}, 1}));
    CHECK(outcome.requests[1].first - outcome.requests[1].arrival == times.mixed({0, 0, {&rest, 1}, 1}));
  }
}

TEST_CASE("content that nobody holds leaves when its room is needed, the oldest first", "[serving]") {
  KvBlocks blocks(8, 16, 16, 4);
  const std::vector<std::int32_t> first{0, 1}, second{2};
  blocks.take(3);
  CHECK(blocks.remember(0));
  CHECK(blocks.remember(1));
  CHECK(blocks.remember(2));
  CHECK_FALSE(blocks.remember(2));
  blocks.release(first);
  blocks.release(second);
  CHECK(blocks.free() == 8);
  CHECK(blocks.found(first) == 2);
  blocks.take(6);  // 5 were never used
  CHECK(blocks.found(first) == 1);
  CHECK(blocks.found(second) == 1);
  blocks.take(2);
  CHECK(blocks.found(first) == 0);
  CHECK(blocks.found(second) == 0);
}

TEST_CASE("a request larger than the whole cache is refused, and nothing else stands still", "[serving]") {
  Trace trace;
  trace.requests.push_back({0, 1000, 700, 0, 0});
  trace.requests.push_back({0, 100, 7, 0, 0});
  for (const Batching* policy : batching_policies()) {
    ToyTimes times;
    const Outcome outcome = serve(trace, one({8, 4096, 100, 16, true, false, policy}), times);
    CHECK(outcome.requests[0].refused);
    CHECK(outcome.requests[1].last != kNever);
  }
}

}  // namespace
}  // namespace orrery::serving
