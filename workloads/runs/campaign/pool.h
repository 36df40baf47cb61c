// The nodes that a campaign can take: healthy ones, and those that come back from repair.
#pragma once

#include <cstdint>
#include <vector>

#include "workloads/runs/campaign/plan.h"

namespace orrery::campaign {

class Pool {
 public:
  /// `seed`: of which kind's nodes are lost, where there are several.
  explicit Pool(const Plan::Pool& plan, std::uint64_t seed = 0);
  /// `nodes` leave until `back`; no more than there are. Any healthy node is as likely as any other.
  void lose(std::int64_t nodes, Elapsed back);
  void take_back(Elapsed now);
  /// Replicas fewer than all that the healthy nodes hold; beyond the plan's levels: too few.
  std::size_t level() const { return level_of(healthy_); }
  /// When the next nodes come back; kNoTime where none are away.
  Elapsed next_return() const;
  /// When enough nodes will be back for `level`; 0 where they are, kNoTime where they never will.
  Elapsed time_of(std::size_t level) const;

 private:
  using Nodes = std::vector<std::int64_t>;  // by kind
  struct Away {
    Elapsed back;
    Nodes nodes;
  };
  std::size_t level_of(const Nodes& nodes) const;
  std::size_t draw_kind();

  const Plan::Pool& plan_;
  std::vector<NodeKind> kinds_;
  Nodes healthy_;
  std::vector<Away> away_;  // by the time of return
  std::uint64_t seed_ = 0, drawn_ = 0;
};

}  // namespace orrery::campaign
