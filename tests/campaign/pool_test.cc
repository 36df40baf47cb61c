// Nodes of several kinds in a campaign's pool: does the scarcest kind decide how many replicas there are, are losses
// drawn from all of them, and does everything come back?
#include "workloads/runs/campaign/pool.h"

#include "tests/campaign/toy.h"
#include "tests/catch.h"

using namespace orrery::campaign;

namespace {

/// Four replicas of 16 GPUs of the first kind (two nodes) and 8 of the second (one), with a spare of the first.
Plan::Pool two_kinds() {
  Plan::Pool pool{13, 8, 24, 4, true, {}};
  pool.kinds = {{9, 16}, {4, 8}};
  return pool;
}

}  // namespace

TEST_CASE("a replica takes nodes of each kind, so that the scarcest decides") {
  const Plan::Pool plan = two_kinds();
  // Whichever node is lost: of the first kind the spare stands in, of the second a replica is gone.
  int spared = 0, fewer = 0;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    Pool pool(plan, seed);
    CHECK(pool.level() == 0);
    pool.lose(1, elapsed(100));
    CHECK(pool.level() <= 1);
    (pool.level() == 0 ? spared : fewer) += 1;
    CHECK(pool.time_of(0) == (pool.level() == 0 ? Elapsed{} : elapsed(100)));
    pool.take_back(elapsed(100));
    CHECK(pool.level() == 0);
    CHECK(pool.next_return() == kNoTime);
  }
  // Four nodes of thirteen: 308 of 1000, within five standard errors of 14.6.
  CHECK(std::abs(fewer - 308) < 73);
  CHECK(spared + fewer == 1000);
}

TEST_CASE("all nodes of both kinds can be lost, and come back by their times") {
  const Plan::Pool plan = two_kinds();
  Pool pool(plan, 5);
  pool.lose(10, elapsed(50));
  pool.lose(10, elapsed(20));  // the three that are left
  CHECK(pool.level() == 4);
  CHECK(pool.next_return() == elapsed(20));
  CHECK(pool.time_of(0) == elapsed(50));
  pool.take_back(elapsed(20));
  CHECK(pool.level() >= 3);  // three nodes hold one replica at most
  pool.take_back(elapsed(50));
  CHECK(pool.level() == 0);
}

TEST_CASE("what is left of one kind does not stand in for another") {
  Plan::Pool one{8, 8, 16, 4, true, {}}, two = one;
  two.kinds = {{4, 8}, {4, 8}};
  bool differs = false;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    Pool a(one, seed), b(two, seed);
    a.lose(2, elapsed(1));
    b.lose(2, elapsed(1));
    CHECK(a.level() == 1);
    CHECK(b.level() >= a.level());
    differs = differs || b.level() > a.level();
  }
  CHECK(differs);
}
