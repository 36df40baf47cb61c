// Does a replayed queue hand out every GPU once, account for all of their time, and hold to its policy and to what
// queueing theory says?
#include <algorithm>
#include <cmath>
#include <map>

#include "tests/catch.h"
#include "workloads/runs/campaign/random.h"
#include "workloads/runs/queue/replay.h"

using namespace orrery;
using namespace orrery::queue;

namespace {

constexpr std::array<double, kSpans> kEven{1, 1, 1, 1};

/// Units of `unit` nodes, `pod` units to a pod.
Layout layout_of(std::int32_t nodes, std::int32_t gpus_per_node, std::int32_t unit, std::int32_t pod) {
  Layout layout;
  layout.gpus_per_node = gpus_per_node;
  for (std::int32_t n = 0; n < nodes; ++n) layout.unit_of.push_back(n / unit);
  for (std::int32_t u = 0; u <= (nodes - 1) / unit; ++u) layout.pod_of.push_back(u / pod);
  return layout;
}

Request job(std::int64_t submit, std::int64_t gpus, std::int64_t work, std::int64_t limit = 0) {
  return {submit, gpus, work, limit > 0 ? limit : work, 0};
}

Trace random_trace(std::uint64_t seed, std::int64_t most_gpus) {
  campaign::Random random(seed, 7);
  Trace trace;
  trace.curves = {kEven, {1, 1.1, 1.3, 1.7}};
  std::int64_t now = 0;
  for (int i = 0; i < 300; ++i) {
    now += static_cast<std::int64_t>(random.exponential() * 300);
    const auto gpus = std::max<std::int64_t>(
        1, static_cast<std::int64_t>(std::pow(random.uniform(), 3) * static_cast<double>(most_gpus)));
    const auto work = static_cast<std::int64_t>(random.exponential() * 2000);
    trace.jobs.push_back(
        {now, gpus, work, work + static_cast<std::int64_t>(random.uniform() * 2000), random.uniform() < 0.5 ? 0u : 1u});
  }
  return trace;
}

std::vector<Policy> policies() {
  std::vector<Policy> all;
  for (const Order order : {Order::fifo, Order::shortest, Order::backfill})
    for (const Placement placement : {Placement::best_fit, Placement::first_fit, Placement::spread, Placement::random})
      all.push_back({order, placement});
  return all;
}

__int128 gpu_ms(const Outcome& outcome, Use use) { return outcome.gpu_ms[static_cast<std::size_t>(use)]; }

}  // namespace

TEST_CASE("every GPU's every millisecond is in exactly one class, and no GPU serves two jobs") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const Layout layout = layout_of(24, 8, 4, 3);
    const Trace trace = random_trace(seed, layout.gpus());
    for (const Policy& policy : policies()) {
      const Outcome outcome = replay(layout, trace, policy, seed);
      INFO("seed " << seed);
      __int128 sum = 0;
      for (const __int128 use : outcome.gpu_ms) {
        REQUIRE(use >= 0);
        sum += use;
      }
      REQUIRE(sum == static_cast<__int128>(layout.gpus()) * (outcome.end_ms - outcome.begin_ms));
      // Held GPUs at every start, from the jobs alone.
      __int128 work = 0, run = 0;
      std::map<std::int64_t, std::int64_t> change;
      for (std::size_t j = 0; j < trace.jobs.size(); ++j) {
        const Request& asked = trace.jobs[j];
        const Placed& placed = outcome.jobs[j];
        REQUIRE(placed.start_ms >= asked.submit_ms);
        const double factor = placed.at_best ? 1 : trace.curves[asked.curve][static_cast<std::size_t>(placed.span)];
        REQUIRE(static_cast<double>(placed.end_ms - placed.start_ms) ==
                Approx(static_cast<double>(asked.work_ms) * factor).margin(1));
        if (asked.gpus <= layout.gpus_per_node) REQUIRE(placed.span == Span::node);
        const std::int64_t held = asked.gpus < 8 ? asked.gpus : (asked.gpus + 7) / 8 * 8;
        change[placed.start_ms] += placed.end_ms > placed.start_ms ? held : 0;
        change[placed.end_ms] -= placed.end_ms > placed.start_ms ? held : 0;
        work += static_cast<__int128>(asked.gpus) * asked.work_ms;
        run += static_cast<__int128>(asked.gpus) * (placed.end_ms - placed.start_ms);
      }
      REQUIRE(gpu_ms(outcome, Use::work) == work);
      REQUIRE(gpu_ms(outcome, Use::slow_down) == run - work);
      std::int64_t held = 0;
      for (const auto& [time, by] : change) {
        held += by;
        REQUIRE(held <= layout.gpus());
      }
      REQUIRE(held == 0);
    }
  }
}

TEST_CASE("in order of arrival nobody overtakes; who backfills never holds up the first in the queue") {
  // 4 nodes. A holds 3 until 100; B wants 4; C wants 1 for 50, D 1 for 200.
  const Layout layout = layout_of(4, 1, 2, 2);
  Trace trace;
  trace.curves = {kEven};
  trace.jobs = {job(0, 3, 100), job(10, 4, 100), job(20, 1, 50), job(30, 1, 200)};
  const Outcome fifo = replay(layout, trace, {Order::fifo, Placement::best_fit}, 1);
  CHECK(fifo.jobs[1].start_ms == 100);
  CHECK(fifo.jobs[2].start_ms == 200);  // behind B
  CHECK(fifo.jobs[3].start_ms == 200);
  // C ends at 70, before B can begin; D would end at 270 and needs a node that B needs.
  const Outcome easy = replay(layout, trace, {Order::backfill, Placement::best_fit}, 1);
  CHECK(easy.jobs[2].start_ms == 20);
  CHECK(easy.jobs[1].start_ms == 100);
  CHECK(easy.jobs[3].start_ms == 200);
  CHECK(easy.backfilled == 1);
  // With a node that B does not need, D starts at once.
  trace.jobs[1].gpus = 3;
  CHECK(replay(layout, trace, {Order::backfill, Placement::best_fit}, 1).jobs[3].start_ms == 70);
  // The shortest by its limit first: C before B, though later.
  const Outcome shortest = replay(layout, trace, {Order::shortest, Placement::best_fit}, 1);
  CHECK(shortest.jobs[2].start_ms == 20);
  CHECK(shortest.jobs[1].start_ms >= 100);
}

TEST_CASE(
    "with exact limits, backfilling starts no job later than strict order does, for one-GPU jobs and in the mean") {
  double fifo = 0, easy = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const Layout layout = layout_of(24, 8, 4, 3);
    Trace trace = random_trace(seed, layout.gpus());
    trace.curves = {kEven, kEven};
    for (Request& one : trace.jobs) one.limit_ms = one.work_ms;
    const Outcome a = replay(layout, trace, {Order::fifo, Placement::first_fit}, seed),
                  b = replay(layout, trace, {Order::backfill, Placement::first_fit}, seed);
    for (std::size_t j = 0; j < trace.jobs.size(); ++j) {
      fifo += static_cast<double>(a.jobs[j].start_ms);
      easy += static_cast<double>(b.jobs[j].start_ms);
    }
    // In strict order starts rise with arrivals.
    for (std::size_t j = 1; j < trace.jobs.size(); ++j) REQUIRE(a.jobs[j].start_ms >= a.jobs[j - 1].start_ms);
  }
  CHECK(easy < fifo);
}

TEST_CASE("the mean wait of Poisson arrivals at c servers is Erlang's") {
  // M/M/c: W = C(c, a) / (c mu - lambda), C by Erlang's formula. 8 GPUs, load 0.8.
  constexpr int kServers = 8;
  constexpr double kService = 10'000, kLoad = 0.8 * kServers;
  double term = 1, sum = 0;
  for (int n = 0; n < kServers; ++n) {
    sum += term;
    term *= kLoad / (n + 1);
  }
  const double queued = term * kServers / (kServers - kLoad);
  const double wait = queued / (sum + queued) * kService / (kServers - kLoad);
  const Layout layout = layout_of(1, kServers, 1, 1);
  std::vector<double> means;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    campaign::Random random(seed, 11);
    Trace trace;
    trace.curves = {kEven};
    double now = 0;
    for (int i = 0; i < 20'000; ++i) {
      now += random.exponential() * kService / kLoad;
      trace.jobs.push_back(
          job(std::llround(now), 1, std::max<std::int64_t>(1, std::llround(random.exponential() * kService))));
    }
    const Outcome outcome = replay(layout, trace, {Order::fifo, Placement::best_fit}, seed);
    double mean = 0;
    for (std::size_t j = 0; j < trace.jobs.size(); ++j)
      mean += static_cast<double>(outcome.jobs[j].start_ms - trace.jobs[j].submit_ms) / 20'000;
    means.push_back(mean);
  }
  double mean = 0, square = 0;
  for (const double one : means) mean += one / 40;
  for (const double one : means) square += (one - mean) * (one - mean) / 39;
  const double error = 1.96 * std::sqrt(square / 40);
  INFO("Erlang " << wait << ", replayed " << mean << " +- " << error);
  CHECK(std::abs(mean - wait) < 1.5 * error);
  CHECK(error < 0.06 * wait);
}

TEST_CASE("each placement takes the nodes that it is named for") {
  const Layout layout = layout_of(12, 2, 2, 3);  // units of 2 nodes, pods of 6
  NodePool pool(layout);
  const auto nodes = [&](std::int64_t gpus, Placement placement) {
    std::vector<std::int32_t> list;
    for (const Share& share : pool.choose(gpus, placement, 3)) list.push_back(share.node);
    std::sort(list.begin(), list.end());
    return list;
  };
  pool.take({{2, 2}, {4, 1}});
  // Node 3 is alone in its unit: the fullest that holds one node. Two nodes: unit 0. Three: the fuller pod.
  CHECK(nodes(2, Placement::best_fit) == std::vector<std::int32_t>{3});
  CHECK(nodes(4, Placement::best_fit) == std::vector<std::int32_t>{0, 1});
  CHECK(nodes(6, Placement::best_fit) == std::vector<std::int32_t>{0, 1, 3});
  CHECK(nodes(14, Placement::best_fit) == std::vector<std::int32_t>{0, 6, 7, 8, 9, 10, 11});
  CHECK(nodes(1, Placement::best_fit) == std::vector<std::int32_t>{4});
  CHECK(nodes(6, Placement::first_fit) == std::vector<std::int32_t>{0, 1, 3});
  CHECK(nodes(6, Placement::spread) == std::vector<std::int32_t>{0, 6, 8});
  CHECK(nodes(24 - 4, Placement::random).size() == 10);
  CHECK(pool.span_of({{0, 2}}) == Span::node);
  CHECK(pool.span_of({{0, 2}, {1, 2}}) == Span::unit);
  CHECK(pool.span_of({{0, 2}, {3, 2}}) == Span::pod);
  CHECK(pool.span_of({{0, 2}, {6, 2}}) == Span::cluster);
  CHECK(pool.units_of({{0, 2}, {1, 2}, {6, 2}}) == 2);
  CHECK(pool.free_gpus() == 21);
  // A node, a unit of two, and three nodes in two units of a pod: no nearer; three units, two pods: nearer.
  CHECK(pool.at_best({{0, 2}}));
  CHECK(pool.at_best({{0, 2}, {1, 2}}));
  CHECK_FALSE(pool.at_best({{0, 2}, {3, 2}}));
  CHECK(pool.at_best({{0, 2}, {1, 2}, {3, 2}}));
  CHECK_FALSE(pool.at_best({{0, 2}, {3, 2}, {5, 2}}));
  CHECK_FALSE(pool.at_best({{0, 2}, {1, 2}, {6, 2}}));
}

TEST_CASE("GPUs that are free while a job waits are fragmented or too few") {
  // Two nodes of 2 GPUs, each with one GPU taken by a long job: a job of 2 GPUs fits nowhere though 2 are free.
  const Layout layout = layout_of(2, 2, 2, 1);
  Trace trace;
  trace.curves = {kEven};
  trace.jobs = {job(0, 1, 100), job(0, 1, 100), job(0, 2, 10)};
  const Outcome spread = replay(layout, trace, {Order::fifo, Placement::spread}, 1);
  CHECK(spread.jobs[2].start_ms == 100);
  CHECK(gpu_ms(spread, Use::fragmented) == 2 * 100);
  const Outcome packed = replay(layout, trace, {Order::fifo, Placement::best_fit}, 1);
  CHECK(packed.jobs[2].start_ms == 0);
  CHECK(gpu_ms(packed, Use::fragmented) == 0);
  CHECK(gpu_ms(packed, Use::idle) == 4 * 100 - 2 * 100 - 2 * 10);
  // A job of 4 waits for more than are free; one of 3 takes both nodes.
  trace.jobs = {job(0, 1, 100), job(0, 4, 10), job(0, 3, 10)};
  const Outcome large = replay(layout, trace, {Order::fifo, Placement::best_fit}, 1);
  CHECK(gpu_ms(large, Use::short_of) == 3 * 100);
  CHECK(gpu_ms(large, Use::rounding) == 10);
  // The first 100 ms of 120 hold a GPU, then all 4 for 10 ms and again.
  CHECK(large.held_gpus.front() == 1);
  CHECK(large.held_gpus[kSlices / 2] == 1);
  CHECK(large.held_gpus.back() == 4);
}
