// Does the caching allocator keep what PyTorch's rules, followed by hand, keep?
#include "workloads/memory/caching_allocator.h"

#include <vector>

#include "tests/catch.h"
#include "workloads/memory/launch_queue.h"

using namespace orrery;
using namespace orrery::workloads;

namespace {
constexpr std::int64_t kMiB = 1 << 20;
}

TEST_CASE("segments: 2 MiB up to 1 MiB, 20 MiB up to 10 MiB, above that the block in steps of 2 MiB") {
  const auto reserved = [](std::int64_t bytes) {
    CachingAllocator allocator;
    allocator.allocate(bytes);
    return allocator.reserved();
  };
  CHECK(reserved(1) == 2 * kMiB);
  CHECK(reserved(kMiB) == 2 * kMiB);
  CHECK(reserved(kMiB + 1) == 20 * kMiB);
  CHECK(reserved(10 * kMiB - 512) == 20 * kMiB);
  CHECK(reserved(10 * kMiB) == 10 * kMiB);
  CHECK(reserved(11 * kMiB) == 12 * kMiB);
}

TEST_CASE("a freed block serves what fits, is split where more than 1 MiB is left, and grows together again") {
  CachingAllocator allocator;
  const auto large = allocator.allocate(100 * kMiB);
  allocator.free(large);
  const auto first = allocator.allocate(60 * kMiB);
  const auto second = allocator.allocate(40 * kMiB);
  CHECK(allocator.reserved() == 100 * kMiB);
  CHECK(allocator.allocated() == 100 * kMiB);
  allocator.free(first);
  allocator.free(second);
  allocator.allocate(100 * kMiB);
  CHECK(allocator.reserved() == 100 * kMiB);
}

TEST_CASE("the smallest block that is large enough is taken; a small tenant makes a large segment useless") {
  CachingAllocator allocator;
  const auto large = allocator.allocate(1000 * kMiB), small = allocator.allocate(40 * kMiB);
  allocator.free(large);
  allocator.free(small);
  const auto tenant = allocator.allocate(30 * kMiB);  // in the segment of 40
  allocator.allocate(1000 * kMiB);
  CHECK(allocator.reserved() == 1040 * kMiB);
  allocator.free(tenant);
  CachingAllocator other;
  other.free(other.allocate(1000 * kMiB));
  other.allocate(30 * kMiB);  // in the only one that there is
  other.allocate(1000 * kMiB);
  CHECK(other.reserved() == 2000 * kMiB);
}

TEST_CASE("where the device has no more, an allocation fails, and what is whole and free goes back") {
  CachingAllocator allocator(100 * kMiB);
  const auto first = allocator.allocate(60 * kMiB);
  CHECK(!allocator.try_allocate(50 * kMiB));
  allocator.free(first);
  CHECK(!allocator.try_allocate(70 * kMiB));
  allocator.release_cached();
  CHECK(allocator.reserved() == 0);
  CHECK(allocator.try_allocate(70 * kMiB));
  allocator.allocate(50 * kMiB);
  CHECK(allocator.reserved() == 120 * kMiB);
}

TEST_CASE("a host is ahead by as many launches as the queue takes, or not at all") {
  LaunchQueue queue(2), waits(0);
  for (int i = 0; i < 10; ++i) {
    queue.launch(1, 1, 10);
    waits.launch(1, 1, 10);
  }
  // The tenth launch is made when the eighth is done.
  CHECK(queue.device() == Approx(101));
  CHECK(queue.host() == Approx(81));
  CHECK(waits.host() == Approx(waits.device()));
  queue.synchronize();
  CHECK(queue.host() == Approx(101));
  queue.hold_device(200);
  queue.launch(1, 1, 10);
  CHECK(queue.device() == Approx(210));
  CHECK(queue.host() == Approx(102));
}
