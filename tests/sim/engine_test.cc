// The engine on plans small enough to time by hand; every expectation is derived beside it.
#include "sim/engine.h"

#include <cmath>
#include <vector>

#include "sim/error.h"
#include "sim/noise.h"
#include "tests/catch.h"

using namespace orrery::sim;

namespace {

constexpr std::int64_t kMs = 1'000'000'000;  // ps

Op compute(std::int64_t duration, std::uint8_t stream = 0) {
  Op op;
  op.duration = Duration(duration);
  op.stream = stream;
  return op;
}

Op transfer(std::uint32_t slot, double bytes, std::uint8_t stream = 0, std::int64_t latency = 0) {
  Op op;
  op.kind = OpKind::transfer;
  op.slot = slot;
  op.work = bytes;
  op.stream = stream;
  op.duration = Duration(latency);
  return op;
}

/// A plan under construction: ranks with programs of their own.
struct Builder {
  Plan plan;
  Network network;

  CommunicatorId communicator(std::uint32_t members, const std::vector<WeightedLink>& links = {},
                              std::int64_t latency = 0) {
    return plan.communicators.push_back({members, network.add_route(links, Duration(latency)), 1});
  }
  InstanceId rank(const Program& program, const std::vector<CommunicatorId>& slots = {}, double slowdown = 1) {
    return plan.add_instance({plan.programs.push_back(program), slowdown, plan.instances.size()}, slots);
  }
  Result run() {
    RunOptions options;
    for (std::uint32_t i = 0; i < plan.instances.size(); ++i) options.record.push_back(InstanceId{i});
    return orrery::sim::run(plan, network, options);
  }
};

std::vector<std::int64_t> values(const std::vector<SimTime>& times) {
  std::vector<std::int64_t> list;
  for (const SimTime t : times) list.push_back(t.value());
  return list;
}

using Times = std::vector<std::int64_t>;

/// One rank per entry, each waiting `first` and `then` moving `bytes` over the links given, alone on its communicator.
struct LoneFlow {
  std::int64_t first;
  double bytes;
  std::vector<WeightedLink> links;
  double cap = 0;
};

Times ends_of(Builder& builder, const std::vector<LoneFlow>& flows) {
  for (const LoneFlow& flow : flows) {
    Program program;
    program.add(compute(flow.first));
    Op op = transfer(0, flow.bytes);
    op.rate_cap = flow.cap;
    program.add(op);
    builder.rank(program, {builder.communicator(1, flow.links)});
  }
  const Result result = builder.run();
  REQUIRE(result.outcome == Outcome::finished);
  return values(result.last_finish.rows());
}

}  // namespace

TEST_CASE("an empty plan ends at once") {
  Builder b;
  const Result result = b.run();
  CHECK(result.outcome == Outcome::finished);
  CHECK(result.makespan == SimTime(0));
}

TEST_CASE("a stream runs in order; waits join streams") {
  Builder b;
  b.plan.streams = 2;
  Program p;
  const auto first = p.add(compute(10));
  p.add(compute(5, 1));
  p.add(compute(7, 1), std::vector{first});
  p.add(compute(1));
  b.rank(p);
  const Result result = b.run();
  // Stream 0: 0-10, 10-11. Stream 1: 0-5, then waits for 10: 10-17.
  CHECK(values(result.records[0].start) == Times{0, 0, 10, 10});
  CHECK(values(result.records[0].finish) == Times{10, 5, 17, 11});
  CHECK(result.makespan == SimTime(17));
  CHECK(result.events == 4);
}

TEST_CASE("launch-bound work waits for the host") {
  // Each operation: three kernels of 2 on the device, launched at 4, 8 and 12 after the host begins: 12 of issue, and
  // the last kernel ends at 12 + 2 = 14 if the device is idle.
  Builder b;
  Op op = compute(6);
  op.issue = Duration(12);
  op.issue_bound = Duration(14);
  Program p;
  p.add(op);
  p.add(op);
  b.rank(p);
  // The host begins the second at 12, so it ends at 26, long after the device could have (14 + 6).
  CHECK(values(b.run().records[0].finish) == Times{14, 26});
}

TEST_CASE("device-bound work hides the host") {
  Builder b;
  Op op = compute(100);
  op.issue = Duration(12);
  op.issue_bound = Duration(42);
  Program p;
  p.add(op);
  p.add(op);
  b.rank(p);
  CHECK(values(b.run().records[0].finish) == Times{100, 200});
}

TEST_CASE("the host stops where it waits for an operation") {
  Builder b;
  b.plan.streams = 2;
  Op first = compute(100);
  first.issue = Duration(10);
  first.issue_bound = Duration(10);
  first.host_waits = true;
  Op second = compute(1, 1);
  second.issue = Duration(10);
  second.issue_bound = Duration(11);
  Program p;
  p.add(first);
  p.add(second);
  p.add(second);
  b.rank(p);
  // The first ends at 100; then the host begins the second at 100 and the third at 110.
  CHECK(values(b.run().records[0].finish) == Times{100, 111, 121});
}

TEST_CASE("a transfer begins when the last member has arrived, after its latency and the route's") {
  Builder b;
  b.network.add_link(Bandwidth{1e12});  // a byte per picosecond
  const auto c = b.communicator(2, {{LinkId{0}}}, 30);
  Op send = transfer(0, 1000, 0, 5);
  send.issue = Duration(2);
  Program early, late;
  early.add(send);
  early.add(compute(1));
  late.add(compute(100));
  late.add(send);
  b.rank(early, {c});
  b.rank(late, {c});
  const Result result = b.run();
  // Arrivals at 2 (issued) and 100; the fluid part at 100 + 5 + 30; 1000 ps of it.
  CHECK(values(result.records[0].ready) == Times{2, 1135});
  CHECK(values(result.records[0].start) == Times{100, 1135});
  CHECK(values(result.records[0].finish) == Times{1135, 1136});
  CHECK(values(result.records[1].finish) == Times{100, 1135});
}

TEST_CASE("two flows share a link while both are there") {
  // Two 1 GB flows on 1 GB/s; b starts at 0.5 s. Shared until a ends at 1.5 s; b, alone again, ends at 2.0 s.
  Builder b;
  const LinkId l = b.network.add_link(Bandwidth{1e9});
  CHECK(ends_of(b, {{0, 1e9, {{l}}}, {500 * kMs, 1e9, {{l}}}}) == Times{1500 * kMs, 2000 * kMs});
}

TEST_CASE("a third flow elsewhere takes what the bottleneck leaves") {
  // Link A 3 GB/s: x, y. Link B 1 GB/s: y, z. y and z get 0.5 each, x 2.5: 5 GB in 2 s. y and z (1 GB each) end at 2 s.
  Builder b;
  const LinkId a = b.network.add_link(Bandwidth{3e9}), c = b.network.add_link(Bandwidth{1e9});
  CHECK(ends_of(b, {{0, 5e9, {{a}}}, {0, 1e9, {{a}, {c}}}, {0, 1e9, {{c}}}}) ==
        Times{2000 * kMs, 2000 * kMs, 2000 * kMs});
}

TEST_CASE("weights load links, caps hold rates") {
  Builder b;
  const LinkId l = b.network.add_link(Bandwidth{3e9});
  // Weight 2 and weight 1 share 3 GB/s at 1 GB/s each; when the first (1 GB) ends at 1 s, the second has 2 of its 3 GB
  // left and is capped at 2 GB/s: 2 s in all.
  CHECK(ends_of(b, {{0, 1e9, {{l, 2}}}, {0, 3e9, {{l}}, 2e9}}) == Times{1000 * kMs, 2000 * kMs});
}

TEST_CASE("without links only the cap counts, without either nothing does") {
  Builder b;
  CHECK(ends_of(b, {{10, 1e9, {}, 1e9}, {10, 1e9, {}}, {10, 0, {}, 1e9}}) == Times{1000 * kMs + 10, 10, 10});
}

TEST_CASE("transfers that only follow one another never meet the solver") {
  Builder b;
  const LinkId l = b.network.add_link(Bandwidth{1e9});
  Program p;
  for (int n = 0; n < 5; ++n) p.add(transfer(0, 1e6));
  b.rank(p, {b.communicator(1, {{l}})});
  const Result result = b.run();
  CHECK(result.makespan == SimTime(5 * kMs));
  CHECK(result.solves == 0);
}

TEST_CASE("several transfers of one communicator may be under way") {
  // Two streams of the same two ranks: both meet at once and share the link, 1 MB each on 1 GB/s: 2 ms.
  Builder b;
  b.plan.streams = 2;
  const LinkId l = b.network.add_link(Bandwidth{1e9});
  const auto c = b.communicator(2, {{l}});
  Program p;
  p.add(transfer(0, 1e6, 0));
  p.add(transfer(0, 1e6, 1));
  b.rank(p, {c});
  b.rank(p, {c});
  CHECK(values(b.run().records[1].finish) == Times{2 * kMs, 2 * kMs});
}

TEST_CASE("the k-th transfer meets the k-th, in issue order, whichever stream is sooner") {
  // Rank 0 reaches its second transfer (stream 1) at 0 and its first at 50; rank 1 the first at 0, the second at 20.
  Builder b;
  b.plan.streams = 2;
  const auto c = b.communicator(2);
  Program zero, one;
  zero.add(compute(50));
  zero.add(transfer(0, 0, 0));
  zero.add(transfer(0, 0, 1));
  one.add(transfer(0, 0, 0));
  one.add(compute(20, 1));
  one.add(transfer(0, 0, 1));
  b.rank(zero, {c});
  b.rank(one, {c});
  const Result result = b.run();
  CHECK(values(result.records[0].finish) == Times{50, 50, 20});
  CHECK(values(result.records[1].finish) == Times{50, 20, 20});
}

TEST_CASE("an instance may meet itself in two slots") {
  Builder b;
  b.plan.streams = 2;
  const auto c = b.communicator(2);
  Program p;
  p.add(compute(9));
  p.add(transfer(0, 0, 0));
  p.add(transfer(1, 0, 1));
  b.rank(p, {c, c});
  CHECK(values(b.run().records[0].finish) == Times{9, 9, 9});
}

TEST_CASE("a slow instance runs its compute longer and delays whom it meets") {
  Builder b;
  const auto c = b.communicator(2);
  Program p;
  p.add(compute(100));
  p.add(transfer(0, 0, 0, 7));
  b.rank(p, {c}, 1.1);
  b.rank(p, {c});
  const Result result = b.run();
  CHECK(values(result.records[0].finish) == Times{110, 117});
  CHECK(values(result.records[1].finish) == Times{100, 117});
}

TEST_CASE("noise scales each operation by its own factor") {
  Builder b;
  b.plan.noise = {0.1, 5};
  Program p;
  p.add(compute(1'000'000));
  p.add(compute(1'000'000));
  b.rank(p);
  const auto length = [&](std::uint64_t op) {
    return std::llround(1e6 * noise_factor(b.plan.noise, b.plan.instances[InstanceId{0}].noise_key, op));
  };
  CHECK(values(b.run().records[0].finish) == Times{length(0), length(0) + length(1)});
  CHECK(length(0) != length(1));
}

TEST_CASE("a deadlock names the heads of the blocked streams, transfers first") {
  // Both ranks first want what the other offers second.
  Builder b;
  b.plan.streams = 2;
  const auto x = b.communicator(2), y = b.communicator(2);
  Program xy, yx;
  xy.add(transfer(0, 1));
  xy.add(transfer(1, 1));
  const auto first = yx.add(transfer(1, 1));
  yx.add(transfer(0, 1));
  yx.add(compute(3, 1), std::vector{first});
  b.rank(xy, {x, y});
  b.rank(yx, {x, y});
  const Result result = b.run();
  REQUIRE(result.outcome == Outcome::deadlock);
  REQUIRE(result.stuck.size() == 3);
  CHECK(result.stuck[0].instance == InstanceId{0});
  CHECK(result.stuck[0].communicator == x);
  CHECK(result.stuck[0].arrived == 1);
  CHECK(result.stuck[0].members == 2);
  CHECK(result.stuck[1].instance == InstanceId{1});
  CHECK(result.stuck[1].communicator == y);
  CHECK(result.stuck[2].op == 2);
  CHECK(result.stuck[2].members == 0);  // waits for another stream
}

TEST_CASE("a member that never comes is a deadlock") {
  Builder b;
  const auto c = b.communicator(2);
  Program comes, stays;
  comes.add(transfer(0, 1));
  stays.add(compute(5));
  b.rank(comes, {c});
  b.rank(stays, {c});
  const Result result = b.run();
  CHECK(result.outcome == Outcome::deadlock);
  REQUIRE(result.stuck.size() == 1);
  CHECK(result.stuck[0].arrived == 1);
  CHECK(result.makespan == SimTime(5));
}

TEST_CASE("at most 64 stuck operations are listed") {
  Builder b;
  const auto c = b.communicator(101);
  Program comes, stays;
  comes.add(transfer(0, 1));
  for (int n = 0; n < 100; ++n) b.rank(comes, {c});
  b.rank(stays, {c});
  CHECK(b.run().stuck.size() == 64);
}

TEST_CASE("members that disagree are our mistake") {
  Builder b;
  const auto c = b.communicator(2);
  Program one, two;
  one.add(transfer(0, 1));
  two.add(transfer(0, 2));
  b.rank(one, {c});
  b.rank(two, {c});
  CHECK_THROWS_AS(b.run(), InternalError);
}

TEST_CASE("times beyond the clock are refused, not wrapped") {
  Builder b;
  const LinkId l = b.network.add_link(Bandwidth{1});
  Program p;
  p.add(transfer(0, 1e12));  // 30,000 years
  b.rank(p, {b.communicator(1, {{l}})});
  CHECK_THROWS_AS(b.run(), UserError);

  Builder sum;
  Program q;
  for (int n = 0; n < 20; ++n) q.add(compute((std::int64_t{1} << 60) - 1));
  sum.rank(q);
  CHECK_THROWS_AS(sum.run(), UserError);
}
