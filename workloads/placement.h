// Which GPU runs which rank, as the placement decides.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "workloads/job.h"

namespace orrery::workloads {

class RankMap {
 public:
  RankMap(const Dims& dims, const Placement& placement, std::int64_t gpus_per_node);
  const Dims& dims() const { return dims_; }
  std::int64_t ranks() const { return dims_.ranks(); }
  std::int64_t gpu_of(std::int64_t rank) const { return gpu_[static_cast<std::size_t>(rank)]; }
  std::vector<std::int64_t> gpus_of(std::span<const std::int64_t> ranks) const;

 private:
  /// Turns places in the order of dimensions into GPUs, by Placement::by.
  void arrange(const Placement& placement, std::int64_t gpus_per_node);

  Dims dims_;
  std::vector<std::int64_t> gpu_;
};

}  // namespace orrery::workloads
