// Do processors that a container's quota or the scheduler's affinity takes away count as not there?
#include "sim/processors.h"

#include <sched.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "tests/catch.h"

using namespace orrery;
namespace fs = std::filesystem;

namespace {

struct Hierarchy {
  fs::path root = fs::temp_directory_path() / ("orrery-groups-" + std::to_string(::getpid()));
  ~Hierarchy() { fs::remove_all(root); }
  void write(const std::string& file, const std::string& text) const {
    fs::create_directories((root / file).parent_path());
    std::ofstream(root / file) << text;
  }
};

}  // namespace

TEST_CASE("a quota of processor time is the least of a group's and of those above it") {
  const Hierarchy groups;
  groups.write("a/cpu.max", "350000 100000\n");
  groups.write("a/b/cpu.max", "max 100000\n");
  groups.write("a/b/c/cpu.max", "800000 100000\n");
  CHECK(sim::processor_quota("0::/a/b/c\n", groups.root) == 3.5);
  CHECK(sim::processor_quota("0::/a/b\n", groups.root) == 3.5);
  CHECK_FALSE(sim::processor_quota("0::/elsewhere\n", groups.root).has_value());
  // Within a container the host's path leads nowhere, and the group itself is the root.
  groups.write("cpu.max", "150000 100000\n");
  CHECK(sim::processor_quota("0::/kubepods/pod7\n", groups.root) == 1.5);
  CHECK_FALSE(sim::processor_quota("no groups", groups.root).has_value());
}

TEST_CASE("a quota of version 1 is read beside those of other controllers") {
  const Hierarchy groups;
  groups.write("cpu,cpuacct/job/cpu.cfs_quota_us", "200000\n");
  groups.write("cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
  groups.write("cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  groups.write("cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  CHECK(sim::processor_quota("5:memory:/job\n4:cpu,cpuacct:/job\n", groups.root) == 2.0);
  CHECK_FALSE(sim::processor_quota("5:memory:/job\n", groups.root).has_value());
}

TEST_CASE("a thread that may run on one processor alone has one") {
  unsigned seen = 0;
  std::thread([&] {
    cpu_set_t allowed, one;
    CPU_ZERO(&one);
    if (::sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return;
    int first = 0;
    while (!CPU_ISSET(first, &allowed)) ++first;
    CPU_SET(first, &one);
    if (::sched_setaffinity(0, sizeof(one), &one) == 0) seen = sim::processors();
  }).join();
  CHECK(seen == 1);
  CHECK(sim::processors() >= 1);
  CHECK(sim::processors() <= std::max(1u, std::thread::hardware_concurrency()));
}
