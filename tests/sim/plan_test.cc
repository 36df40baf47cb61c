// Tables that do not fit together are refused before anything runs.
#include "sim/plan.h"

#include <functional>

#include "sim/error.h"
#include "sim/network.h"
#include "tests/catch.h"

using namespace orrery::sim;

namespace {

struct Tables {
  Plan plan;
  Network network;
};

/// Two ranks that compute and then meet.
Tables sound() {
  Tables t;
  const LinkId link = t.network.add_link(Bandwidth{1e9});
  const auto c = t.plan.communicators.push_back({2, t.network.add_route(std::vector<WeightedLink>{{link}}, {}), 1});
  Program p;
  p.add({});
  Op op;
  op.kind = OpKind::transfer;
  op.slot = 0;
  op.work = 1;
  p.add(op, std::vector<std::uint32_t>{0});
  const auto program = t.plan.programs.push_back(p);
  for (int n = 0; n < 2; ++n) t.plan.add_instance({program}, std::vector{c});
  return t;
}

}  // namespace

TEST_CASE("an operation comes back from a program as it was handed over") {
  Op op;
  op.kind = OpKind::transfer;
  op.stream = 2;
  op.category = 3;
  op.host_waits = true;
  op.issue = Duration(4);
  op.duration = Duration(5);
  op.issue_bound = Duration(6);
  op.slot = 7;
  op.pattern = 8;
  op.work = 9;
  op.rate_cap = 10;
  op.loaded = 0.5;
  Program program;
  program.add({});
  program.add(op, std::vector<std::uint32_t>{0});
  CHECK(program.op_at(1) == op);
  CHECK(program.op_at(0) == Op{});
}

TEST_CASE("check accepts sound tables and names what is wrong with others") {
  const Tables good = sound();
  CHECK_NOTHROW(check(good.plan, good.network));
  const std::vector<std::function<void(Tables&)>> faults{
      [](Tables& t) { t.plan.streams = 0; },
      [](Tables& t) { t.plan.noise.sigma = -1; },
      [](Tables& t) { t.plan.programs[ProgramId{0}].stream[0] = 1; },
      [](Tables& t) { t.plan.programs[ProgramId{0}].waits[0] = 1; },
      [](Tables& t) { t.plan.programs[ProgramId{0}].duration[0] = -1; },
      [](Tables& t) { t.plan.programs[ProgramId{0}].issue[0] = 5; },  // above issue_bound
      [](Tables& t) { t.plan.programs[ProgramId{0}].rate_cap.pop_back(); },
      [](Tables& t) { t.plan.programs[ProgramId{0}].slot[1] = 1; },
      [](Tables& t) { t.plan.programs[ProgramId{0}].slot[1] = kNoSlot; },
      [](Tables& t) { t.plan.programs[ProgramId{0}].pattern[1] = 1; },
      [](Tables& t) { t.plan.programs[ProgramId{0}].pattern[1] = 0xffffffff; },
      [](Tables& t) { t.plan.programs[ProgramId{0}].work[1] = -1; },
      [](Tables& t) { t.plan.instances[InstanceId{1}].program = ProgramId{1}; },
      [](Tables& t) { t.plan.instances[InstanceId{1}].slowdown = 0; },
      [](Tables& t) { t.plan.communicators[CommunicatorId{0}].members = 3; },
      [](Tables& t) { t.plan.communicators[CommunicatorId{0}].patterns = 2; },
      [](Tables& t) { t.plan.slots[0] = CommunicatorId{7}; },
      [](Tables& t) { t.network.capacity[LinkId{0}] = 0; },
      [](Tables& t) { t.network.route_links[0].link = LinkId{1}; },
      [](Tables& t) { t.network.route_links[0].weight = -1; },
  };
  for (std::size_t n = 0; n < faults.size(); ++n) {
    INFO("fault " << n);
    Tables bad = sound();
    faults[n](bad);
    CHECK_THROWS_AS(check(bad.plan, bad.network), InternalError);
  }
}

TEST_CASE("an operation waits for earlier ones only") {
  Program p;
  CHECK_THROWS_AS(p.add({}, std::vector<std::uint32_t>{0}), InternalError);
}

TEST_CASE("links and routes are checked as they are made") {
  Network n;
  CHECK_THROWS_AS(n.add_link(Bandwidth{0}), InternalError);
  CHECK_THROWS_AS(n.add_link(Bandwidth{std::numeric_limits<double>::infinity()}), InternalError);
  const LinkId l = n.add_link(Bandwidth{1e9});
  CHECK_THROWS_AS(n.add_route(std::vector<WeightedLink>{{LinkId{5}}}, {}), InternalError);
  CHECK_THROWS_AS(n.add_route(std::vector<WeightedLink>{{l, 0}}, {}), InternalError);
  CHECK_THROWS_AS(n.add_route({}, Duration(-1)), InternalError);
}

TEST_CASE("a link named twice in a route carries both weights") {
  Network n;
  const LinkId a = n.add_link(Bandwidth{1e9}), b = n.add_link(Bandwidth{1e9});
  const RouteId r = n.add_route(std::vector<WeightedLink>{{b, 1}, {a, 0.5}, {b, 2}}, {});
  const auto links = n.links_of(r);
  REQUIRE(links.size() == 2);
  CHECK(links[0] == WeightedLink{a, 0.5});
  CHECK(links[1] == WeightedLink{b, 3});
}

TEST_CASE("weights keep so few bits that sums of equal ones are exact") {
  Network n;
  const LinkId l = n.add_link(Bandwidth{1e9});
  n.add_route(std::vector<WeightedLink>{{l, 1.0 / 3}}, {});
  const double weight = n.route_links[0].weight;
  CHECK(weight == Approx(1.0 / 3).epsilon(4e-12));
  double sum = 0;
  for (int k = 1; k <= 32768; ++k) {
    sum += weight;
    if (sum != k * weight) FAIL(k << " weights add up to " << sum);
  }
  CHECK(sum == 32768 * weight);
}
