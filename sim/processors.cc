// Affinity and quotas of the processors; see processors.h.
#include "sim/processors.h"

#ifdef __linux__
#include <sched.h>
#endif

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <thread>

namespace orrery::sim {

namespace {

std::string text_of(const std::filesystem::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

/// Of one folder of the hierarchy: version 2 states "quota period" or "max period", version 1 a file each.
std::optional<double> quota_of(const std::filesystem::path& group) {
  double quota = 0, period = 0;
  std::istringstream both(text_of(group / "cpu.max"));
  if (!(both >> quota >> period)) {
    std::istringstream(text_of(group / "cpu.cfs_quota_us")) >> quota;
    std::istringstream(text_of(group / "cpu.cfs_period_us")) >> period;
  }
  if (quota > 0 && period > 0) return quota / period;
  return std::nullopt;
}

}  // namespace

std::optional<double> processor_quota(std::string_view groups, const std::filesystem::path& mounted) {
  std::optional<double> least;
  std::istringstream lines{std::string(groups)};
  // A line is "number:controllers:path"; no controllers are version 2's, mounted at the root.
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (!controllers.empty() && controllers != "cpu" && controllers != "cpu,cpuacct") continue;
    const std::filesystem::path root = mounted / controllers;
    std::filesystem::path group = std::filesystem::path(line.substr(second + 1)).relative_path();
    // A container sees the path that its host gave the group, but mounts the group itself as the root.
    for (;; group = group.parent_path()) {
      const std::optional<double> quota = quota_of(root / group);
      if (quota) least = std::min(least.value_or(*quota), *quota);
      if (group.empty()) break;
    }
  }
  return least;
}

unsigned processors() {
  unsigned count = std::max(1u, std::thread::hardware_concurrency());
#ifdef __linux__
  cpu_set_t allowed;
  if (::sched_getaffinity(0, sizeof(allowed), &allowed) == 0) {
    count = std::clamp(static_cast<unsigned>(CPU_COUNT(&allowed)), 1u, count);
  }
#endif
  if (const auto quota = processor_quota(text_of("/proc/self/cgroup"), "/sys/fs/cgroup")) {
    count = std::min(count, static_cast<unsigned>(std::max(1.0, std::ceil(*quota))));
  }
  return count;
}

}  // namespace orrery::sim
