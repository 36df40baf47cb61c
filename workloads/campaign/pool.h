// The nodes that a campaign can take: healthy ones, and those that come back from repair.
#pragma once

#include <cstdint>
#include <vector>

#include "workloads/campaign/plan.h"

namespace orrery::campaign {

class Pool {
 public:
  explicit Pool(const Plan::Pool& plan) : plan_(plan), healthy_(plan.nodes) {}
  /// `nodes` leave until `back`; no more than there are.
  void lose(std::int64_t nodes, Elapsed back);
  void take_back(Elapsed now);
  /// Replicas fewer than all that the healthy nodes hold; beyond the plan's levels: too few.
  std::size_t level() const { return level_of(healthy_); }
  /// When the next nodes come back; kNoTime where none are away.
  Elapsed next_return() const;
  /// When enough nodes will be back for `level`; 0 where they are, kNoTime where they never will.
  Elapsed time_of(std::size_t level) const;

 private:
  struct Away {
    Elapsed back;
    std::int64_t nodes;
  };
  std::size_t level_of(std::int64_t nodes) const;

  const Plan::Pool& plan_;
  std::int64_t healthy_;
  std::vector<Away> away_;  // by the time of return
};

}  // namespace orrery::campaign
