// The engine against the slow one on random plans, and folded against full on random symmetric plans.
#include <algorithm>
#include <cstdlib>

#include "sim/engine.h"
#include "sim/fold.h"
#include "tests/catch.h"
#include "tests/reference/reference.h"
#include "tests/sim/random_plan.h"
#include "tests/thinned.h"

using namespace orrery;
using sim::index;
using sim::InstanceId;
using sim::Outcome;
using sim::SimTime;

namespace {

sim::RunOptions everyone(const sim::Plan& plan) {
  sim::RunOptions options;
  for (std::uint32_t i = 0; i < plan.instances.size(); ++i) options.record.push_back(InstanceId{i});
  return options;
}

std::int64_t gap(SimTime a, SimTime b) {
  if ((a == sim::kNever) != (b == sim::kNever)) return sim::kNever.value();
  return std::abs(a.value() - b.value());
}

std::int64_t largest_gap(const std::vector<SimTime>& a, const std::vector<SimTime>& b) {
  REQUIRE(a.size() == b.size());
  std::int64_t largest = 0;
  for (std::size_t n = 0; n < a.size(); ++n) largest = std::max(largest, gap(a[n], b[n]));
  return largest;
}

/// The largest difference of any time of any operation, ps.
std::int64_t largest_gap(const sim::Record& a, const sim::Record& b) {
  return std::max({largest_gap(a.ready, b.ready), largest_gap(a.start, b.start), largest_gap(a.finish, b.finish)});
}

/// Rounding differs: the engine rounds predictions up, the slow one to the nearest, at each of some thirty transfers.
constexpr std::int64_t kClose = 16;  // ps, of times of 10^6 to 10^8

struct Tally {
  int finished = 0;
  int deadlocked = 0;
  std::uint64_t solves = 0;
  std::int64_t largest = 0;
};

Tally compare_with_reference(std::uint64_t first_seed, std::uint64_t seeds, bool wild) {
  Tally tally;
  for (std::uint64_t seed = first_seed; seed < first_seed + seeds; ++seed) {
    INFO("seed " << seed);
    const test::BasePlan base = test::random_base(seed, wild);
    const test::Case made = test::expand(base, 1 + static_cast<std::uint32_t>(seed % 3));
    sim::RunOptions options = everyone(made.plan);
    if (seed % 2 == 0) options.rows_shared_from = 1;
    const sim::Result fast = sim::run(made.plan, made.network, options);
    const sim::Result slow = reference::run(made.plan, made.network);
    REQUIRE(fast.outcome == slow.outcome);
    for (std::size_t i = 0; i < slow.records.size(); ++i) {
      const std::int64_t difference = largest_gap(fast.records[i], slow.records[i]);
      tally.largest = std::max(tally.largest, difference);
      if (difference > kClose) FAIL("instance " << i << " differs by " << difference << " ps");
    }
    REQUIRE(fast.stuck.empty() == (fast.outcome == Outcome::finished));
    ++(fast.outcome == Outcome::finished ? tally.finished : tally.deadlocked);
    tally.solves += fast.solves;
  }
  return tally;
}

}  // namespace

TEST_CASE("nothing ends later where every transfer is alone on its route") {
  constexpr std::int64_t kRounding = 64;  // ps: a few at each of some thirty transfers
  int shared = 0;
  std::int64_t sooner = 0;
  for (std::uint64_t seed = 1; seed < 2000; ++seed) {
    INFO("seed " << seed);
    const test::Case made = test::expand(test::random_base(seed, seed % 8 == 0), 1);
    sim::RunOptions options = everyone(made.plan);
    const sim::Result whole = sim::run(made.plan, made.network, options);
    options.alone = true;
    const sim::Result alone = sim::run(made.plan, made.network, options);
    REQUIRE(alone.outcome == whole.outcome);
    CHECK(alone.solves == 0);
    shared += whole.solves > 0;
    for (std::size_t i = 0; i < whole.records.size(); ++i) {
      for (std::size_t op = 0; op < whole.records[i].finish.size(); ++op) {
        const std::int64_t later = whole.records[i].finish[op].value(), earlier = alone.records[i].finish[op].value();
        if (earlier - later > kRounding)
          FAIL("instance " << i << " operation " << op << ": " << earlier << " ps, " << later
                           << " ps where links are shared");
        sooner += later - earlier > kRounding;
      }
    }
  }
  CHECK(shared > 200);  // links were shared, and to some effect
  CHECK(sooner > 1000);
}

TEST_CASE("engine and slow engine agree on ordered plans") {
  const Tally tally = compare_with_reference(1, tests::thinned(8000), false);
  CHECK(tally.finished > tests::thinned(2000));  // the comparison means something only if many plans run to their end
  CHECK(tally.solves > tests::thinned(4000));    // and share links on the way
}

TEST_CASE("engine and slow engine agree on wild plans, deadlocks included") {
  const Tally tally = compare_with_reference(100000, 2000, true);
  CHECK(tally.finished > 100);
  CHECK(tally.deadlocked > 100);
}

namespace {

void check_folding(const test::Case& made) {
  const sim::Result full = sim::run(made.plan, made.network, everyone(made.plan));
  const sim::Folded folded = sim::fold(made.plan, made.network);
  const sim::Result few = sim::run(folded.plan, folded.network, everyone(folded.plan));
  REQUIRE(few.outcome == full.outcome);
  REQUIRE(few.makespan == full.makespan);
  std::uint32_t stood_for = 0;
  for (const std::uint32_t size : folded.class_size) stood_for += size;
  REQUIRE(stood_for == made.plan.instances.size());
  for (std::uint32_t i = 0; i < made.plan.instances.size(); ++i) {
    const std::int64_t difference = largest_gap(full.records[i], few.records[index(folded.class_of[InstanceId{i}])]);
    if (difference != 0) FAIL("instance " << i << " differs by " << difference << " ps");
  }
}

}  // namespace

TEST_CASE("folded and full agree to the picosecond on symmetric plans") {
  for (std::uint64_t seed = 1; seed <= 1500; ++seed) {
    INFO("seed " << seed);
    const test::BasePlan base = test::random_base(seed, seed % 5 == 0);
    const std::uint32_t copies = 2 + static_cast<std::uint32_t>(seed % 7);
    const test::Case made = test::expand(base, copies);
    REQUIRE(sim::fold(made.plan, made.network).plan.instances.size() <= base.programs.size());
    check_folding(made);
  }
}

TEST_CASE("folded and full agree to the picosecond when one copy is odd") {
  std::size_t split = 0;
  for (std::uint64_t seed = 1; seed <= 1500; ++seed) {
    INFO("seed " << seed);
    const test::BasePlan base = test::random_base(seed, seed % 5 == 0);
    const std::uint32_t copies = 2 + static_cast<std::uint32_t>(seed % 5);
    test::Odd odd;
    if (seed % 2 == 0 && !base.capacity.empty()) {
      odd.weak_link = static_cast<std::int32_t>(seed % base.capacity.size());
    } else {
      odd.slow_instance = static_cast<std::int32_t>(seed % (base.programs.size() * copies));
    }
    const test::Case made = test::expand(base, copies, odd);
    if (sim::fold(made.plan, made.network).plan.instances.size() > base.programs.size()) ++split;
    check_folding(made);
  }
  CHECK(split > 500);
}

TEST_CASE("the same plan gives the same result") {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    const test::Case made = test::expand(test::random_base(seed, seed % 2 == 0), 3);
    const sim::Result a = sim::run(made.plan, made.network, everyone(made.plan));
    const sim::Result b = sim::run(made.plan, made.network, everyone(made.plan));
    REQUIRE(a.events == b.events);
    REQUIRE(a.solves == b.solves);
    REQUIRE(a.stuck.size() == b.stuck.size());
    for (std::size_t i = 0; i < a.records.size(); ++i) REQUIRE(largest_gap(a.records[i], b.records[i]) == 0);
  }
}
