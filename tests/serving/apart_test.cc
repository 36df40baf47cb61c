// Prompts and answers apart: one request by its parts, conservation over pools, links that transfers share.
#include "workloads/runs/serving/apart.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sim/hash.h"
#include "tests/catch.h"

namespace orrery::serving {
namespace {

/// Iterations of a time that is easy to add up.
class PlainTimes : public StepTimes {
 public:
  Segment decode(std::int64_t sequences, std::int64_t) override {
    return {0, INT64_MAX, 10'000'000 + 1'000 * sequences, 7};
  }
  Time mixed(const Mixed& batch) override {
    Time time = 20'000'000;
    for (const Piece& piece : batch.pieces) time += 50'000 * piece.fresh;
    return time + 1'000 * batch.decodes;
  }
};

/// One link from each group of the first pool, one to each of the second.
class TwoLinks : public Ways {
 public:
  TwoLinks(std::int64_t from, std::int64_t to, double rate) : from_(from) {
    for (std::int64_t i = 0; i < from + to; ++i) capacity_.push_back(rate);
    links_.resize(static_cast<std::size_t>(from * to));
    for (std::int64_t a = 0; a < from; ++a) {
      for (std::int64_t b = 0; b < to; ++b)
        links_[static_cast<std::size_t>(b * from + a)] = {{sim::LinkId{static_cast<std::uint32_t>(a)}, 1.0},
                                                          {sim::LinkId{static_cast<std::uint32_t>(from + b)}, 1.0}};
    }
  }
  const sim::Table<sim::LinkId, double>& capacity() const override { return capacity_; }
  Way way(std::int64_t from, std::int64_t to) override {
    return {links_[static_cast<std::size_t>(to * from_ + from)], 5'000'000};
  }

 private:
  std::int64_t from_;
  sim::Table<sim::LinkId, double> capacity_;
  std::vector<std::vector<sim::WeightedLink>> links_;
};

Limits limits_of(FirstToken first, std::int64_t blocks = 100'000, std::int64_t sequences = 256) {
  Limits limits{sequences, 4096, blocks, 16, true, false, find_batching("vllm-v1")};
  limits.first_token = first;
  return limits;
}

Trace drawn(std::uint64_t seed, std::int64_t count, Time gap, std::int64_t longest) {
  Trace trace;
  Time at = 0;
  const auto draw = [&](std::uint64_t n, std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(sim::mix64(seed * 6151 + n) % static_cast<std::uint64_t>(high - low + 1));
  };
  for (std::int64_t i = 0; i < count; ++i) {
    const auto n = static_cast<std::uint64_t>(3 * i);
    at += draw(n, 0, 2 * gap);
    trace.requests.push_back({at, static_cast<std::int32_t>(draw(n + 1, 1, longest)),
                              static_cast<std::int32_t>(draw(n + 2, 1, longest)), 0, 0});
  }
  return trace;
}

TEST_CASE("a lone request is its prompt, its cache on the way and a step for each further token", "[serving]") {
  PlainTimes times;
  TwoLinks ways(1, 1, 1e9);
  Trace trace;
  trace.requests.push_back({3, 1000, 50, 0, 0});
  const Time prompt = 20'000'000 + 50'000 * 1000;
  const Time flow = 1000 * 400 * std::int64_t{1000} + 5'000'000;  // 400 bytes a token at a byte a nanosecond
  for (const FirstToken first : {FirstToken::prefill, FirstToken::transfer, FirstToken::decode}) {
    Apart fleet{{limits_of(first), 1, Router::round_robin}, {limits_of(first), 1, Router::round_robin}, {}};
    fleet.handover = {&ways, 400, 0, Handing::whole, 1, 0, 1, 1};
    const ApartOutcome outcome = serve_apart(trace, fleet, times, times);
    const Served& served = outcome.requests[0];
    const auto steps = [&](std::int64_t from_keys, std::int64_t count) {
      return time_of_steps(times, 1, from_keys, count);
    };
    const Time there = 3 + prompt + flow;
    CHECK(outcome.handed[0].computed == 3 + prompt);
    CHECK(outcome.handed[0].there == there);
    if (first == FirstToken::prefill) CHECK(served.first == 3 + prompt);
    if (first == FirstToken::transfer) CHECK(served.first == there);
    if (first == FirstToken::decode) CHECK(served.first == there + steps(1000, 1));
    CHECK(served.last == there + (first == FirstToken::decode ? steps(1000, 50) : steps(1001, 49)));
  }
}

TEST_CASE("layers that flow while later ones are computed leave the last of them", "[serving]") {
  PlainTimes times;
  TwoLinks ways(1, 1, 1e12);
  Trace trace;
  trace.requests.push_back({0, 1000, 2, 0, 0});
  Apart fleet{{limits_of(FirstToken::transfer), 1, Router::round_robin},
              {limits_of(FirstToken::transfer), 1, Router::round_robin},
              {}};
  // 10 us of bytes, and the prompt takes 70: a fiftieth is left. Of 100 us of bytes what the prompt was too short for.
  for (const auto& [bytes_a_token, left] : {std::pair(1e4, Time{200'000}), {1e5, 30'000'000}}) {
    fleet.handover = {&ways, bytes_a_token, 0, Handing::layer_by_layer, 50, 0, 1, 1};
    const ApartOutcome outcome = serve_apart(trace, fleet, times, times);
    CHECK(outcome.handed[0].there - outcome.handed[0].computed == 5'000'000 + left);
  }
}

TEST_CASE("caches that set out at one instant move as each by itself would", "[serving]") {
  PlainTimes times;
  /// One link, of which a byte of a cache takes `weight`.
  class OneLink : public Ways {
   public:
    OneLink(double weight, double rate) : links_{{sim::LinkId{0}, weight}} { capacity_.push_back(rate); }
    const sim::Table<sim::LinkId, double>& capacity() const override { return capacity_; }
    Way way(std::int64_t, std::int64_t) override { return {links_, 5'000'000}; }

   private:
    std::vector<sim::WeightedLink> links_;
    sim::Table<sim::LinkId, double> capacity_;
  };
  Trace trace;  // all prompts in one iteration: eight alike, one twice as long
  for (int i = 0; i < 8; ++i) trace.requests.push_back({0, 100, 2, 0, 0});
  trace.requests.push_back({0, 200, 2, 0, 0});
  const auto there = [&](Ways& ways) {
    Apart fleet{{limits_of(FirstToken::transfer), 1, Router::round_robin},
                {limits_of(FirstToken::transfer), 1, Router::round_robin},
                {}};
    fleet.handover = {&ways, 400, 0, Handing::whole, 1, 0, 1, 1};
    const ApartOutcome outcome = serve_apart(trace, fleet, times, times);
    std::vector<Time> out;
    for (const ApartOutcome::Handed& handed : outcome.handed) out.push_back(handed.there - handed.computed);
    return out;
  };
  // At a byte a nanosecond nine share the link until the eight are through, and then the ninth has what is left of it.
  constexpr Time kCache = 100 * 400 * std::int64_t{1000}, kLatency = 5'000'000;
  OneLink whole(1, 1e9);
  const std::vector<Time> found = there(whole);
  for (std::size_t i = 0; i < 8; ++i) CHECK(std::abs(found[i] - (9 * kCache + kLatency)) <= 1);
  CHECK(std::abs(found[8] - (10 * kCache + kLatency)) <= 1);
  // A weight of which products with rates are rounded, so that they stay flows of their own.
  const double weight = sim::round_significant<38>(1.0 / 3);
  OneLink third(weight, weight * 1e9);
  const std::vector<Time> apart = there(third);
  for (std::size_t i = 0; i < found.size(); ++i) CHECK(std::abs(found[i] - apart[i]) <= 2);
}

TEST_CASE("transfers share a link fairly", "[serving]") {
  PlainTimes times;
  TwoLinks ways(2, 1, 1e9);
  Trace trace;  // both prompts at once, each on a replica of its own
  trace.requests.push_back({0, 1000, 2, 0, 0});
  trace.requests.push_back({0, 1000, 2, 0, 0});
  Apart fleet{{limits_of(FirstToken::transfer), 2, Router::round_robin},
              {limits_of(FirstToken::transfer), 1, Router::round_robin},
              {}};
  fleet.handover = {&ways, 400, 0, Handing::whole, 1, 0, 1, 1};
  const ApartOutcome outcome = serve_apart(trace, fleet, times, times);
  for (const ApartOutcome::Handed& handed : outcome.handed)
    CHECK(handed.there - handed.begun == 2 * 400'000'000 + 5'000'000);
}

TEST_CASE("requests, tokens and bytes are the same on both sides", "[serving]") {
  PlainTimes times;
  struct Case {
    std::int64_t blocks, sequences, concurrency;
    double rate;
  };
  for (const Case& c : {Case{100'000, 256, 0, 1e9},
                        {60, 256, 0, 1e9},
                        {100'000, 3, 0, 1e8},
                        {80, 5, 40, 1e8},
                        {100'000, 64, 40, 1e12}}) {
    for (const FirstToken first : {FirstToken::prefill, FirstToken::transfer, FirstToken::decode}) {
      for (std::uint64_t seed = 1; seed <= 4; ++seed) {
        Trace trace = drawn(seed, 200, 20'000'000, 300);
        trace.concurrency = c.concurrency;
        TwoLinks ways(2, 3, c.rate);
        Apart fleet{{limits_of(first, c.blocks), 2, Router::least_loaded},
                    {limits_of(first, c.blocks, c.sequences), 3, Router::round_robin},
                    {}};
        fleet.prefill.limits.ahead = fleet.decode.limits.ahead = seed % 2 == 0;
        fleet.handover = {&ways, 100, 5000, Handing::whole, 1, 0, 1, 1};  // bytes of a token and of a sequence
        const ApartOutcome outcome = serve_apart(trace, fleet, times, times);
        std::int64_t inputs = 0, outputs = 0;
        for (std::size_t i = 0; i < trace.requests.size(); ++i) {
          const Served& served = outcome.requests[i];
          const ApartOutcome::Handed& handed = outcome.handed[i];
          REQUIRE(!served.refused);
          REQUIRE(served.arrival <= served.begun);
          REQUIRE(served.begun < handed.computed);
          REQUIRE(handed.computed <= handed.begun);
          REQUIRE(handed.begun < handed.there);
          REQUIRE(handed.computed <= served.first);
          REQUIRE(handed.there <= served.last);
          inputs += trace.requests[i].input;
          outputs += trace.requests[i].output;
        }
        CHECK(outcome.bytes ==
              100.0 * static_cast<double>(inputs) + 5000.0 * static_cast<double>(trace.requests.size()));
        const std::int64_t written = outcome.decode.output_tokens;
        if (first == FirstToken::decode)
          CHECK(written == outputs);
        else
          CHECK(written == outputs - std::ssize(trace.requests));  // the first of each came with its prompt
      }
    }
  }
}

TEST_CASE("apart without a way between is never later than with one", "[serving]") {
  PlainTimes times;
  const Trace trace = drawn(7, 150, 60'000'000, 200);
  TwoLinks ways(1, 1, 1e8);
  Apart fleet{{limits_of(FirstToken::transfer), 1, Router::round_robin},
              {limits_of(FirstToken::transfer), 1, Router::round_robin},
              {}};
  const ApartOutcome free = serve_apart(trace, fleet, times, times);
  fleet.handover = {&ways, 1000, 0, Handing::whole, 1, 0, 1, 1};
  const ApartOutcome slow = serve_apart(trace, fleet, times, times);
  const Outcome together = serve(trace, fleet.prefill, times);
  Time apart_first = 0, together_first = 0;
  for (std::size_t i = 0; i < trace.requests.size(); ++i) {
    CHECK(free.handed[i].there == free.handed[i].computed);
    CHECK(free.requests[i].first <= slow.requests[i].first);
    // Nobody's answer stands in the way of a prompt: not later in the mean, whatever iteration a single one catches.
    apart_first += free.handed[i].computed;
    together_first += together.requests[i].first;
  }
  CHECK(apart_first < together_first);
}

TEST_CASE("answers dealt out in turn wait for their replica, by several front ends the longer", "[serving]") {
  PlainTimes times;
  const Trace trace = drawn(5, 300, 30'000'000, 200);
  const auto ran = [&](Router router, std::int64_t front_ends) {
    Apart fleet{
        {limits_of(FirstToken::transfer), 1, router}, {limits_of(FirstToken::transfer, 100'000, 1), 3, router}, {}};
    fleet.prefill.front_ends = fleet.decode.front_ends = front_ends;
    return serve_apart(trace, fleet, times, times);
  };
  const ApartOutcome one = ran(Router::round_robin, 1), many = ran(Router::round_robin, 10),
                     asks = ran(Router::least_loaded, 1);
  std::vector<double> counts(3, 0);
  const auto wait = [&](const ApartOutcome& outcome) {
    double sum = 0;
    for (const ApartOutcome::Handed& handed : outcome.handed)
      sum += static_cast<double>(handed.begun - handed.computed);
    return sum;
  };
  for (std::size_t i = 0; i < trace.requests.size(); ++i) {
    CHECK(one.handed[i].to == static_cast<std::int32_t>(i % 3));
    ++counts[static_cast<std::size_t>(many.handed[i].to)];
  }
  // A third each, but for a rest of one of each front end.
  for (const double count : counts) CHECK(count == Approx(100).margin(10));
  // One answer a replica at a time: who asks finds a free one, who deals in turn seldom, and ten who do more seldom.
  CHECK(wait(asks) < wait(one));
  CHECK(wait(one) < wait(many));
}

TEST_CASE("models that share a network are each alone where their links are, and wait where they meet", "[serving]") {
  PlainTimes times;
  const Trace one = drawn(3, 120, 20'000'000, 200), two = drawn(4, 90, 25'000'000, 300);
  TwoLinks both(2, 2, 1e9);
  /// The ways of the first pair of links, or of the second.
  class Half : public Ways {
   public:
    Half(TwoLinks& all, std::int64_t number) : all_(all), number_(number) {}
    const sim::Table<sim::LinkId, double>& capacity() const override { return all_.capacity(); }
    Way way(std::int64_t, std::int64_t) override { return all_.way(number_, number_); }

   private:
    TwoLinks& all_;
    std::int64_t number_;
  };
  Half first(both, 0), second(both, 1), again(both, 0);
  const auto fleet_on = [](Ways& ways) {
    Apart fleet{{limits_of(FirstToken::transfer), 1, Router::round_robin},
                {limits_of(FirstToken::transfer), 1, Router::round_robin},
                {}};
    fleet.handover = {&ways, 4000, 0, Handing::whole, 1, 0, 1, 1};
    return fleet;
  };
  const Apart a = fleet_on(first), b = fleet_on(second), meets = fleet_on(again);
  const ApartOutcome a_alone = serve_apart(one, a, times, times), b_alone = serve_apart(two, b, times, times);
  const std::vector<ApartRun> beside{{&one, &a, &times, &times}, {&two, &b, &times, &times}};
  const std::vector<ApartOutcome> apart = serve_apart(beside);
  for (std::size_t i = 0; i < one.requests.size(); ++i) REQUIRE(apart[0].requests[i].last == a_alone.requests[i].last);
  for (std::size_t i = 0; i < two.requests.size(); ++i) REQUIRE(apart[1].requests[i].last == b_alone.requests[i].last);
  const std::vector<ApartRun> sharing{{&one, &a, &times, &times}, {&two, &meets, &times, &times}};
  const std::vector<ApartOutcome> shared = serve_apart(sharing);
  CHECK(shared[0].bytes == a_alone.bytes);
  CHECK(shared[1].bytes == b_alone.bytes);
  Time on_the_way = 0, alone = 0;
  for (std::size_t i = 0; i < one.requests.size(); ++i) {
    on_the_way += shared[0].handed[i].there - shared[0].handed[i].begun;
    alone += a_alone.handed[i].there - a_alone.handed[i].begun;
  }
  CHECK(on_the_way > alone);
}

TEST_CASE("drafts that are accepted shorten answers by as much, beside prompts too", "[serving]") {
  PlainTimes times;
  Trace trace;
  trace.requests.push_back({0, 100, 4000, 0, 0});
  // Prompts all the while, of which each iteration has a part.
  for (std::int64_t i = 0; i < 40; ++i) trace.requests.push_back({i * 100'000'000, 3000, 1, 0, 0});
  Limits limits{64, 512, 100'000, 16, true, false, find_batching("vllm-v1")};
  const Outcome plain = serve(trace, {limits, 1, Router::round_robin}, times);
  limits.tokens_per_iteration = 1.5;
  const Outcome drafted = serve(trace, {limits, 1, Router::round_robin}, times);
  CHECK(drafted.output_tokens == plain.output_tokens);
  CHECK(drafted.requests[0].last < plain.requests[0].last);
}

}  // namespace
}  // namespace orrery::serving
