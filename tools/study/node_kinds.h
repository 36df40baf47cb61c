// Several jobs on one cluster whose nodes are of several kinds: which nodes each may have.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/study/placements.h"
#include "topology/cluster.h"
#include "workloads/job/job.h"

namespace orrery::tools {

/// The kinds of nodes of the cluster that jobs share, told apart by their devices' names. As in a job's own cluster,
/// the nodes of the device come first, then those of each other kind.
class NodeKinds {
 public:
  /// `jobs`: on one device and fabric; beside the device each has nodes of the other kinds that it names. `gpus`: of
  /// the cluster, at least those of all jobs; what is more is of the device.
  NodeKinds(const std::vector<const workloads::Job*>& jobs, std::int64_t gpus);

  bool several() const { return !others_.empty(); }
  /// Of the cluster, beside the device's.
  const std::vector<topology::OtherNodes>& others() const { return others_; }
  std::size_t kind_of(std::int64_t node) const;
  /// "64 x h100-sxm-80gb + 32 x a100-sxm-80gb": the GPUs of each kind.
  std::string text() const;

  /// As tools::place_by, kind by kind: a job's list holds its nodes in the order of its own.
  NodeLists place_by(const std::string& policy, const std::vector<std::vector<std::int64_t>>& units,
                     std::uint64_t seed) const;

 private:
  struct Part {
    std::size_t kind;
    std::int64_t nodes;
  };
  std::int64_t per_node_ = 1;
  std::vector<std::string> names_;                // of the devices
  std::vector<std::int64_t> begin_;               // first node of each kind, and the end
  std::vector<std::vector<std::int64_t>> wants_;  // [kind][job], nodes
  std::vector<std::vector<Part>> parts_;          // [job], in the order of its own nodes
  std::vector<topology::OtherNodes> others_;
};

}  // namespace orrery::tools
