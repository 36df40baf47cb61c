// Which GPU runs which rank, as the placement decides.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "workloads/groups/dims.h"

namespace orrery::workloads {

struct Placement {
  enum class Kind : std::uint8_t { order, random, list };
  Kind kind = Kind::order;
  std::vector<Dim> order{kDims.begin(), kDims.end()};  // fastest-varying dimension first
  /// order: which GPUs are neighbours. node: those of a node, then those of the next. rail: blocks of the fastest
  /// dimension go to the same place of node after node, then to the next place. pod: as node, the nodes dealt out over
  /// the pods in turn.
  enum class By : std::uint8_t { node, rail, pod };
  By by = By::node;
  /// By node or pod: the nodes in the order in which they are filled; empty: by number.
  std::vector<std::int64_t> node_order;
  std::uint64_t seed = 0;          // random
  std::vector<std::int64_t> gpus;  // list: rank -> GPU
  bool operator==(const Placement&) const = default;
};

class RankMap {
 public:
  RankMap(const Dims& dims, const Placement& placement, std::int64_t gpus_per_node);
  const Dims& dims() const { return dims_; }
  std::int64_t ranks() const { return dims_.ranks(); }
  std::int64_t gpu_of(std::int64_t rank) const { return gpu_.empty() ? rank : gpu_[static_cast<std::size_t>(rank)]; }
  std::vector<std::int64_t> gpus_of(std::span<const std::int64_t> ranks) const;

 private:
  /// Turns places in the order of dimensions into GPUs, by Placement::by.
  void arrange(const Placement& placement, std::int64_t gpus_per_node);

  Dims dims_;
  std::vector<std::int64_t> gpu_;  // by rank; empty: its own number
};

}  // namespace orrery::workloads
