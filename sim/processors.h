// How many processors this process may use: what the machine has, less what the scheduler's affinity or a container's
// quota of time takes away (sched(7); cgroups(7): cpu.max of version 2, cpu.cfs_quota_us of version 1). A thread beyond
// that takes time from another and spins while it waits.
#pragma once
#include <filesystem>
#include <optional>
#include <string_view>

namespace orrery::sim {

/// At least one. A quota of 1.5 processors counts as 2.
unsigned processors();

/// The processors' worth of time that the control groups of a process allow, the least of the group and those above it;
/// none where no quota is set. `groups` is the text of /proc/self/cgroup, `mounted` where the hierarchy lies
/// (/sys/fs/cgroup).
std::optional<double> processor_quota(std::string_view groups, const std::filesystem::path& mounted);

}  // namespace orrery::sim
