// The event queue, and the tables that many events touch.
#include "sim/event_queue.h"

#include <cstdint>
#include <set>
#include <tuple>

#include "sim/error.h"
#include "sim/large_pages.h"
#include "tests/catch.h"
#include "tests/sim/random_plan.h"

namespace orrery::sim {

TEST_CASE("events come out by instant, ties by content, whatever the order they went in") {
  // Instants close together, far apart, and so far that they differ in every digit.
  for (const std::int64_t apart : {1LL, 7LL, 5'000LL, 1'000'000'000'000LL}) {
    for (const std::uint32_t instants : {3U, 60U, 800U}) {
      orrery::test::Random random(static_cast<std::uint64_t>(instants));
      EventQueue queue;
      std::set<std::tuple<std::int64_t, std::uint32_t, std::uint32_t>> model;
      std::int64_t now = 0;
      for (std::uint32_t n = 0; n < 10'000; ++n) {
        if (model.empty() || random.chance(60)) {
          const Event event{now + apart * random.below(instants), static_cast<std::uint32_t>(random.below(50)), n};
          queue.push(event);
          model.insert({event.at, event.subject, event.version});
          continue;
        }
        now = std::get<0>(*model.begin());
        REQUIRE(queue.next() == now);
        for (const Event& event : queue.take()) {
          REQUIRE(std::tuple(event.at, event.subject, event.version) == *model.begin());
          model.erase(model.begin());
        }
        REQUIRE((model.empty() || std::get<0>(*model.begin()) > now));
        REQUIRE(queue.empty() == model.empty());
      }
    }
  }
}

TEST_CASE("an event before the instant taken last is a bug") {
  EventQueue queue;
  queue.push({7, 0, 0});
  REQUIRE(queue.take().size() == 1);
  queue.push({7, 1, 0});
  CHECK_THROWS_AS(queue.push({6, 0, 0}), InternalError);
  CHECK(queue.next() == 7);
}

TEST_CASE("tables keep what is in them while they grow into large pages and out again") {
  LargeTable<std::uint64_t> table;
  constexpr std::uint64_t kRows = 2'000'000;  // 16 MB
  for (std::uint64_t n = 0; n < kRows; ++n) table.push_back(n * n);
  LargeTable<std::uint64_t> copy = table;
  table.resize(10);
  table.shrink_to_fit();
  for (std::uint64_t n = 0; n < 10; ++n) REQUIRE(table[n] == n * n);
  for (std::uint64_t n = 0; n < kRows; n += 997) REQUIRE(copy[n] == n * n);
  CHECK(reinterpret_cast<std::uintptr_t>(copy.data()) % 64 == 0);
}

}  // namespace orrery::sim
