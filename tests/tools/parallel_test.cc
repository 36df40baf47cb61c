// Is every row worked on exactly once, whatever the number of threads, and does a failure come back?
#include "tools/parallel.h"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <memory>
#include <stdexcept>

#include "tests/catch.h"

using namespace orrery::tools;

TEST_CASE("every index is worked on once") {
  for (const unsigned jobs : {1u, 2u, 7u, 64u}) {
    std::vector<std::atomic<int>> visits(37);
    const std::vector<char> finished = for_each_parallel(37, jobs, "rows", [&](std::size_t i) { ++visits[i]; });
    for (std::size_t i = 0; i < 37; ++i) {
      CHECK(visits[i] == 1);
      CHECK(finished[i] == 1);
    }
  }
  CHECK(for_each_parallel(0, 4, "rows", [](std::size_t) { throw std::logic_error("none"); }).empty());
}

TEST_CASE("an exception of a row is thrown again after all threads have ended") {
  const auto work = [](std::size_t i) {
    if (i == 5) throw std::runtime_error("row 5");
  };
  CHECK_THROWS_WITH(for_each_parallel(20, 3, "rows", work), "row 5");
}

TEST_CASE("after Ctrl-C nothing new is begun, and what is done is known") {
  auto guard = std::make_unique<InterruptGuard>();
  std::size_t begun = 0;
  const std::vector<char> finished = for_each_parallel(10, 1, "rows", [&](std::size_t i) {
    ++begun;
    if (i == 3) std::raise(SIGINT);
  });
  CHECK(begun == 4);
  CHECK(std::count(finished.begin(), finished.end(), 1) == 4);
  CHECK(finished[3] == 1);
  CHECK(InterruptGuard::interrupted());
  // The next study of this process starts afresh.
  guard.reset();
  guard = std::make_unique<InterruptGuard>();
  CHECK(!InterruptGuard::interrupted());
}
