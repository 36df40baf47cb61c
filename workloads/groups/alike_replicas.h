// Data-parallel replicas that nothing but their number tells apart, so that one is made for all of them.
//
// Replicas that share nodes are a block. Two blocks can change places, nodes and all, where nodes can
// (topology::Cluster::nodes_change_places), where every group of ranks lies in one block or takes part of all blocks
// alike, and where the groups inside one are as far from end to end as those inside the other: their members have
// switches above them in common in the same way. Then every route of the one is a route of the other, and folding
// (sim/fold.h) would put their ranks into the same classes. So the cost of groups goes with the kinds of blocks, of
// which there are a handful, and no longer with the GPUs. Left out: perturbed jobs, placements that are not in order,
// groups over some blocks but not all (hybrid sharding over more than one node's replicas), own routes of algorithms.
#pragma once

#include <cstdint>
#include <vector>

#include "topology/cluster.h"
#include "workloads/groups/comm_groups.h"
#include "workloads/groups/placement.h"

namespace orrery::workloads {

/// Which replicas are made.
struct AlikeReplicas {
  std::int64_t in_block = 1;                // replicas
  std::vector<std::uint32_t> copies = {};   // by block: how many it stands for, 0 where another does; empty: all made
  std::vector<std::uint32_t> of_node = {};  // likewise, by node

  bool any() const { return !copies.empty(); }
  std::uint32_t copies_of(const Dims& dims, std::int64_t rank) const {
    return copies.empty() ? 1 : copies[static_cast<std::size_t>(dims.place(rank, Dim::data) / in_block)];
  }
  bool makes(const Dims& dims, std::int64_t rank) const { return copies_of(dims, rank) > 0; }
};

/// Whether groups of a kind take part of all blocks.
bool lies_across(const Dims& dims, const SubGroup& kind, const AlikeReplicas& replicas);

/// `alike`: ranks of a tensor group that its first one stands for.
AlikeReplicas alike_replicas(const GroupLayout& layout, const Placement& placement, const std::vector<JobGroup>& groups,
                             const topology::Cluster& cluster, std::int64_t alike);

/// The ranks that are made, rising.
std::vector<std::int64_t> made_ranks(const Dims& dims, std::int64_t alike, const AlikeReplicas& replicas);

}  // namespace orrery::workloads
