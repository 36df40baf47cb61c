// Fleets that change while they serve, tiers below a cache, and loads that rise and fall: what is conserved, and what
// they are where nothing of it happens.
#include <algorithm>
#include <deque>
#include <map>
#include <set>

#include "sim/hash.h"
#include "tests/catch.h"
#include "workloads/runs/serving/serve.h"
#include "workloads/runs/serving/traffic.h"

namespace orrery::serving {
namespace {

constexpr Time kMillisecond = 1'000'000'000, kSecond = 1000 * kMillisecond;

/// Iterations of a millisecond and a part by tokens.
class PlainTimes : public StepTimes {
 public:
  Segment decode(std::int64_t sequences, std::int64_t) override {
    return {0, INT64_MAX, kMillisecond + 1'003 * sequences, 7};
  }
  Time mixed(const Mixed& batch) override {
    Time time = kMillisecond + 1'003 * batch.decodes;
    for (const Piece& piece : batch.pieces) time += 100'003 * piece.fresh;
    return time;
  }
};

Trace chats(std::int64_t count, Time gap) {
  Trace trace;
  Time at = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto draw = [&](std::uint64_t what, std::int64_t most) {
      return static_cast<std::int64_t>(sim::hash_pair(what, static_cast<std::uint64_t>(i)) %
                                       static_cast<std::uint64_t>(most));
    };
    at += draw(1, 2 * gap);
    trace.requests.push_back(
        {at, static_cast<std::int32_t>(1 + draw(2, 400)), static_cast<std::int32_t>(1 + draw(3, 300)), 0, 0});
  }
  return trace;
}

Limits plain_limits() { return {64, 2048, 4'000, 16, true, false, find_batching("vllm-v1")}; }

std::int64_t tokens_of(const Trace& trace) {
  std::int64_t sum = 0;
  for (const Request& request : trace.requests) sum += request.output;
  return sum;
}

Autoscale scaler(std::int64_t least, std::int64_t most) {
  return {least, most, ScaleBy::under_way, 4, 0.1, kSecond, kSecond / 2, 2 * kSecond, 5 * kSecond};
}

TEST_CASE("a scaler that may not change anything is a fleet that stands", "[serving]") {
  const Trace trace = chats(600, 20 * kMillisecond);
  PlainTimes times;
  for (const Router router : {Router::round_robin, Router::least_loaded}) {
    Fleet fleet{plain_limits(), 3, router};
    const Outcome stands = serve(trace, fleet, times);
    fleet.autoscale = scaler(3, 3);
    const Outcome scaled = serve(trace, fleet, times);
    for (std::size_t i = 0; i < trace.requests.size(); ++i) {
      REQUIRE(scaled.requests[i].last == stands.requests[i].last);
      REQUIRE(scaled.requests[i].replica == stands.requests[i].replica);
    }
    CHECK(scaled.busy == stands.busy);
    REQUIRE(scaled.held.size() == 3);
    for (const Held& held : scaled.held) CHECK((held.from == 0 && held.until == scaled.end));
  }
}

TEST_CASE("a fleet that grows and shrinks serves every token, holds GPUs while it works, and waits less", "[serving]") {
  // A burst amid calm.
  Trace trace = chats(900, 100 * kMillisecond);
  for (std::size_t i = 300; i < 700; ++i)
    trace.requests[i].arrival = trace.requests[299].arrival + static_cast<Time>(i - 299) * 10 * kMillisecond;
  for (std::size_t i = 700; i < 900; ++i)
    trace.requests[i].arrival = trace.requests[i - 1].arrival + 100 * kMillisecond;
  PlainTimes times;
  Fleet fleet{plain_limits(), 1, Router::least_loaded};
  fleet.limits.sequences = 8;
  const Outcome alone = serve(trace, fleet, times);
  fleet.autoscale = scaler(1, 6);
  const Outcome scaled = serve(trace, fleet, times);
  CHECK(scaled.output_tokens == tokens_of(trace));
  double wait = 0, wait_alone = 0;
  for (std::size_t i = 0; i < trace.requests.size(); ++i) {
    const Served& served = scaled.requests[i];
    wait += static_cast<double>(served.begun - served.arrival);
    wait_alone += static_cast<double>(alone.requests[i].begun - alone.requests[i].arrival);
    // It was served on a replica whose GPUs were held from before it came until it was through.
    const auto holds = [&](const Held& held) {
      return held.replica == served.replica && held.from <= served.begun && served.last <= held.until;
    };
    REQUIRE(std::any_of(scaled.held.begin(), scaled.held.end(), holds));
  }
  CHECK(wait < 0.5 * wait_alone);
  using What = FleetEvent::What;
  const auto count = [&](What what) {
    return std::count_if(scaled.events.begin(), scaled.events.end(), [&](const auto& e) { return e.what == what; });
  };
  CHECK(count(What::asked_for) > 0);
  CHECK(count(What::given_back) > 0);
  CHECK(count(What::drains) <= count(What::given_back));
  // Nothing serves before it has started.
  for (const FleetEvent& asked : scaled.events) {
    if (asked.what != What::asked_for) continue;
    for (const FleetEvent& ready : scaled.events)
      if (ready.what == What::ready && ready.replica == asked.replica && ready.at > asked.at) {
        CHECK(ready.at >= asked.at + 2 * kSecond);
        break;
      }
  }
  // What is held more slowly comes later: a longer start-up never waits less here.
  fleet.autoscale->start = 6 * kSecond;
  const Outcome later = serve(trace, fleet, times);
  double wait_later = 0;
  for (const Served& served : later.requests) wait_later += static_cast<double>(served.begun - served.arrival);
  CHECK(wait_later > wait);
}

TEST_CASE("what a failed replica had under way goes on, begins again or is lost, and no token is counted twice",
          "[serving]") {
  const Trace trace = chats(400, 10 * kMillisecond);
  PlainTimes times;
  Fleet fleet{plain_limits(), 3, Router::least_loaded};
  for (const AtFailure what : {AtFailure::migrate, AtFailure::again, AtFailure::lost}) {
    fleet.failures = Failures{0, kSecond, 1, 300 * kMillisecond, kSecond, what, 1};
    const Outcome outcome = serve(trace, fleet, times);
    std::int64_t lost = 0, owed = 0;
    for (std::size_t i = 0; i < trace.requests.size(); ++i) {
      const Served& served = outcome.requests[i];
      REQUIRE(served.arrival == trace.requests[i].arrival);
      if (served.lost) {
        ++lost;
        owed += trace.requests[i].output;
        continue;
      }
      REQUIRE(served.last >= served.first);
      REQUIRE(served.first > served.begun);
    }
    INFO(name_of(what));
    CHECK((lost > 0) == (what == AtFailure::lost));
    CHECK((outcome.moved > 0) == (what != AtFailure::lost));
    CHECK((outcome.lost_tokens > 0) == (what != AtFailure::migrate));
    CHECK(outcome.output_tokens == tokens_of(trace) - owed + outcome.lost_tokens);
  }
}

TEST_CASE("a replica that fails ahead of all and is noticed at once is one that is not there", "[serving]") {
  Trace trace = chats(200, 20 * kMillisecond);
  for (Request& request : trace.requests) request.arrival += kMillisecond;
  PlainTimes times;
  Fleet fleet{plain_limits(), 3, Router::least_loaded};
  fleet.failures = Failures{0, 0, 1, 0, 1'000'000 * kMillisecond, AtFailure::migrate, 1};
  const Outcome failed = serve(trace, fleet, times);
  const Outcome fewer = serve(trace, {plain_limits(), 2, Router::least_loaded}, times);
  for (std::size_t i = 0; i < trace.requests.size(); ++i) {
    REQUIRE(failed.requests[i].last == fewer.requests[i].last);
    REQUIRE(failed.requests[i].replica == fewer.requests[i].replica + 1);
  }
}

TEST_CASE("failures by chance: the same seed is the same run, and every token is served", "[serving]") {
  const Trace trace = chats(1500, 10 * kMillisecond);
  PlainTimes times;
  Fleet fleet{plain_limits(), 4, Router::round_robin};
  fleet.failures = Failures{5, 0, 1, 200 * kMillisecond, kSecond, AtFailure::migrate, 3};
  fleet.autoscale = scaler(2, 8);
  const Outcome one = serve(trace, fleet, times), two = serve(trace, fleet, times);
  CHECK(one.moved > 0);
  CHECK(one.output_tokens == tokens_of(trace));
  CHECK(one.events.size() == two.events.size());
  for (std::size_t i = 0; i < trace.requests.size(); ++i) REQUIRE(one.requests[i].last == two.requests[i].last);
  fleet.failures->seed = 4;
  const Outcome other = serve(trace, fleet, times);
  CHECK(other.events.front().at == 0);
  CHECK(other.busy != one.busy);
}

/// The least recently used leaves, the last of a prompt first: lists that are searched from end to end.
struct SlowLists {
  std::size_t above, below;
  std::deque<std::int32_t> gpu, host;  // the oldest first
  static bool drop(std::deque<std::int32_t>& list, std::int32_t content) {
    const auto at = std::find(list.begin(), list.end(), content);
    if (at == list.end()) return false;
    list.erase(at);
    return true;
  }
  /// Contents found in all, of a prompt that then comes to lie above as a whole.
  std::int64_t serve(const std::vector<std::int32_t>& prompt) {
    std::size_t found = 0;
    const auto has = [](const std::deque<std::int32_t>& list, std::int32_t c) {
      return std::find(list.begin(), list.end(), c) != list.end();
    };
    while (found < prompt.size() && has(gpu, prompt[found])) ++found;
    const std::size_t here = found;
    while (found < prompt.size() && has(host, prompt[found])) ++found;
    for (std::size_t i = found; i-- > here;)
      if (drop(host, prompt[i])) host.push_back(prompt[i]);
    for (const std::int32_t content : prompt) drop(gpu, content);
    // Room is made ahead of the prompt, whose own blocks are held.
    while (gpu.size() + prompt.size() > above) {
      const std::int32_t out = gpu.front();
      gpu.pop_front();
      drop(host, out);
      host.push_back(out);
      if (host.size() > below) host.pop_front();
    }
    for (std::size_t i = prompt.size(); i-- > 0;) gpu.push_back(prompt[i]);
    return static_cast<std::int64_t>(found);
  }
};

TEST_CASE("what tiers below a cache have is what lists searched from end to end have", "[serving]") {
  // Twelve texts of four blocks, one request at a time; the last block of a prompt is its own.
  Trace trace;
  trace.different = 12 * 4;
  for (std::int32_t i = 0; i < trace.different; ++i) trace.contents.push_back(i);
  std::vector<std::int32_t> texts;
  for (std::int64_t i = 0; i < 400; ++i) {
    const auto text = static_cast<std::int32_t>(sim::mix64(static_cast<std::uint64_t>(i)) % 12);
    texts.push_back(text);
    trace.requests.push_back({i * 10 * kSecond, 4 * 16 + 1, 1, static_cast<std::uint32_t>(4 * text), 4});
  }
  for (const std::int64_t host : {0, 8, 20, 100}) {
    Limits limits{4, 2048, 17, 16, true, true, find_batching("vllm-v1")};
    limits.tiers = {{"host", host, kMillisecond / 4, 3 * kMillisecond}};
    PlainTimes times;
    const Outcome outcome = serve(trace, {limits, 1, Router::round_robin}, times);
    SlowLists lists{16, static_cast<std::size_t>(host), {}, {}};
    std::int64_t found = 0;
    for (const std::int32_t text : texts)
      found += 16 * lists.serve({4 * text, 4 * text + 1, 4 * text + 2, 4 * text + 3});
    INFO(host << " blocks below");
    CHECK(outcome.found_tokens == found);
    REQUIRE(outcome.tiers.size() == 1);
    CHECK(outcome.tiers[0].written == outcome.tiers[0].evicted + outcome.tiers[0].left);
    CHECK(outcome.tiers[0].left <= host);
    CHECK(outcome.tiers[0].reading == outcome.tiers[0].read * kMillisecond / 4);
    CHECK(outcome.output_tokens == tokens_of(trace));
    // One that is read whole waits for its first byte and its four blocks, and computes one token.
    const auto read = std::find_if(outcome.requests.begin(), outcome.requests.end(), [](const Served& served) {
      return served.begun - served.arrival == 3 * kMillisecond + kMillisecond;
    });
    CHECK((read != outcome.requests.end()) == (host >= 8));
    if (read != outcome.requests.end()) CHECK(read->first - read->begun == kMillisecond + 100'003);
  }
}

TEST_CASE("what is written through lies below while the cache still has it", "[serving]") {
  Trace trace;
  trace.different = 4;
  trace.contents = {0, 1, 2, 3};
  trace.requests.push_back({0, 65, 1, 0, 4});
  Limits limits{4, 2048, 100, 16, true, true, find_batching("vllm-v1")};
  limits.tiers = {{"host", 3, 1, 0}, {"disk", 100, 1, 0}};
  PlainTimes times;
  CHECK(serve(trace, {limits, 1, Router::round_robin}, times).tiers[0].written == 0);
  limits.tier_write = TierWrite::through;
  const Outcome outcome = serve(trace, {limits, 1, Router::round_robin}, times);
  CHECK(outcome.tiers[0].written == 4);
  CHECK(outcome.tiers[0].evicted == 1);
  CHECK(outcome.tiers[1].left == 1);
}

TEST_CASE("a load in levels is the even one in another time", "[serving]") {
  Traffic traffic;
  traffic.rate = 50;
  traffic.duration = 100;
  const Trace even = trace_of(traffic, 16);
  traffic.levels = {1, 1, 1};
  const Trace same = trace_of(traffic, 16);
  REQUIRE(even.requests.size() == same.requests.size());
  for (std::size_t i = 0; i < even.requests.size(); ++i)
    CHECK(std::abs(even.requests[i].arrival - same.requests[i].arrival) <= 1);
  // None in the first half, twice as many in the second: as many as before, each half as far from its end.
  traffic.levels = {0, 2};
  const Trace late = trace_of(traffic, 16);
  REQUIRE(late.requests.size() == even.requests.size());
  for (std::size_t i = 0; i < even.requests.size(); ++i)
    CHECK(std::abs(late.requests[i].arrival - (50 * kSecond + even.requests[i].arrival / 2)) <= 1);
}

TEST_CASE("who comes back sends along what was said, and finds it in the cache", "[serving]") {
  Traffic traffic;
  traffic.rate = 20;
  traffic.duration = 400;
  traffic.input = {.spread = Spread::lognormal, .mean = 100, .variation = 1};
  traffic.output = {.spread = Spread::lognormal, .mean = 50, .variation = 1};
  traffic.prefix = {64, 3};
  traffic.session = {{.spread = Spread::uniform, .mean = 4, .low = 1, .high = 7}, 5};
  const Trace trace = trace_of(traffic, 16);
  // As many requests as without sessions, but for turns behind the end: of 1 to 7 turns one comes two gaps behind the
  // first, in the mean.
  CHECK(static_cast<double>(trace.requests.size()) == Approx(20 * (400 - 2 * 5)).epsilon(0.08));
  std::map<std::uint32_t, std::vector<const Request*>> sessions;
  for (std::size_t i = 0; i < trace.requests.size(); ++i) {
    if (i > 0) REQUIRE(trace.requests[i].arrival >= trace.requests[i - 1].arrival);
    sessions[trace.requests[i].content].push_back(&trace.requests[i]);
  }
  double gaps = 0, turns = 0;
  std::set<std::int32_t> names;
  for (const auto& [content, requests] : sessions) {
    std::int64_t said = 64;
    for (const Request* request : requests) {
      REQUIRE(request->input > said);  // and what is asked now
      REQUIRE(request->contents == static_cast<std::uint32_t>(request->input / 16));
      said = request->input + request->output;
    }
    for (std::size_t i = 1; i < requests.size(); ++i)
      gaps += static_cast<double>(requests[i]->arrival - requests[i - 1]->arrival);
    turns += static_cast<double>(requests.size()) - 1;
    // Behind the shared text each block is of one session.
    const auto all = trace.contents_of(*requests.back());
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (i < 4)
        REQUIRE(all[i] / 4 < 3);
      else
        REQUIRE(names.insert(all[i]).second);
    }
  }
  CHECK(gaps / turns / 1e12 == Approx(5).epsilon(0.1));
  // With a cache that keeps all, what is found is the whole blocks of the prompt before, of its session.
  PlainTimes times;
  Limits limits = plain_limits();
  limits.blocks = 10'000'000;
  limits.prefix_caching = true;
  const Outcome outcome = serve(trace, {limits, 1, Router::round_robin}, times);
  std::int64_t found = 0;
  for (const auto& [content, requests] : sessions)
    for (std::size_t i = 1; i < requests.size(); ++i) found += requests[i - 1]->input / 16 * 16;
  const auto first = static_cast<std::int64_t>(sessions.size());
  CHECK(outcome.found_tokens >= found);
  CHECK(outcome.found_tokens <= found + 64 * first);
}

}  // namespace
}  // namespace orrery::serving
