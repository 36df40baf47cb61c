// Does a campaign account for every picosecond, and does each of its mechanisms do what it says?
#include "workloads/runs/campaign/run.h"

#include "tests/campaign/toy.h"
#include "tests/catch.h"
#include "workloads/runs/campaign/random.h"

using namespace orrery;
using namespace orrery::campaign;

namespace {

constexpr std::int64_t kSecond = 1'000'000'000'000;

/// Strikes once in 500 s in the mean.
Hazard strikes() {
  Hazard hazard;
  hazard.rate = 1.0 / 500;
  hazard.name = "strike";
  return hazard;
}

/// The first campaign, by seeds, that is struck exactly once, and after `from`.
std::uint64_t struck_once(const Plan& plan, double from = 0) {
  for (std::uint64_t seed = 1; seed < 10'000; ++seed) {
    if (run(plan, seed).failures + run(plan, seed).degradations != 1) continue;
    // When it is, a plan in which it is a crash tells.
    Plan told = plan;
    told.hazards[0].effect = Effect::crash;
    if (run(told, seed, true).stops.front().at > elapsed(from)) return seed;
  }
  FAIL("no campaign is struck exactly once");
  return 0;
}

/// A plan of any kind.
Plan random_plan(std::uint64_t seed) {
  Random random(seed, 99);
  const auto below = [&](double most) { return random.uniform() * most; };
  const auto whole = [&](std::int64_t most) { return 1 + static_cast<std::int64_t>(below(static_cast<double>(most))); };
  Plan plan = tests::quiet_plan(whole(3000));
  plan.levels = static_cast<std::size_t>(whole(3));
  plan.slow = static_cast<std::size_t>(whole(3));
  plan.phases.clear();
  plan.data_per_step = whole(kSecond / 10);
  for (const std::int64_t begin : {std::int64_t{0}, plan.steps / 3}) {
    Phase phase{begin, {}, {}};
    const std::int64_t slower = whole(kSecond);  // fewer replicas, and slow causes, only ever make a step longer
    for (std::size_t state = 0; state < plan.levels * plan.slow; ++state) {
      phase.priced.push_back(kSecond + slower * static_cast<std::int64_t>(state));
      phase.step.push_back(phase.priced.back() + plan.data_per_step + whole(kSecond / 10));
    }
    plan.phases.push_back(phase);
  }
  plan.evaluation.every = whole(100);
  plan.evaluation.time = elapsed(below(20));
  std::int64_t every = whole(50);
  for (const Store store : {Store::host, Store::neighbour, Store::storage}) {
    if (store != Store::storage && below(2) < 1) continue;
    Save save;
    save.to = store;
    save.every = every;
    save.stall = elapsed(below(3));
    save.durable = elapsed(below(30));
    save.load = elapsed(below(60));
    plan.saves.push_back(save);
    every *= whole(4);
  }
  for (std::size_t i = 0; i < 5; ++i) {
    Hazard hazard;
    hazard.name = std::to_string(i);
    hazard.effect = i == 3 && plan.slow > 1 ? Effect::slow : i == 2 ? Effect::hang : Effect::crash;
    if (hazard.effect == Effect::slow) hazard.slow = 1;
    hazard.loses = static_cast<Loses>(i % 3);
    hazard.nodes = hazard.loses == Loses::process ? 0 : hazard.loses == Loses::node ? 1 : 2;
    hazard.detection = elapsed(below(100));
    hazard.diagnosis = elapsed(below(50));
    hazard.repair = elapsed(below(2000));
    if (i < 4) {
      hazard.rate = 1 / (200 + below(3000));
    } else {
      hazard.components = 10;
      hazard.theta_s = 20'000;
      hazard.shape = 0.5 + below(2);
      hazard.age_s = below(1e4);
    }
    plan.hazards.push_back(hazard);
  }
  plan.restart.swap = elapsed(below(10));
  plan.restart.allocate = elapsed(below(100));
  plan.restart.warm_up = elapsed(below(10));
  plan.restart.drain = elapsed(below(20));
  plan.restart.initialise.assign(plan.levels, elapsed(below(30)));
  plan.pool = {8 + whole(3), 8, 16, 4, below(2) < 1};
  if (below(2) < 1) {
    plan.maintenance.every = elapsed(500 + below(2000));
    plan.maintenance.time = elapsed(below(300));
  }
  plan.limit = elapsed(2e5);
  plan.restart.first = below(2) < 1;
  plan.restart.first_load = elapsed(below(30));
  return plan;
}

}  // namespace

TEST_CASE("without failures a campaign is its steps, to the picosecond") {
  Plan plan = tests::quiet_plan(1'000'003);
  plan.phases[0].step = plan.phases[0].priced = {4'123'456'789'012};
  const Outcome outcome = run(plan, 1);
  CHECK(outcome.wall == Elapsed(static_cast<Picoseconds>(1'000'003) * 4'123'456'789'012));  // 47.7 days
  CHECK(at(outcome.shares, Share::work) == outcome.wall);
  CHECK(outcome.finished);
  // With evaluations and checkpoints, those alone are added: 10,000 and 20,000 of them.
  plan.evaluation.every = 100;
  plan.evaluation.time = elapsed(7);
  tests::save_every(plan, 50, 2);
  const Outcome more = run(plan, 1);
  CHECK(more.wall - outcome.wall == elapsed(10'000 * 7.0 + 20'000 * 2.0));
  CHECK(at(more.shares, Share::evaluation) == elapsed(70'000));
  CHECK(at(more.shares, Share::checkpoint) == elapsed(40'000));
}

TEST_CASE("a campaign that begins with a start takes so much longer, and a failure in it begins it anew") {
  Plan plan = tests::quiet_plan(1000);
  plan.restart.first = true;
  plan.restart.allocate = elapsed(60);
  plan.restart.initialise = {elapsed(30)};
  plan.restart.first_load = elapsed(20);
  plan.restart.warm_up = elapsed(10);
  const Outcome outcome = run(plan, 1);
  CHECK(outcome.wall == elapsed(1000 + 60 + 30 + 20 + 10));
  CHECK(at(outcome.shares, Share::loading) == elapsed(20));
  CHECK(at(outcome.shares, Share::work) == elapsed(1000));
  // 120 s of a start between failures 60 s apart in the mean: most campaigns meet one in it. Nothing is saved, so that
  // what comes after has nothing to load.
  tests::fail_every(plan, 60);
  plan.steps = 1;
  int met = 0;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    const Outcome again = run(plan, seed);
    REQUIRE(sum(again.shares) == again.wall);
    REQUIRE(again.finished);
    met += again.failures > 0 ? 1 : 0;
    if (again.failures == 0) CHECK(again.wall == elapsed(121));
  }
  CHECK(met > 50);  // 1 - exp(-2) of them
}

TEST_CASE("every picosecond of any campaign is in exactly one class, and causes add up") {
  int finished = 0, unfinished = 0, planned = 0, degraded = 0, waited = 0;
  for (std::uint64_t seed = 1; seed <= 600; ++seed) {
    const Plan plan = random_plan(seed);
    const Outcome outcome = run(plan, seed, true);
    INFO("seed " << seed);
    REQUIRE(sum(outcome.shares) == outcome.wall);
    for (const Elapsed share : outcome.shares) REQUIRE(share >= Elapsed{});
    REQUIRE(outcome.steps <= plan.steps);
    REQUIRE(outcome.wall <= plan.limit);
    // The whole machine's steps, phase by phase.
    Elapsed work{};
    const std::int64_t first = std::min(outcome.steps, plan.phases[1].begin);
    work += Elapsed(static_cast<Picoseconds>(first) * plan.phases[0].priced[0]);
    work += Elapsed(static_cast<Picoseconds>(outcome.steps - first) * plan.phases[1].priced[0]);
    REQUIRE(at(outcome.shares, Share::work) == work);
    std::int64_t struck = 0;
    Elapsed lost{}, down{};
    for (std::size_t i = 0; i < plan.hazards.size(); ++i) {
      struck += outcome.causes[i].count;
      lost += outcome.causes[i].lost;
      down += outcome.causes[i].down;
    }
    REQUIRE(struck == outcome.failures + outcome.degradations);
    REQUIRE(lost <= at(outcome.shares, Share::lost));  // the limit cuts a step that no cause did
    Elapsed stopped{};
    for (const Stop& stop : outcome.stops) {
      REQUIRE(stop.until >= stop.at);
      if (stop.cause != Stop::kPlanned) stopped += stop.until - stop.at;
    }
    REQUIRE(stopped == down);
    finished += outcome.finished ? 1 : 0;
    unfinished += outcome.finished ? 0 : 1;
    planned += outcome.planned_stops > 0 ? 1 : 0;
    degraded += at(outcome.shares, Share::slow) > Elapsed{} ? 1 : 0;
    waited += at(outcome.shares, Share::waiting) > Elapsed{} ? 1 : 0;
  }
  // The law has met everything that it speaks of.
  CHECK(finished > 100);
  CHECK(planned > 100);
  CHECK(degraded > 50);
  CHECK(waited > 50);
  INFO(unfinished);
}

TEST_CASE("the same seed gives the same campaign, another one another") {
  const Plan plan = random_plan(5);
  const Outcome a = run(plan, 7), b = run(plan, 7), c = run(plan, 8);
  CHECK(a.shares == b.shares);
  CHECK(a.failures == b.failures);
  CHECK_FALSE(a.shares == c.shares);
}

TEST_CASE("closed-form jumps agree with steps that are counted one by one") {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    const Plan plan = random_plan(seed);
    Random random(seed, 3);
    for (std::size_t state = 0; state < plan.levels * plan.slow; ++state) {
      const auto from = static_cast<std::int64_t>(random.uniform() * static_cast<double>(plan.steps));
      const Elapsed time = elapsed(random.uniform() * 4000);
      // One step after another, with what follows each.
      Elapsed spent{};
      std::int64_t steps = 0;
      for (std::int64_t step = from + 1; step <= plan.steps; ++step) {
        const Phase& phase = plan.phases[step - 1 < plan.phases[1].begin ? 0 : 1];
        spent += Elapsed(phase.step[state]);
        if (step % plan.evaluation.every == 0) spent += plan.evaluation.time;
        for (const Save& save : plan.saves) spent += step % save.every == 0 ? save.stall : Elapsed{};
        if (spent > time) break;
        ++steps;
      }
      INFO("seed " << seed << " state " << state << " from " << from);
      CHECK(steps_within(plan, from, time, state) == steps);
    }
  }
}

TEST_CASE("a failure goes back to the newest checkpoint that outlives it") {
  // Steps of 1 s; checkpoints in the host's memory every 10 steps, at the neighbour's every 20, on storage every 40.
  Plan plan = tests::quiet_plan(200);
  plan.pool.nodes = 3;
  for (const auto& [to, every] :
       {std::pair(Store::host, 10), std::pair(Store::neighbour, 20), std::pair(Store::storage, 40)}) {
    Save save;
    save.to = to;
    save.every = every;
    plan.saves.push_back(save);
  }
  struct Case {
    Loses loses;
    std::int64_t keeps;  // steps per checkpoint of the best tier left
  };
  for (const Case& c : {Case{Loses::process, 10}, Case{Loses::node, 20}, Case{Loses::group, 40}}) {
    plan.hazards = {strikes()};
    plan.hazards[0].loses = c.loses;
    const Outcome outcome = run(plan, struck_once(plan, 45), true);
    REQUIRE(outcome.failures == 1);
    const Stop& first = outcome.stops.front();
    const double at_s = to_seconds(first.at);
    const auto steps = static_cast<std::int64_t>(at_s);
    INFO(name_of(c.loses) << " at " << at_s);
    CHECK(first.lost == first.at - elapsed(static_cast<double>(steps / c.keeps * c.keeps)));
  }
}

TEST_CASE("a checkpoint that is still on its way when the job fails is none") {
  Plan plan = tests::quiet_plan(100);
  tests::save_every(plan, 10, 0);
  plan.hazards = {strikes()};
  const std::uint64_t seed = struck_once(plan, 30);
  const Outcome at_once = run(plan, seed, true);
  plan.saves[0].durable = elapsed(10);  // as long as the next ten steps: always the one before
  const Outcome late = run(plan, seed, true);
  CHECK(late.stops.front().at == at_once.stops.front().at);
  CHECK(late.stops.front().lost - at_once.stops.front().lost == elapsed(10));
}

TEST_CASE("nodes that fail are replaced by spares, then waited for, or the job shrinks") {
  Plan plan = tests::quiet_plan(1000);
  tests::save_every(plan, 1, 0);
  plan.hazards = {strikes()};
  plan.hazards[0].loses = Loses::node;
  plan.hazards[0].nodes = 1;
  plan.hazards[0].repair = elapsed(300);
  plan.pool = {4, 1, 1, 4, true};  // four nodes, each a replica
  Plan elastic = plan;
  elastic.levels = 2;
  elastic.phases[0].priced = elastic.phases[0].step = {kSecond, kSecond * 3 / 2};
  elastic.restart.initialise.assign(2, Elapsed{});
  // Struck once in all of its time, also while it waits, and early enough for the node to be back.
  std::uint64_t seed = 1;
  while (run(plan, seed).failures != 1 || run(elastic, seed).planned_stops != 1) ++seed;
  const Outcome waits = run(plan, seed);
  CHECK(at(waits.shares, Share::waiting) == elapsed(300));
  Plan spare = plan;
  spare.pool.nodes = 14;
  CHECK(at(run(spare, seed).shares, Share::waiting) == Elapsed{});
  // With three replicas a step takes 1.5 s; when the node is back the job stops in order and grows.
  const Outcome shrinks = run(elastic, seed);
  CHECK(at(shrinks.shares, Share::waiting) == Elapsed{});
  // The 300 s without the node, and the end of a step, hold 200 steps and 100 s more than these take: within a step.
  CHECK(std::abs(to_seconds(at(shrinks.shares, Share::fewer_replicas)) - 100) <= 1);
  CHECK(shrinks.wall < waits.wall);
  elastic.pool.regrow = false;
  CHECK(run(elastic, seed).planned_stops == 0);
}

TEST_CASE("something slow costs until it is found, and then a stop in order that loses nothing") {
  Plan plan = tests::quiet_plan(1000);
  tests::save_every(plan, 1000, 0);
  plan.slow = 2;
  plan.phases[0].priced = plan.phases[0].step = {kSecond, 2 * kSecond};
  plan.hazards = {strikes()};
  plan.hazards[0].effect = Effect::slow;
  plan.hazards[0].slow = 1;
  plan.hazards[0].detection = elapsed(100);
  plan.restart.allocate = elapsed(30);
  plan.restart.drain = elapsed(5);
  std::uint64_t seed = 1;
  while (run(plan, seed).degradations != 1 || run(plan, seed).planned_stops != 1) ++seed;
  const Outcome outcome = run(plan, seed);
  // 100 s of steps that take twice as long hold 50 s of work; the steps at both ends are whole.
  CHECK(std::abs(to_seconds(at(outcome.shares, Share::slow)) - 50) <= 1.5);
  CHECK(at(outcome.shares, Share::restart) == elapsed(30));
  CHECK(at(outcome.shares, Share::drain) == elapsed(5));
  CHECK(at(outcome.shares, Share::lost) == Elapsed{});
  CHECK(at(outcome.shares, Share::work) == elapsed(1000));
}

TEST_CASE("maintenance comes at its times, loses nothing, and nothing fails in it") {
  Plan plan = tests::quiet_plan(1000);
  tests::save_every(plan, 1000, 0);
  plan.maintenance.every = elapsed(400);
  plan.maintenance.time = elapsed(50);
  const Outcome outcome = run(plan, 1);
  // At 400 s and at 800 s of the wall; 1,000 s of work end at 1,100 s.
  CHECK(outcome.planned_stops == 2);
  CHECK(at(outcome.shares, Share::maintenance) == elapsed(100));
  CHECK(outcome.wall == elapsed(1100));
}

TEST_CASE("failures during a restart begin it anew, and the limit ends what never would") {
  Plan plan = tests::quiet_plan(1'000'000);
  tests::save_every(plan, 1'000'000, 0);
  tests::fail_every(plan, 10);
  plan.restart.allocate = elapsed(20);
  plan.limit = elapsed(50'000);
  const Outcome outcome = run(plan, 3);
  CHECK_FALSE(outcome.finished);
  CHECK(outcome.wall == elapsed(50'000));
  CHECK(sum(outcome.shares) == outcome.wall);
  // A Poisson process: 5,000 failures, of standard deviation 71.
  CHECK(std::abs(static_cast<double>(outcome.failures) - 5000) < 5 * 71);
}

TEST_CASE("Weibull's components strike as often as their cumulative hazard says") {
  // 100 components of theta 1000 s: in 500 s of new ones 100 (1/2)^k; after an age of 1000 s 100 ((3/2)^k - 1).
  for (const double shape : {0.5, 2.0}) {
    for (const double age : {0.0, 1000.0}) {
      Plan plan = tests::quiet_plan(1'000'000);
      tests::save_every(plan, 1, 0);
      plan.limit = elapsed(500);
      Hazard hazard;
      hazard.theta_s = 1000;
      hazard.components = 100;
      hazard.shape = shape;
      hazard.age_s = age;
      plan.hazards = {hazard};
      const double expected = 100 * (std::pow((age + 500) / 1000, shape) - std::pow(age / 1000, shape));
      double count = 0;
      for (std::uint64_t seed = 1; seed <= 400; ++seed) count += static_cast<double>(run(plan, seed).failures);
      INFO("shape " << shape << " age " << age);
      CHECK(std::abs(count / 400 - expected) < 4 * std::sqrt(expected / 400));
    }
  }
}
