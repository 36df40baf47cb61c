// Which links transfers can contend for: worked examples, and the definition on random plans.
#include "sim/contention.h"

#include <algorithm>
#include <vector>

#include "sim/engine.h"
#include "tests/catch.h"
#include "tests/sim/random_plan.h"

using namespace orrery;
using sim::LinkId;
using sim::RouteId;
using sim::WeightedLink;

namespace {

constexpr double kRate = 10e9;

struct Group {
  std::vector<WeightedLink> links;
  double cap = 0;                        // of its transfers
  std::vector<std::uint8_t> streams{0};  // a transfer on each
};

/// One instance per group, which talks to itself; links of kRate.
struct Example {
  sim::Plan plan;
  sim::Network network;

  Example(std::uint32_t links, const std::vector<Group>& groups) {
    plan.streams = 4;
    for (std::uint32_t l = 0; l < links; ++l) network.add_link(sim::Bandwidth{kRate});
    for (const Group& group : groups) {
      sim::Program program;
      for (const std::uint8_t stream : group.streams) {
        sim::Op op;
        op.kind = sim::OpKind::transfer;
        op.stream = stream;
        op.slot = 0;
        op.work = 1e9;
        op.rate_cap = group.cap;
        program.add(op);
      }
      const auto c = plan.communicators.push_back({1, network.add_route(group.links, sim::Duration{}), 1});
      plan.add_instance({plan.programs.push_back(program)}, std::vector{c});
    }
  }

  std::vector<std::uint32_t> contended(std::uint32_t route) const {
    std::vector<std::uint32_t> links;
    const sim::Contention contention = sim::find_contention(plan, network);
    for (const WeightedLink& l : contention.links_of(RouteId{route})) links.push_back(sim::index(l.link));
    return links;
  }
};

}  // namespace

TEST_CASE("a group that has its links for itself contends for none") {
  // Alone it moves at kRate / 2, which fills the second link, on which it counts twice, and no more than that.
  const Example example(2, {{{{LinkId{0}}, {LinkId{1}, 2.0}}}});
  CHECK(example.contended(0).empty());
  CHECK(sim::find_contention(example.plan, example.network).rate_alone(RouteId{0}, 0) == kRate / 2);
  CHECK(sim::find_contention(example.plan, example.network).rate_alone(RouteId{0}, kRate / 4) == kRate / 4);
  // 1 GB at 5 GB/s, without a solve.
  const sim::Result result = sim::run(example.plan, example.network);
  CHECK(result.makespan == sim::SimTime{200'000'000'000});
  CHECK(result.solves == 0);
}

TEST_CASE("two groups contend for the link that both cross, and for no other") {
  const Example example(3, {{{{LinkId{0}}, {LinkId{1}}}}, {{{LinkId{1}}, {LinkId{2}}}}});
  CHECK(example.contended(0) == std::vector<std::uint32_t>{1});
  CHECK(example.contended(1) == std::vector<std::uint32_t>{1});
}

TEST_CASE("caps that leave room for all take a link out of contention") {
  // 6 + 4 GB/s just fill 10 GB/s; 6 + 4.1 do not fit.
  CHECK(Example(1, {{{{LinkId{0}}}, 6e9}, {{{LinkId{0}}}, 4e9}}).contended(0).empty());
  CHECK(Example(1, {{{{LinkId{0}}}, 6e9}, {{{LinkId{0}}}, 4.1e9}}).contended(0).size() == 1);
  // However low a cap is, it is one: none is written as 0.
  CHECK(Example(1, {{{{LinkId{0}}}, 0.5}, {{{LinkId{0}}}, 0.5}}).contended(0).empty());
}

TEST_CASE("whoever moves as little as half a byte contends, alone or in a stretch, and who moves nothing does not") {
  for (const bool stretched : {false, true}) {
    for (const double work : {0.0, 0.5, 2.0}) {
      Example example(1, {{{{LinkId{0}}}}});
      sim::Op op;
      op.kind = stretched ? sim::OpKind::stretch_transfers : sim::OpKind::transfer;
      op.slot = 0;
      op.work = stretched ? 0 : work;
      sim::Program program;
      if (stretched) {
        sim::Stretch::Item kernel, transfer;
        kernel.duration = 1000;
        transfer.transfer = true;
        transfer.work = work;
        program.stretches.push_back({{kernel, transfer}});
      }
      program.add(op);
      const std::vector<WeightedLink> links{{LinkId{0}}};
      const auto c = example.plan.communicators.push_back({1, example.network.add_route(links, sim::Duration{}), 1});
      example.plan.add_instance({example.plan.programs.push_back(program)}, std::vector{c});
      CHECK(example.contended(0).size() == (work > 0 ? 1 : 0));
    }
  }
}

TEST_CASE("a group contends with itself when its transfers run on several streams") {
  CHECK(Example(1, {{{{LinkId{0}}}, 0, {2, 2}}}).contended(0).empty());
  CHECK(Example(1, {{{{LinkId{0}}}, 0, {1, 2}}}).contended(0).size() == 1);
  CHECK(Example(1, {{{{LinkId{0}}}, kRate / 2, {1, 2}}}).contended(0).empty());
}

TEST_CASE("links left out of contention could not be full whatever ran at once") {
  // The bound again, the slow way: all transfers that the programs hold, as many at once as they have streams.
  std::size_t left_out = 0, kept = 0;
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    INFO("seed " << seed);
    const test::Case made = test::expand(test::random_base(seed, false), 1 + static_cast<std::uint32_t>(seed % 3));
    const sim::Contention contention = sim::find_contention(made.plan, made.network);
    std::vector<double> most(made.network.capacity.size(), 0.0);
    for (std::uint32_t c = 0; c < made.plan.communicators.size(); ++c) {
      // The first slot that names the communicator speaks for all: a transfer waits for each of them.
      std::vector<double> of_link(most.size(), 0.0);
      std::uint32_t streams = 0, speaker = sim::kNoSlot;
      for (std::uint32_t i = 0; i < made.plan.instances.size() && speaker == sim::kNoSlot; ++i) {
        const auto slots = made.plan.slots_of(sim::InstanceId{i});
        const sim::Program& program = made.plan.programs[made.plan.instances[sim::InstanceId{i}].program];
        for (std::uint32_t op = 0; op < program.size(); ++op) {
          if (program.kind[op] != sim::OpKind::transfer || sim::index(slots[program.slot[op]]) != c) continue;
          if (program.work[op] <= 0 || (speaker != sim::kNoSlot && program.slot[op] != speaker)) continue;
          speaker = program.slot[op];
          streams |= 1u << program.stream[op];
          const RouteId route{sim::index(made.plan.communicators.rows()[c].first_route) + program.pattern[op]};
          double rate = program.rate_cap[op] > 0 ? program.rate_cap[op] : 1e30;
          for (const auto& l : made.network.links_of(route)) {
            rate = std::min(rate, made.network.capacity[l.link] / l.weight);
          }
          for (const auto& l : made.network.links_of(route)) {
            double& load = of_link[sim::index(l.link)];
            load = std::max(load, l.weight * rate);
          }
        }
      }
      for (std::size_t l = 0; l < most.size(); ++l) most[l] += of_link[l] * __builtin_popcount(streams);
    }
    constexpr double kRounding = 1e-9;
    for (std::uint32_t r = 0; r < made.network.routes(); ++r) {
      const auto all = made.network.links_of(RouteId{r});
      const auto some = contention.links_of(RouteId{r});
      if (some.empty()) continue;  // perhaps nobody uses the route
      for (const WeightedLink& l : all) {
        const bool is_kept = std::find(some.begin(), some.end(), l) != some.end();
        ++(is_kept ? kept : left_out);
        const double fill = most[sim::index(l.link)] / made.network.capacity[l.link];
        if (!is_kept) REQUIRE(fill <= 1 + kRounding);
        if (is_kept) REQUIRE(fill >= 1 - kRounding);
      }
    }
  }
  CHECK(left_out > 100);
  CHECK(kept > 1000);
}
