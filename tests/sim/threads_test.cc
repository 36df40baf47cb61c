// One run on several threads: the same times as on one, to the last bit; the parts that a plan falls into; the threads.
#include <algorithm>
#include <array>
#include <atomic>
#include <random>
#include <stdexcept>

#include "sim/engine_threads.h"
#include "sim/fair_sharing.h"
#include "sim/partition.h"
#include "sim/team.h"
#include "tests/catch.h"
#include "tests/sim/random_plan.h"
#include "tests/thinned.h"

using namespace orrery;
using sim::CommunicatorId;
using sim::index;
using sim::InstanceId;
using sim::LinkId;

namespace {

sim::RunOptions all_recorded(const sim::Plan& plan) {
  sim::RunOptions options;
  for (std::uint32_t i = 0; i < plan.instances.size(); ++i) options.record.push_back(InstanceId{i});
  return options;
}

void require_same(const sim::Result& one, const sim::Result& other) {
  REQUIRE(one.outcome == other.outcome);
  REQUIRE(one.makespan == other.makespan);
  REQUIRE(one.events == other.events);
  REQUIRE(one.last_finish.rows() == other.last_finish.rows());
  REQUIRE(one.records.size() == other.records.size());
  for (std::size_t i = 0; i < one.records.size(); ++i) {
    REQUIRE(one.records[i].instance == other.records[i].instance);
    REQUIRE(one.records[i].ready == other.records[i].ready);
    REQUIRE(one.records[i].start == other.records[i].start);
    REQUIRE(one.records[i].finish == other.records[i].finish);
  }
  REQUIRE(one.stuck.size() == other.stuck.size());
  for (std::size_t i = 0; i < one.stuck.size(); ++i) {
    REQUIRE(one.stuck[i].instance == other.stuck[i].instance);
    REQUIRE(one.stuck[i].op == other.stuck[i].op);
    REQUIRE(one.stuck[i].arrived == other.stuck[i].arrived);
  }
}

struct Split {
  int finished = 0, deadlocked = 0;
  std::size_t joints = 0, shared_links = 0;  // what parts had in common
};

/// Random plans of `copies` copies on two to four threads, which work together at every instant.
Split compare_threads(std::uint64_t first_seed, std::uint64_t seeds, bool wild, std::uint32_t copies) {
  Split split;
  for (std::uint64_t seed = first_seed; seed < first_seed + seeds; ++seed) {
    INFO("seed " << seed);
    const test::Case made = test::expand(test::random_base(seed, wild), copies);
    const sim::RunOptions options = all_recorded(made.plan);
    const sim::Threads threads{2 + static_cast<std::uint32_t>(seed % 3), 0};
    const sim::Result one = sim::run(made.plan, made.network, options);
    require_same(one, sim::run(made.plan, made.network, options, threads));
    ++(one.outcome == sim::Outcome::finished ? split.finished : split.deadlocked);
    const sim::Partition parts = sim::partition(made.plan, sim::find_contention(made.plan, made.network),
                                                made.network.capacity.size(), threads.count);
    split.joints += parts.joints.size();
    split.shared_links += static_cast<std::size_t>(
        std::count_if(parts.owners.begin(), parts.owners.end(), [](const sim::LinkOwner& o) { return o.shared; }));
  }
  return split;
}

}  // namespace

TEST_CASE("a run on several threads equals one on one thread") {
  const Split few = compare_threads(1, 600, false, 4);
  CHECK(few.finished > 100);
  CHECK(few.joints > 300);  // or nothing would have passed between threads
  CHECK(few.shared_links > 100);
  const Split many = compare_threads(5000, 150, false, 40);
  CHECK(many.finished > 20);
  CHECK(many.shared_links > 60);
}

TEST_CASE("threads tell of a deadlock what one does") {
  const Split split = compare_threads(200000, 150, true, 3);
  CHECK(split.deadlocked > 10);
}

TEST_CASE("instants at which little happens are gone through by one thread, with the same result") {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    INFO("seed " << seed);
    const test::Case made = test::expand(test::random_base(seed, false), 12);
    const sim::RunOptions options = all_recorded(made.plan);
    require_same(sim::run(made.plan, made.network, options),
                 sim::run(made.plan, made.network, options, sim::Threads{2, 12}));
  }
}

TEST_CASE("small communicators stay within a part, large ones join parts") {
  // Eight pairs, and a ring over the first of each: sixteen instances, so that a part of two has eight, and half of it,
  // four, may come together.
  sim::Plan plan;
  sim::Network network;
  network.add_link(sim::Bandwidth{1e9});
  const sim::RouteId alone = network.add_route({}, {});
  const std::vector<sim::WeightedLink> link{{LinkId{0}}};
  const sim::RouteId over_link = network.add_route(link, {});
  plan.programs.push_back({});
  for (std::uint32_t pair = 0; pair < 8; ++pair) plan.communicators.push_back({2, alone, 1, 0});
  const CommunicatorId ring = plan.communicators.push_back({8, over_link, 1, 0});
  for (std::uint32_t i = 0; i < 16; ++i) {
    std::vector<CommunicatorId> slots{CommunicatorId{i / 2}};
    if (i % 2 == 0) slots.push_back(ring);
    plan.add_instance({}, slots);
  }
  const sim::Partition parts = sim::partition(plan, sim::find_contention(plan, network), 1, 2);
  REQUIRE(parts.parts == 2);
  for (std::uint32_t i = 0; i < 16; ++i) CHECK(parts.part_of[i] == parts.part_of[i / 2 * 2]);
  CHECK(std::count(parts.part_of.begin(), parts.part_of.end(), 0) == 8);
  REQUIRE(parts.joints.size() == 1);
  CHECK(parts.joints[0].communicator == ring);
  CHECK(parts.joints[0].parts == 2);
  CHECK(parts.joint_of[index(ring)] == 0);
  CHECK(parts.joint_of[0] == sim::kNotJoint);
  CHECK(sim::partition(plan, sim::find_contention(plan, network), 1, 1).parts == 1);
}

TEST_CASE("parts that meet at each other's links come to the rates that one comes to alone") {
  // Links in a circle with a few transfers from each to the next, every other one of another part: what one part solves
  // reaches links at which the other is at work, so that both leave changes to the other, and some to nobody but
  // solve_rest(). How often hangs on how the threads fall together; the rates must not.
  constexpr std::uint32_t kLinks = 2000, kFlows = 8000, kPart = 2;
  sim::Team team(kPart);
  std::size_t compared = 0;
  for (std::uint32_t seed = 0; seed < tests::thinned(16u); ++seed) {
    std::mt19937 random(seed);
    sim::Table<LinkId, double> capacity;
    std::vector<sim::LinkOwner> owners;
    for (std::uint32_t l = 0; l < kLinks; ++l) {
      capacity.push_back(1e9 * static_cast<double>(1 + random() % 16));
      owners.push_back({static_cast<std::uint8_t>(l % kPart), true});
    }
    std::vector<std::array<sim::WeightedLink, 2>> routes(kFlows);
    for (std::uint32_t f = 0; f < kFlows; ++f) {
      const std::uint32_t first = f * 7919 % kLinks;
      routes[f] = {{{LinkId{first}, 1.0}, {LinkId{(first + 1) % kLinks}, 1.0}}};
    }
    sim::FairSharing one(capacity), two(capacity, kPart, owners);
    two.make_room(kFlows);
    std::vector<char> under_way(kFlows, 0);
    for (int instant = 0; instant < 60; ++instant) {
      for (std::uint32_t f = 0; f < kFlows; ++f) {
        if (random() % 20 != 0) continue;
        if (under_way[f] != 0) {
          one.remove(f);
          two.remove(f % kPart, f);
        } else {
          one.add(f, routes[f], 0);
          two.add(f % kPart, f, routes[f], two.rate_alone(routes[f], 0));
        }
        under_way[f] ^= 1;
      }
      one.solve();
      while (two.unsettled()) team.run([&](std::uint32_t part) { two.settle(part); });
      REQUIRE(two.begin_solve(true));
      team.run([&](std::uint32_t part) { two.loosen(part); });
      team.run([&](std::uint32_t part) { two.solve(part); });
      two.solve_rest();
      for (std::uint32_t part = 0; part < kPart; ++part) two.for_changed(part, [](std::uint32_t) {});
      two.forget_changed();
      std::size_t other = 0;
      for (std::uint32_t f = 0; f < kFlows; ++f) {
        other += under_way[f] != 0 && one.rate(f) != two.rate(f) ? 1 : 0;
        compared += under_way[f] != 0 ? 1 : 0;
      }
      REQUIRE(other == 0);
    }
  }
  CHECK(compared > tests::thinned(1'000'000u));
}

TEST_CASE("a team does its work together, again and again, and throws what the first of it threw") {
  sim::Team team(3);
  std::vector<int> done(3, 0);
  for (int n = 0; n < 2000; ++n) {
    team.run([&](std::uint32_t member) { done[member] += static_cast<int>(member) + 1; });
    REQUIRE(done == std::vector<int>{n + 1, 2 * (n + 1), 3 * (n + 1)});
  }
  std::atomic<int> others{0};
  const auto fail = [&](std::uint32_t member) {
    if (member > 0) throw std::runtime_error(member == 1 ? "one" : "two");
    ++others;
  };
  for (int n = 0; n < 3; ++n) REQUIRE_THROWS_WITH(team.run(fail), "one");
  CHECK(others == 3);
}
