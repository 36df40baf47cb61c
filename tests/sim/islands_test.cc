// Islands: which instances belong together, and that running ahead of each other changes no time.
#include "sim/islands.h"

#include <algorithm>

#include "sim/contention.h"
#include "sim/engine_part.h"
#include "sim/engine_threads.h"
#include "tests/catch.h"
#include "tests/sim/random_plan.h"
#include "tests/thinned.h"

using namespace orrery;
using sim::CommunicatorId;
using sim::InstanceId;
using sim::Islands;

namespace {

sim::RunOptions each_recorded(const sim::Plan& plan) {
  sim::RunOptions options;
  options.rows_shared_from = 1;
  for (std::uint32_t i = 0; i < plan.instances.size(); ++i) options.record.push_back(InstanceId{i});
  return options;
}

void require_equal(const sim::Result& apart, const sim::Result& together) {
  REQUIRE(apart.outcome == together.outcome);
  REQUIRE(apart.makespan == together.makespan);
  REQUIRE(apart.events == together.events);
  REQUIRE(apart.last_finish.rows() == together.last_finish.rows());
  for (std::size_t i = 0; i < together.records.size(); ++i) {
    REQUIRE(apart.records[i].ready == together.records[i].ready);
    REQUIRE(apart.records[i].start == together.records[i].start);
    REQUIRE(apart.records[i].finish == together.records[i].finish);
  }
  REQUIRE(apart.stuck.size() == together.stuck.size());
}

constexpr std::size_t kNever = 1'000'000'000;

/// Random plans of `copies` copies; how many had islands.
int compare_apart(std::uint64_t first_seed, std::uint64_t seeds, bool wild, std::uint32_t copies) {
  int with_islands = 0;
  for (std::uint64_t seed = first_seed; seed < first_seed + seeds; ++seed) {
    INFO("seed " << seed);
    test::Odd odd;
    if (seed % 3 == 0) odd.slow_instance = 1;  // so that copies do not do the same at an instant
    const test::Case made = test::expand(test::random_base(seed, wild), copies, odd);
    const sim::RunOptions options = each_recorded(made.plan);
    require_equal(sim::run(made.plan, made.network, options, sim::Threads{.ahead_from = 1}),
                  sim::run(made.plan, made.network, options, sim::Threads{.ahead_from = kNever}));
    const sim::Contention contention = sim::find_contention(made.plan, made.network);
    with_islands += sim::find_islands(made.plan, made.network, contention, 0).count > 1;
  }
  return with_islands;
}

/// `pairs` pairs of instances that pass `messages` messages within the pair and then meet once in one communicator of
/// all, on all links. A pair has a link, which its messages can fill.
test::Case pairs_that_meet(std::uint32_t pairs, std::uint32_t messages) {
  test::Case made;
  sim::Plan& plan = made.plan;
  plan.streams = 2;
  sim::Program program;
  for (std::uint32_t m = 0; m < messages; ++m) {
    sim::Op compute, message;
    compute.duration = sim::Duration(1'000'000);
    message.kind = sim::OpKind::transfer;
    message.stream = static_cast<std::uint8_t>(m % 2);
    message.slot = 0;
    message.work = 1e6;
    message.duration = sim::Duration(1000);
    const std::uint32_t at = program.add(compute);
    program.add(message, std::vector<std::uint32_t>{at});
  }
  sim::Op meeting;
  meeting.kind = sim::OpKind::transfer;
  meeting.stream = 1;
  meeting.slot = 1;
  meeting.work = 1e6;
  program.add(meeting);
  plan.programs.push_back(program);
  std::vector<sim::WeightedLink> all;
  std::vector<CommunicatorId> of_pair;
  for (std::uint32_t p = 0; p < pairs; ++p) {
    const sim::WeightedLink link{made.network.add_link(sim::Bandwidth(1e9)), 1.0};
    all.push_back(link);
    const auto route = sim::RouteId{static_cast<std::uint32_t>(made.network.routes())};
    made.network.add_route(std::vector<sim::WeightedLink>{link}, sim::Duration(0));
    of_pair.push_back(plan.communicators.push_back({2, route, 1, p}));
  }
  const auto route = sim::RouteId{static_cast<std::uint32_t>(made.network.routes())};
  made.network.add_route(all, sim::Duration(0));
  const CommunicatorId of_all = plan.communicators.push_back({2 * pairs, route, 1, pairs});
  for (std::uint32_t i = 0; i < 2 * pairs; ++i) {
    const std::vector<CommunicatorId> slots{of_pair[i / 2], of_all};
    plan.add_instance({sim::ProgramId{0}, 1.0, i}, slots);
  }
  return made;
}

}  // namespace

TEST_CASE("islands that run ahead of each other end when they do together") {
  CHECK(compare_apart(1, tests::thinned(3000), false, 4) > tests::thinned(600));
  CHECK(compare_apart(50000, tests::thinned(800), false, 9) > tests::thinned(100));
}

TEST_CASE("two threads leave a plan with islands to one, three share it out") {
  const test::Case made = pairs_that_meet(4, 20);
  const auto divided = [&](std::uint32_t threads) {
    return sim::EngineTables(made.plan, made.network, {}, {.count = threads, .ahead_from = 1});
  };
  CHECK(divided(2).islands.count == 4);
  CHECK(divided(2).partition.parts == 1);
  CHECK(divided(3).islands.count == 0);
  CHECK(divided(3).partition.parts > 1);
  require_equal(sim::run(made.plan, made.network, {}, {.count = 2, .ahead_from = 1}),
                sim::run(made.plan, made.network, {}, {.count = 3, .ahead_from = 1}));
}

TEST_CASE("islands of plans that lock up lock up where they do together") {
  CHECK(compare_apart(200000, 600, true, 4) > 60);
}

TEST_CASE("those that meet often are an island, and meet the others seldom") {
  const test::Case made = pairs_that_meet(5, 20);
  const sim::Contention contention = sim::find_contention(made.plan, made.network);
  const Islands islands = sim::find_islands(made.plan, made.network, contention, 0);
  REQUIRE(islands.count == 5);
  for (std::uint32_t i = 0; i < 10; ++i) CHECK(islands.of_instance[i] == i / 2);
  for (std::uint32_t c = 0; c < 5; ++c) CHECK(islands.of_communicator[c] == c);
  CHECK(islands.of_communicator[5] == Islands::kJoint);
  // What is small enough belongs together, however seldom it meets.
  CHECK(sim::find_islands(made.plan, made.network, contention, 10).count == 0);
}

TEST_CASE("a joint communicator on links of islands without members leaves no islands") {
  test::Case made = pairs_that_meet(5, 20);
  // The last pair meets by itself, on its own link, which the others still cross.
  const sim::RouteId route{static_cast<std::uint32_t>(made.network.routes())};
  made.network.add_route(std::vector<sim::WeightedLink>{{sim::LinkId{4}, 1.0}}, sim::Duration(0));
  const CommunicatorId of_last = made.plan.communicators.push_back({2, route, 1, 99});
  made.plan.communicators.rows()[5].members = 8;
  for (std::uint32_t i = 8; i < 10; ++i) made.plan.slots[made.plan.slots_begin[i] + 1] = of_last;
  const sim::Contention contention = sim::find_contention(made.plan, made.network);
  CHECK(sim::find_islands(made.plan, made.network, contention, 0).count == 0);
}
