// The event queue, and the tables that many events touch.
#include "sim/event_queue.h"

#include <cstdint>
#include <set>
#include <tuple>
#include <utility>

#include "sim/error.h"
#include "sim/large_pages.h"
#include "tests/catch.h"
#include "tests/sim/random_plan.h"

namespace orrery::sim {

TEST_CASE("events come out by instant, ties by content, whatever the order they went in") {
  // Instants close together, far apart, and so far that they differ in every digit.
  // Few events pending, and thousands.
  for (const std::int64_t apart : {1LL, 7LL, 5'000LL, 1'000'000'000'000LL}) {
    for (const auto& [instants, pushes] : {std::pair(3U, 60U), {60U, 60U}, {800U, 60U}, {800U, 52U}, {20'000U, 51U}}) {
      orrery::test::Random random(static_cast<std::uint64_t>(instants));
      EventQueue queue;
      std::set<std::tuple<std::int64_t, std::uint32_t, std::uint32_t>> model;
      std::int64_t now = 0;
      for (std::uint32_t n = 0; n < 10'000; ++n) {
        if (model.empty() || random.chance(pushes)) {
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

TEST_CASE("events that come due ahead of others are handed out ahead of them, however many they are") {
  // The one at 2^40 is alone and so what is handed out next; a thousand events come due before one that is as far
  // again.
  constexpr std::int64_t kFirst = std::int64_t{1} << 40, kThousand = 1000;
  EventQueue queue;
  queue.push({kFirst, 0, 0});
  queue.push({kFirst + kThousand, 1, 0});
  REQUIRE(queue.take().size() == 1);
  std::int64_t number = 0;
  for (std::int64_t n = 0; n < kThousand; ++n) {  // 7 has no factor in common with 1000: each instant once, in no order
    queue.push({kFirst + 7 * n % kThousand, 2, static_cast<std::uint32_t>(n)});
  }
  for (; !queue.empty(); ++number) {
    const std::int64_t due = queue.next();
    const auto events = queue.take();
    REQUIRE(events.size() == 1);
    REQUIRE(events.front().at == due);
    REQUIRE(due == kFirst + number);
    if (number == kThousand / 2) queue.push({due, 3, 0});
    if (number == kThousand / 2) REQUIRE(queue.take().front().subject == 3);
  }
  CHECK(number == kThousand + 1);
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
