// Events by instant, and the tables that they lie in.
#include "sim/instant_queue.h"

#include <cstdint>
#include <tuple>
#include <vector>

#include "sim/event_queue.h"
#include "sim/large_pages.h"
#include "tests/catch.h"
#include "tests/sim/random_plan.h"

namespace orrery::sim {

TEST_CASE("a queue of instants hands out what a heap of events does, instant by instant") {
  // Few instants share lists, many push each other out of the table of those asked for last.
  for (const std::int64_t instants : {3, 60, 5000}) {
    orrery::test::Random random(static_cast<std::uint64_t>(instants));
    InstantQueue queue;
    EventQueue heap;
    std::int64_t now = 0;
    for (std::uint32_t n = 0; n < 20'000; ++n) {
      if (heap.empty() || random.chance(60)) {
        const Event event{now + random.below(instants), static_cast<std::uint32_t>(random.below(50)), n};
        queue.push(event);
        heap.push(event);
        continue;
      }
      now = heap.top().at;
      REQUIRE(queue.next() == now);
      for (const Event& event : queue.take()) {
        const Event expected = heap.pop();
        REQUIRE(std::tuple(event.at, event.subject, event.version) ==
                std::tuple(expected.at, expected.subject, expected.version));
      }
      REQUIRE((heap.empty() || heap.top().at > now));
      REQUIRE(queue.empty() == heap.empty());
    }
  }
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
