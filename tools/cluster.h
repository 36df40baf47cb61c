// The cluster that a command is asked about: a scenario's, that of a file which says `cluster` alone, or a shipped
// fabric with a device and a number of GPUs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "calibration/device/profile.h"
#include "calibration/framework/software.h"
#include "sim/settings.h"
#include "tools/command_options.h"
#include "topology/cluster.h"
#include "workloads/job/job.h"

namespace orrery::tools {

struct ClusterOptions {
  std::string what;  // a scenario's file or name, or the name of a fabric
  std::string device = "h100-sxm-80gb";
  std::vector<std::string> sets;
};

struct NamedCluster {
  std::string title;
  calibration::DeviceProfile device;
  calibration::Software software;
  topology::Cluster cluster;
  sim::Settings fabric;                 // as its document says it, inheritance resolved
  std::optional<workloads::Job> job{};  // a scenario's
};

/// Declares CLUSTER, --device and --set.
void declare_cluster(CommandOptions app, ClusterOptions& options);

/// Reads it; `gpus` is how many a fabric gets, in nodes as full as the device allows (a scenario says itself how many
/// it has). Throws sim::UserError.
NamedCluster read_cluster(const ClusterOptions& options, std::int64_t gpus);

/// A shipped document ("fabrics", "devices", "software") by name or path, inheritance resolved. Throws sim::UserError
/// when there is none of that name.
sim::Settings document_of(const std::string& kind, const std::string& name);

}  // namespace orrery::tools
