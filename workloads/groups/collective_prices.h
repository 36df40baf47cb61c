// What the collectives and messages of a job's groups cost: its device, its collective library and how its groups lie
// on the cluster, in one value.
#pragma once

#include <cstdint>
#include <vector>

#include "workloads/groups/group_shapes.h"

namespace orrery::workloads {

/// Refers to what it is made of, which must stay valid.
struct CollectivePrices {
  const calibration::DeviceProfile& device;
  const calibration::Software& software;  // its collective library
  const topology::Cluster& cluster;
  const GroupShapes& shapes;
  /// Devices of all stages, where they differ: the members of a group across stages agree on the slowest of them.
  std::vector<const calibration::DeviceProfile*> of_stages = {};
  /// Two copies of the model run through the stages from both ends, so that a stage's replicas lie on others too.
  bool both_ways = false;

  /// One call of `bytes`, the whole buffer.
  CollectiveCost of(CollectiveOp op, double bytes, const CommGroup& group) const;
  /// Bytes that a rank sends in it.
  double sent(CollectiveOp op, double bytes, const CommGroup& group) const;
  /// One message between two GPUs.
  CollectiveCost message(double bytes, bool same_node) const { return send_cost(bytes, same_node, device, software); }
  /// Seconds that a collective takes on an idle network, path latencies left out.
  double seconds_alone(const CollectiveCost& cost, const CommGroup& group) const;
  /// A few bytes that load no link: latency alone.
  CollectiveCost of_signal(CollectiveOp op, double bytes, const CommGroup& group) const;
};

/// By stage: nodes of several kinds may hold the stages of a pipeline.
struct StagePrices {
  std::vector<CollectivePrices> kinds;      // at least one
  std::vector<std::uint8_t> kind_of_stage;  // empty: all of the first
  std::size_t kind_of(std::size_t stage) const { return kind_of_stage.empty() ? 0 : kind_of_stage[stage]; }
};

}  // namespace orrery::workloads
