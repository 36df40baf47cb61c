// Pools apart that are scaled and fail, and closed loops of fleets that do: what they are where nothing of it happens,
// a lone request by its parts, and what is conserved.
#include <algorithm>
#include <set>

#include "sim/hash.h"
#include "tests/catch.h"
#include "workloads/runs/serving/apart.h"

namespace orrery::serving {
namespace {

constexpr Time kMs = 1'000'000'000, kSec = 1000 * kMs;

/// Iterations of a time that is easy to add up.
class EvenTimes : public StepTimes {
 public:
  Segment decode(std::int64_t sequences, std::int64_t) override {
    return {0, INT64_MAX, 10 * kMs + 1'000 * sequences, 7};
  }
  Time mixed(const Mixed& batch) override {
    Time time = 20 * kMs + 1'000 * batch.decodes;
    for (const Piece& piece : batch.pieces) time += 50'000'000 * piece.fresh;
    return time;
  }
};

/// A link out of each replica of the first pool, and one into each of the second.
class Links : public Ways {
 public:
  Links(std::int64_t from, std::int64_t to, double rate) : from_(from) {
    for (std::int64_t i = 0; i < from + to; ++i) capacity_.push_back(rate);
    for (std::int64_t b = 0; b < to; ++b)
      for (std::int64_t a = 0; a < from; ++a)
        links_.push_back({{sim::LinkId{static_cast<std::uint32_t>(a)}, 1.0},
                          {sim::LinkId{static_cast<std::uint32_t>(from + b)}, 1.0}});
  }
  const sim::Table<sim::LinkId, double>& capacity() const override { return capacity_; }
  Way way(std::int64_t from, std::int64_t to) override {
    return {links_[static_cast<std::size_t>(to * from_ + from)], kMs};
  }

 private:
  std::int64_t from_;
  sim::Table<sim::LinkId, double> capacity_;
  std::vector<std::vector<sim::WeightedLink>> links_;
};

Limits limits_with(FirstToken first, std::int64_t blocks = 100'000, std::int64_t sequences = 64) {
  Limits limits{sequences, 4096, blocks, 16, true, false, find_batching("vllm-v1")};
  limits.first_token = first;
  return limits;
}

Apart pools(FirstToken first, std::int64_t prompts, std::int64_t answers, Router router, Ways* ways) {
  Apart fleet{{limits_with(first), prompts, router}, {limits_with(first), answers, router}, {}};
  fleet.handover = {ways, 1000, 5000, Handing::whole, 1, 0, 1, 1};
  return fleet;
}

Trace mixed_trace(std::uint64_t seed, std::int64_t count, Time gap, std::int64_t concurrency) {
  Trace trace;
  trace.concurrency = concurrency;
  Time at = 0;
  const auto draw = [&](std::uint64_t what, std::int64_t i, std::int64_t most) {
    return static_cast<std::int64_t>(sim::hash_pair(sim::hash_pair(seed, what), static_cast<std::uint64_t>(i)) %
                                     static_cast<std::uint64_t>(std::max<std::int64_t>(1, most)));
  };
  for (std::int64_t i = 0; i < count; ++i) {
    at += draw(1, i, 2 * gap);
    trace.requests.push_back(
        {at, static_cast<std::int32_t>(1 + draw(2, i, 400)), static_cast<std::int32_t>(1 + draw(3, i, 200)), 0, 0});
  }
  return trace;
}

std::int64_t answered(const Trace& trace, const std::vector<Served>& requests) {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < requests.size(); ++i) sum += requests[i].lost ? 0 : trace.requests[i].output;
  return sum;
}

constexpr std::array kHabits{FirstToken::prefill, FirstToken::transfer, FirstToken::decode};
constexpr std::array kPolicies{AtFailure::migrate, AtFailure::again, AtFailure::lost};
constexpr double kHundredYears = 3.2e9;

Failures seldom() { return {kHundredYears, 0, 1, kSec, kSec, AtFailure::migrate, 1}; }
Autoscale held_at(std::int64_t replicas) {
  return {replicas, replicas, ScaleBy::waiting, 4, 0.1, kSec, kSec / 2, kSec, kSec};
}

void check_same(const std::vector<Served>& a, const std::vector<Served>& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    REQUIRE(a[i].arrival == b[i].arrival);
    REQUIRE(a[i].begun == b[i].begun);
    REQUIRE(a[i].first == b[i].first);
    REQUIRE(a[i].last == b[i].last);
    REQUIRE(a[i].replica == b[i].replica);
  }
}

TEST_CASE("pools that never fail and may not grow are pools that stand, open and closed", "[serving]") {
  EvenTimes times;
  for (const Router router : {Router::round_robin, Router::least_loaded}) {
    for (const FirstToken first : kHabits) {
      for (const std::int64_t concurrency : {0, 24}) {
        const Trace trace = mixed_trace(3, 150, 40 * kMs, concurrency);
        Links links(2, 3, 1e7);
        const Apart stands = pools(first, 2, 3, router, &links);
        Apart changes = stands;
        changes.prefill.failures = changes.decode.failures = seldom();
        changes.prefill.autoscale = held_at(2);
        changes.decode.autoscale = held_at(3);
        const ApartOutcome a = serve_apart(trace, stands, times, times), b = serve_apart(trace, changes, times, times);
        check_same(a.requests, b.requests);
        for (std::size_t i = 0; i < trace.requests.size(); ++i) {
          REQUIRE(a.handed[i].begun == b.handed[i].begun);
          REQUIRE(a.handed[i].there == b.handed[i].there);
        }
        CHECK(a.bytes == b.bytes);
        CHECK(b.moved == 0);
        CHECK(a.decode.busy == b.decode.busy);
      }
    }
  }
}

TEST_CASE("a closed loop whose replicas never fail is one of a fleet that stands", "[serving]") {
  EvenTimes times;
  for (const std::int64_t concurrency : {3, 7, 40}) {
    const Trace trace = mixed_trace(5, 160, 0, concurrency);
    Fleet fleet{limits_with(FirstToken::transfer, 400, 16), 3, Router::round_robin};
    const Outcome stands = serve(trace, fleet, times);
    fleet.failures = seldom();
    fleet.autoscale = held_at(3);
    const Outcome changes = serve(trace, fleet, times);
    check_same(stands.requests, changes.requests);
    CHECK(stands.busy == changes.busy);
    CHECK(stands.output_tokens == changes.output_tokens);
    CHECK(stands.preemptions == changes.preemptions);
  }
}

TEST_CASE("an answer whose replica fails is computed again with what was written, and goes on", "[serving]") {
  EvenTimes times;
  Links links(1, 2, 1e7);
  Trace trace;
  trace.requests.push_back({0, 100, 60, 0, 0});
  trace.requests.push_back({1000 * kSec, 1, 1, 0, 0});  // until then things may happen
  const auto steps = [&](std::int64_t keys, std::int64_t count) { return time_of_steps(times, 1, keys, count); };
  const auto prompt = [](std::int64_t tokens) { return 20 * kMs + 50'000'000 * tokens; };
  const auto flow = [](std::int64_t tokens) { return (1000 * tokens + 5000) * 100'000 + kMs; };  // 10 MB/s
  for (const AtFailure what : kPolicies) {
    Apart fleet = pools(FirstToken::transfer, 1, 2, Router::least_loaded, &links);
    // The token that comes with the cache, 20 steps behind it, and half of one that is lost.
    const Time there = prompt(100) + flow(100);
    const Time fails = there + steps(101, 20) + 5 * kMs, noticed = fails + 3 * kSec;
    fleet.decode.failures = Failures{0, fails, 1, 3 * kSec, 1'000'000 * kMs, what, 1};
    const ApartOutcome outcome = serve_apart(trace, fleet, times, times);
    const Served& served = outcome.requests[0];
    INFO(name_of(what));
    CHECK(outcome.moved == (what == AtFailure::lost ? 0 : 1));
    CHECK(outcome.lost_tokens == (what == AtFailure::migrate ? 0 : 21));
    if (what == AtFailure::migrate) {
      // The prompt has what was written, of which the last token had no keys yet; the next comes with the cache.
      const Time again = noticed + prompt(121) + flow(121);
      CHECK(served.first == there);
      CHECK(outcome.handed[0].there == again);
      CHECK(served.last == again + steps(122, 60 - 22));
      CHECK(served.replica == 1);
    }
    if (what == AtFailure::again) {
      const Time again = noticed + prompt(100) + flow(100);
      CHECK(served.first == again);
      CHECK(served.last == again + steps(101, 59));
    }
    CHECK(served.lost == (what == AtFailure::lost));
    CHECK(outcome.broken == 0);
  }
}

TEST_CASE("a cache on its way breaks off with either end, and goes anew if it is still there", "[serving]") {
  EvenTimes times;
  Trace trace;
  trace.requests.push_back({0, 100, 3, 0, 0});
  trace.requests.push_back({1000 * kSec, 1, 1, 0, 0});
  const Time prompt = 20 * kMs + Time{50'000'000} * 100, flow = (1000 * 100 + 5000) * Time{1'000'000} + kMs;  // 1 MB/s
  const auto run = [&](bool sender) {
    Links links(2, 2, 1e6);
    Apart fleet = pools(FirstToken::transfer, 2, 2, Router::least_loaded, &links);
    (sender ? fleet.prefill : fleet.decode).failures =
        Failures{0, prompt + 40 * kMs, 1, kSec, 1'000'000 * kMs, AtFailure::migrate, 1};
    return serve_apart(trace, fleet, times, times);
  };
  const Time noticed = prompt + 40 * kMs + kSec;
  const ApartOutcome to = run(false), from = run(true);
  // The cache is where it was computed.
  CHECK(to.handed[0].computed == prompt);
  CHECK(to.handed[0].begun == noticed);
  CHECK(to.handed[0].there == noticed + flow);
  CHECK(to.handed[0].to == 1);
  CHECK(to.moved == 0);
  // Its prompt is computed once more, elsewhere.
  CHECK(from.handed[0].computed == noticed + prompt);
  CHECK(from.handed[0].there == noticed + prompt + flow);
  CHECK(from.handed[0].from == 1);
  CHECK(from.moved == 1);
  for (const ApartOutcome* outcome : {&to, &from}) CHECK(outcome->broken == 1000 * 100 + 5000);
}

TEST_CASE("a transfer that breaks off leaves its link to the others", "[serving]") {
  EvenTimes times;
  Trace trace;  // two prompts at once, which come to one replica over one link
  trace.requests.push_back({0, 100, 3, 0, 0});
  trace.requests.push_back({0, 100, 3, 0, 0});
  trace.requests.push_back({1000 * kSec, 1, 1, 0, 0});
  Links links(2, 1, 1e6);
  Apart fleet = pools(FirstToken::transfer, 2, 1, Router::least_loaded, &links);
  const Time prompt = 20 * kMs + Time{50'000'000} * 100, after = 40 * kMs;
  fleet.prefill.failures = Failures{0, prompt + after, 1, kSec, 1'000'000 * kMs, AtFailure::migrate, 1};
  const ApartOutcome outcome = serve_apart(trace, fleet, times, times);
  // Half of the rate at first, the whole of it from then on.
  const Time alone = (1000 * 100 + 5000) * Time{1'000'000};
  CHECK(outcome.handed[1].there == prompt + after + (alone - after / 2) + kMs);
}

TEST_CASE("whatever fails, requests, tokens and bytes add up", "[serving]") {
  EvenTimes times;
  bool moved = false, broke = false, lost = false;
  for (const FirstToken first : kHabits) {
    for (const AtFailure what : kPolicies) {
      for (std::uint64_t seed = 1; seed <= 6; ++seed) {
        const Trace trace = mixed_trace(seed, 200, 60 * kMs, seed % 2 == 0 ? 30 : 0);
        Links links(3, 3, seed % 3 == 0 ? 3e5 : 1e7);
        Apart fleet =
            pools(first, 3, 3, seed % 4 < 2 ? Router::round_robin : Router::least_loaded, seed == 5 ? nullptr : &links);
        if (seed == 6) fleet.decode.limits.blocks = 60;
        fleet.prefill.limits.ahead = fleet.decode.limits.ahead = seed % 3 == 1;
        fleet.prefill.failures = Failures{4, 0, 1, kSec / 2, 2 * kSec, what, seed};
        if (seed > 1) fleet.decode.failures = Failures{6, 0, 1, kSec / 4, kSec, what, seed};
        if (seed > 3) {
          fleet.prefill.autoscale = {1, 3, ScaleBy::waiting, 3, 0.1, kSec, kSec / 2, kSec, 2 * kSec};
          fleet.decode.autoscale = {1, 3, ScaleBy::under_way, 5, 0.1, kSec, kSec / 2, kSec, 2 * kSec};
        }
        const ApartOutcome outcome = serve_apart(trace, fleet, times, times);
        INFO(name_of(what) << ", first token " << static_cast<int>(first) << ", seed " << seed);
        double bytes = 0;
        for (std::size_t i = 0; i < trace.requests.size(); ++i) {
          const Served& served = outcome.requests[i];
          REQUIRE(!served.refused);
          lost = lost || served.lost;
          if (served.lost) continue;
          REQUIRE(served.arrival <= served.begun);
          REQUIRE(served.begun < served.first);
          REQUIRE(served.first <= served.last);
          REQUIRE(served.last != kNever);
          bytes += 1000.0 * trace.requests[i].input + 5000;
        }
        const std::int64_t written =
            outcome.decode.output_tokens + (first == FirstToken::decode ? 0 : outcome.prefill.output_tokens);
        CHECK(written == answered(trace, outcome.requests) + outcome.lost_tokens);
        CHECK((outcome.lost_tokens == 0 || what != AtFailure::migrate || first == FirstToken::transfer));
        // Each cache that is used was handed over whole, and once where no answer lost it. Who has seen all tokens by
        // then, as prompts show them, needs none.
        if (first != FirstToken::prefill) {
          CHECK(outcome.bytes - outcome.broken >= bytes);
          if (seed == 1) CHECK(outcome.bytes - outcome.broken == bytes);
        }
        moved = moved || outcome.moved > 0;
        broke = broke || outcome.broken > 0;
        const ApartOutcome same = serve_apart(trace, fleet, times, times);
        check_same(same.requests, outcome.requests);
      }
    }
  }
  CHECK((moved && broke && lost));
}

TEST_CASE("closed loops of fleets that fail and grow lose no request and no token", "[serving]") {
  EvenTimes times;
  for (const AtFailure what : kPolicies) {
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
      const Trace trace = mixed_trace(seed, 300, 0, 40);
      Fleet fleet{limits_with(FirstToken::transfer, seed == 2 ? 100 : 4000, 16), 2, Router::round_robin};
      fleet.failures = Failures{5, 0, 1, kSec / 2, kSec, what, seed};
      if (seed > 2) fleet.autoscale = {1, 5, ScaleBy::waiting, 1, 0.1, kSec, kSec / 2, kSec, 2 * kSec};
      const Outcome outcome = serve(trace, fleet, times);
      INFO(name_of(what) << ", seed " << seed);
      CHECK(outcome.output_tokens == answered(trace, outcome.requests) + outcome.lost_tokens);
      // Never more under way than users, and none comes ahead of one that ends.
      std::vector<std::pair<Time, int>> changes;
      for (const Served& served : outcome.requests) {
        REQUIRE(served.last != kNever);
        changes.emplace_back(served.arrival, 1);
        changes.emplace_back(served.last, -1);
      }
      std::sort(changes.begin(), changes.end());
      int under_way = 0;
      for (const auto& [at, change] : changes) {
        under_way += change;
        REQUIRE(under_way <= trace.concurrency);
      }
      CHECK((outcome.moved > 0) == (what != AtFailure::lost));
    }
  }
}

TEST_CASE("a user whose replica fails goes to another, and comes back when there is one", "[serving]") {
  EvenTimes times;
  const Trace trace = mixed_trace(9, 400, 0, 8);
  Fleet fleet{limits_with(FirstToken::transfer), 2, Router::round_robin};
  fleet.failures = Failures{0, kSec, 1, kSec / 2, 10 * kSec, AtFailure::migrate, 1};
  const Outcome outcome = serve(trace, fleet, times);
  const Time noticed = kSec + kSec / 2, back = noticed + 10 * kSec;
  std::set<std::int32_t> meanwhile, later;
  for (const Served& served : outcome.requests) {
    if (served.arrival > noticed && served.last < back) meanwhile.insert(served.replica);
    if (served.arrival > back) later.insert(served.replica);
  }
  CHECK(meanwhile == std::set<std::int32_t>{1});
  CHECK(later == std::set<std::int32_t>{0, 1});
}

TEST_CASE("each pool grows by its own figure, holds GPUs while it works, and its users wait less", "[serving]") {
  EvenTimes times;
  // Calm, a burst of long prompts, calm.
  Trace trace;
  for (std::int64_t i = 0; i < 1000; ++i) {
    const Time gap = i >= 100 && i < 900 ? 15 * kMs : 300 * kMs;
    trace.requests.push_back({(trace.requests.empty() ? 0 : trace.requests.back().arrival) + gap, 300, 100, 0, 0});
  }
  Links links(6, 6, 1e9);
  Apart fleet = pools(FirstToken::transfer, 1, 1, Router::least_loaded, &links);
  fleet.prefill.limits.batched_tokens = 512;
  fleet.decode.limits.sequences = 24;
  const auto sum = [](const ApartOutcome& outcome, auto&& of) {
    double all = 0;
    for (std::size_t i = 0; i < outcome.requests.size(); ++i) all += static_cast<double>(of(i));
    return all;
  };
  const auto prompts = [&](const ApartOutcome& o) {
    return sum(o, [&](std::size_t i) { return o.handed[i].computed - o.requests[i].arrival; });
  };
  const auto rooms = [&](const ApartOutcome& o) {
    return sum(o, [&](std::size_t i) { return o.handed[i].begun - o.handed[i].computed; });
  };
  const ApartOutcome stands = serve_apart(trace, fleet, times, times);
  Apart grows = fleet;
  grows.prefill.autoscale = {1, 6, ScaleBy::ttft, 0.5, 0.1, kSec, kSec / 2, 2 * kSec, 5 * kSec};
  const ApartOutcome first = serve_apart(trace, grows, times, times);
  CHECK(prompts(first) < 0.5 * prompts(stands));
  CHECK(first.decode.held.empty());
  grows.decode.autoscale = {1, 6, ScaleBy::waiting, 4, 0.1, kSec, kSec / 2, 2 * kSec, 5 * kSec};
  const ApartOutcome both = serve_apart(trace, grows, times, times);
  CHECK(rooms(both) < 0.5 * rooms(first));
  for (const Outcome* pool : {&both.prefill, &both.decode}) {
    CHECK(std::any_of(pool->events.begin(), pool->events.end(),
                      [](const FleetEvent& e) { return e.what == FleetEvent::What::given_back; }));
    CHECK(pool->held.size() > 1);
  }
  for (std::size_t i = 0; i < trace.requests.size(); ++i) {
    const auto covers = [](const std::vector<Held>& held, std::int32_t replica, Time from, Time until) {
      return std::any_of(held.begin(), held.end(),
                         [&](const Held& h) { return h.replica == replica && h.from <= from && until <= h.until; });
    };
    const ApartOutcome::Handed& handed = both.handed[i];
    // A prompt's cache stays until it is through; an answer's room is taken before it comes.
    REQUIRE(covers(both.prefill.held, handed.from, both.requests[i].arrival, handed.there));
    REQUIRE(covers(both.decode.held, handed.to, handed.begun, both.requests[i].last));
  }
  // A slower start is never a shorter wait here.
  grows.prefill.autoscale->start = grows.decode.autoscale->start = 8 * kSec;
  const ApartOutcome late = serve_apart(trace, grows, times, times);
  CHECK(prompts(late) > prompts(both));
}

TEST_CASE("what grows by the time between tokens keeps batches small", "[serving]") {
  /// An iteration takes as long as it has sequences.
  class Linear : public EvenTimes {
   public:
    Segment decode(std::int64_t sequences, std::int64_t) override { return {0, INT64_MAX, kMs * sequences, 0}; }
  };
  Linear times;
  const Trace trace = mixed_trace(2, 800, 20 * kMs, 0);
  Apart fleet = pools(FirstToken::transfer, 8, 1, Router::least_loaded, nullptr);
  const auto mean_gap = [](const ApartOutcome& outcome) {
    double time = 0, tokens = 0;
    for (const Work& work : outcome.decode.decode) {
      time += static_cast<double>(work.time) * (work.iterations > 0 ? work.decodes / work.iterations : 0);
      tokens += work.decodes;
    }
    return time / tokens;
  };
  const double alone = mean_gap(serve_apart(trace, fleet, times, times));
  fleet.decode.autoscale = {1, 8, ScaleBy::itl, 0.01, 0.1, kSec / 2, 0, kSec / 10, kSec};
  const double scaled = mean_gap(serve_apart(trace, fleet, times, times));
  CHECK(scaled < 0.5 * alone);
}

TEST_CASE("twice the workers, failing as often each, are through no later", "[serving]") {
  EvenTimes times;
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const Trace trace = mixed_trace(seed, 400, 30 * kMs, 0);
    const auto mean_end = [&](std::int64_t replicas) {
      Links links(replicas, replicas, 1e8);
      Apart fleet = pools(FirstToken::transfer, replicas, replicas, Router::least_loaded, &links);
      fleet.decode.limits.sequences = 16;
      fleet.prefill.failures = fleet.decode.failures = Failures{20, 0, 1, kSec / 4, kSec, AtFailure::migrate, seed};
      const ApartOutcome outcome = serve_apart(trace, fleet, times, times);
      double sum = 0;
      for (const Served& served : outcome.requests) sum += static_cast<double>(served.last - served.arrival);
      return sum;
    };
    CHECK(mean_end(4) <= mean_end(2));
  }
}

}  // namespace
}  // namespace orrery::serving
