// Who comes first where some are more urgent, who is turned away where many wait, and routers whose knowledge is old.
#include <algorithm>

#include "sim/hash.h"
#include "tests/catch.h"
#include "workloads/runs/serving/serve.h"
#include "workloads/runs/serving/traffic.h"

namespace orrery::serving {
namespace {

constexpr Time kMillisecond = 1'000'000'000;

/// An iteration of a millisecond and a part by tokens.
class EvenTimes : public StepTimes {
 public:
  Segment decode(std::int64_t sequences, std::int64_t) override {
    return {0, INT64_MAX, kMillisecond + 1'009 * sequences, 3};
  }
  Time mixed(const Mixed& batch) override {
    Time time = kMillisecond + 1'009 * batch.decodes;
    for (const Piece& piece : batch.pieces) time += 50'021 * piece.fresh;
    return time;
  }
};

std::int64_t drawn(std::uint64_t seed, std::uint64_t n, std::int64_t low, std::int64_t high) {
  return low + static_cast<std::int64_t>(sim::hash_pair(seed, n) % static_cast<std::uint64_t>(high - low + 1));
}

/// Requests of which one in four is urgent (0), and the others are not (1).
Trace crowd(std::uint64_t seed, std::int64_t count, Time gap) {
  Trace trace;
  Time at = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto n = static_cast<std::uint64_t>(4 * i);
    at += drawn(seed, n, 1, 2 * gap);
    Request request{at, static_cast<std::int32_t>(drawn(seed, n + 1, 1, 400)),
                    static_cast<std::int32_t>(drawn(seed, n + 2, 1, 200)), 0, 0};
    request.priority = drawn(seed, n + 3, 0, 3) == 0 ? 0 : 1;
    trace.requests.push_back(request);
  }
  return trace;
}

Limits limits_by(Order order, const Batching* policy, std::int64_t blocks = 4'000) {
  Limits limits{8, 1024, blocks, 16, true, false, policy};
  limits.order = order;
  return limits;
}

double mean_wait(const Trace& trace, const Outcome& outcome, std::int32_t priority) {
  double sum = 0, count = 0;
  for (std::size_t i = 0; i < trace.requests.size(); ++i) {
    if (trace.requests[i].priority != priority) continue;
    sum += static_cast<double>(outcome.requests[i].begun - outcome.requests[i].arrival);
    ++count;
  }
  return sum / count;
}

std::int64_t answer_tokens(const Trace& trace) {
  std::int64_t sum = 0;
  for (const Request& request : trace.requests) sum += request.output;
  return sum;
}

TEST_CASE("an order by priority of requests that are all alike is the order by arrival", "[serving]") {
  EvenTimes times;
  for (const Batching* policy : batching_policies()) {
    for (const std::int64_t blocks : {60, 4'000}) {
      for (std::uint64_t seed = 1; seed <= 3; ++seed) {
        Trace trace = crowd(seed, 200, 15 * kMillisecond);
        for (Request& request : trace.requests) request.priority = 7;
        const Outcome plain = serve(trace, {limits_by(Order::arrival, policy, blocks), 1}, times);
        const Outcome ordered = serve(trace, {limits_by(Order::priority, policy, blocks), 1}, times);
        INFO(policy->name << ", " << blocks << " blocks, seed " << seed);
        for (std::size_t i = 0; i < trace.requests.size(); ++i)
          REQUIRE(ordered.requests[i].last == plain.requests[i].last);
        CHECK(ordered.preemptions == plain.preemptions);
      }
    }
  }
}

TEST_CASE("the urgent wait less than by arrival, the others more, and every token is served once", "[serving]") {
  EvenTimes times;
  for (const Batching* policy : batching_policies()) {
    const Trace trace = crowd(5, 400, 12 * kMillisecond);
    const Outcome plain = serve(trace, {limits_by(Order::arrival, policy), 1}, times);
    const Outcome ordered = serve(trace, {limits_by(Order::priority, policy), 1}, times);
    INFO(policy->name);
    CHECK(ordered.output_tokens == answer_tokens(trace));
    CHECK(mean_wait(trace, ordered, 0) < 0.2 * mean_wait(trace, plain, 0));
    CHECK(mean_wait(trace, ordered, 1) > mean_wait(trace, plain, 1));
    // Nobody is overtaken by a later one of the same priority.
    for (const std::int32_t priority : {0, 1}) {
      Time before = 0;
      for (std::size_t i = 0; i < trace.requests.size(); ++i) {
        if (trace.requests[i].priority != priority) continue;
        REQUIRE(ordered.requests[i].begun >= before);
        before = ordered.requests[i].begun;
      }
    }
  }
}

TEST_CASE("shares of priorities are those of the traffic, and change nothing else of it", "[serving]") {
  Traffic traffic;
  traffic.rate = 100;
  traffic.requests = 4'000;
  traffic.input = traffic.output = Length{};
  const Trace plain = trace_of(traffic, 16);
  traffic.priorities = {1, 3};
  const Trace shared = trace_of(traffic, 16);
  REQUIRE(shared.requests.size() == plain.requests.size());
  double urgent = 0;
  for (std::size_t i = 0; i < plain.requests.size(); ++i) {
    REQUIRE(shared.requests[i].arrival == plain.requests[i].arrival);
    REQUIRE(shared.requests[i].input == plain.requests[i].input);
    CHECK(plain.requests[i].priority == 0);
    urgent += shared.requests[i].priority == 0 ? 1 : 0;
  }
  // A quarter; the deviation of a share of n draws is sqrt(p (1 - p) / n).
  CHECK(urgent / 4'000 == Approx(0.25).margin(4 * std::sqrt(0.25 * 0.75 / 4'000)));
}

TEST_CASE("beyond so many that wait requests are turned away, and those that stay are served", "[serving]") {
  EvenTimes times;
  const Batching* vllm = find_batching("vllm-v1");
  // At one instant: none has begun when the third comes.
  Trace instant;
  for (int i = 0; i < 3; ++i) instant.requests.push_back({5, 100, 10, 0, 0});
  Limits limits = limits_by(Order::arrival, vllm);
  limits.waiting = 2;
  const Outcome three = serve(instant, {limits, 1}, times);
  CHECK_FALSE(three.requests[1].turned_away);
  CHECK(three.requests[2].turned_away);
  const Trace trace = crowd(9, 500, 8 * kMillisecond);
  std::int64_t before = std::ssize(trace.requests);
  for (const std::int64_t most : {1, 4, 16, 64}) {
    limits.waiting = most;
    const Outcome outcome = serve(trace, {limits, 1}, times);
    std::int64_t away = 0, tokens = 0;
    for (std::size_t i = 0; i < trace.requests.size(); ++i) {
      const Served& served = outcome.requests[i];
      CHECK((served.last == kNever) == served.turned_away);
      away += served.turned_away ? 1 : 0;
      if (!served.turned_away) tokens += trace.requests[i].output;
    }
    INFO(most << " wait at most");
    CHECK(away > 0);
    CHECK(away < before);
    CHECK(outcome.output_tokens == tokens);
    for (const Sample& sample : outcome.samples.front()) CHECK(sample.waiting <= most);
    before = away;
  }
}

TEST_CASE("a router that looks ahead of every request is one that knows what is", "[serving]") {
  EvenTimes times;
  const Trace trace = crowd(3, 500, 2 * kMillisecond);
  Fleet fleet{limits_by(Order::arrival, find_batching("vllm-v1")), 5, Router::least_loaded};
  const Outcome knows = serve(trace, fleet, times);
  fleet.looks_every = 1;
  const Outcome looks = serve(trace, fleet, times);
  for (std::size_t i = 0; i < trace.requests.size(); ++i) REQUIRE(looks.requests[i].last == knows.requests[i].last);
  // What it saw once and for all: an idle fleet, of which the first replica gets all.
  fleet.looks_every = 3600 * 1000 * kMillisecond;
  const Outcome blind = serve(trace, fleet, times);
  for (const Served& served : blind.requests) CHECK(served.replica == 0);
}

TEST_CASE("a router that sees all is never worse than one whose knowledge is old by more than noise", "[serving]") {
  EvenTimes times;
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    const Trace trace = crowd(seed, 1000, 2 * kMillisecond);
    const auto mean = [&](Time every) {
      Fleet fleet{limits_by(Order::arrival, find_batching("vllm-v1")), 6, Router::least_loaded};
      fleet.looks_every = every;
      const Outcome outcome = serve(trace, fleet, times);
      double sum = 0;
      for (const Served& served : outcome.requests) sum += static_cast<double>(served.last - served.arrival);
      return sum;
    };
    const double knows = mean(0);
    for (const Time every : {10 * kMillisecond, 100 * kMillisecond, 1000 * kMillisecond}) {
      INFO("seed " << seed << ", looks every " << every);
      CHECK(knows < 1.01 * mean(every));
    }
  }
}

TEST_CASE("a router by what caches have goes by what they had when it looked", "[serving]") {
  EvenTimes times;
  // Two prompts of the same content, long apart, and others between that keep replicas level.
  Trace trace;
  trace.different = 4;
  trace.contents = {0, 1, 2, 3};
  for (int i = 0; i < 8; ++i)
    trace.requests.push_back({i * 1000 * kMillisecond, 64, 4, static_cast<std::uint32_t>(i % 2 * 2), 2});
  Fleet fleet{limits_by(Order::arrival, find_batching("vllm-v1")), 3, Router::prefix_aware};
  fleet.limits.prefix_caching = true;
  const Outcome knows = serve(trace, fleet, times);
  fleet.looks_every = 1;
  const Outcome looks = serve(trace, fleet, times);
  CHECK(looks.found_tokens == knows.found_tokens);
  for (std::size_t i = 0; i < trace.requests.size(); ++i) CHECK(looks.requests[i].replica == knows.requests[i].replica);
  // Each content is found again but where it is new.
  CHECK(knows.found_tokens == 6 * 32);
}

}  // namespace
}  // namespace orrery::serving
