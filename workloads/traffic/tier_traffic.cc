// Where on the network a step's bytes go: every group's traffic is laid out as rings do it (NCCL orders a ring node by
// node), so of n ranks on k nodes n - k send inside a node and k to the next node; a message counts for the highest
// tier that it crosses. This is what a placement decides. Left out: that trees and exchanges between all ranks reach
// further than to ring neighbours.
#include <algorithm>
#include <array>
#include <utility>
#include <variant>
#include <vector>

#include "workloads/collectives/collective.h"
#include "workloads/groups/placement.h"
#include "workloads/traffic/traffic.h"

namespace orrery::workloads {

namespace {

/// Messages by the highest tier that they cross.
struct Shares {
  ByTier messages{};
  void add(topology::Tier tier, double count) { messages[static_cast<std::size_t>(tier)] += count; }
};

/// `times`: groups that this one stands for.
void add_ring(const std::vector<std::int64_t>& gpus, double times, const topology::Cluster& cluster, Shares& shares) {
  const MembersByNode nodes(gpus, cluster);
  if (nodes.size() == 1) {
    shares.add(topology::Tier::node, times * static_cast<double>(gpus.size()));
    return;
  }
  shares.add(topology::Tier::node, times * static_cast<double>(gpus.size() - nodes.size()));
  for (std::size_t i = 0; i < nodes.size(); ++i)
    shares.add(cluster.way(nodes[i].front(), nodes[(i + 1) % nodes.size()].front()).top, times);
}

/// The messages of all rings and pairs of a group; none of one whose few bytes load no link.
Shares shares_of(const JobGroup& group, const RankMap& ranks, const topology::Cluster& cluster, std::int64_t alike,
                 const AlikeReplicas& replicas) {
  const Dims& dims = ranks.dims();
  Shares shares;
  if (group.carries == JobGroup::Carries::signals) return shares;
  const auto* kind = std::get_if<SubGroup>(&group.members);
  if (kind != nullptr && kind->over.has(Dim::tensor)) alike = 1;
  const bool across = kind != nullptr && lies_across(dims, *kind, replicas);
  for (const std::int64_t rank : made_ranks(dims, alike, replicas)) {
    const auto times = static_cast<double>(alike * replicas.copies_of(dims, rank));
    if (kind != nullptr) {
      if (dims.first_of_block(rank, *kind) != rank) continue;
      // A group that takes part of all blocks of replicas stands for itself.
      for (const std::int64_t member : dims.first_members_of_block(rank, *kind)) {
        const std::int64_t copies = across ? 1 : replicas.copies_of(dims, member);
        if (copies > 0)
          add_ring(ranks.gpus_of(dims.members_of(member, *kind)), static_cast<double>(alike * copies), cluster, shares);
      }
    } else {
      const auto& pairs = std::get<StagePairs>(group.members);
      const std::int64_t stage = dims.place(rank, Dim::pipeline);
      if (stage >= pairs.pairs) continue;
      const std::int64_t other = dims.moved(rank, Dim::pipeline, second_stage(pairs, stage, dims));
      shares.add(cluster.way(ranks.gpu_of(rank), ranks.gpu_of(other)).top, times);
    }
  }
  return shares;
}

}  // namespace

ByTier bytes_by_tier(const std::vector<TrafficRow>& rows, const std::vector<JobGroup>& groups, const RankMap& ranks,
                     const topology::Cluster& cluster, std::int64_t alike, const AlikeReplicas& replicas) {
  std::vector<std::pair<const JobGroup*, Shares>> known;  // groups of different members
  ByTier bytes{};
  for (const TrafficRow& row : rows) {
    Shares shares;
    if (const JobGroup* group = find_group(groups, row.among); group != nullptr) {
      auto it = std::find_if(known.begin(), known.end(), [&](const auto& k) {
        return k.first->members == group->members && k.first->carries == group->carries;
      });
      if (it == known.end()) it = known.insert(it, {group, shares_of(*group, ranks, cluster, alike, replicas)});
      shares = it->second;
    }
    double all = 0;
    for (const double messages : shares.messages) all += messages;
    for (std::size_t t = 0; t < bytes.size(); ++t) {
      // Groups of a few bytes have no ring: all on the tier that joins them.
      if (all > 0)
        bytes[t] += row.simulated_bytes * shares.messages[t] / all;
      else if (row.level == topology::name_of(static_cast<topology::Tier>(t)))
        bytes[t] += row.simulated_bytes;
    }
  }
  return bytes;
}

}  // namespace orrery::workloads
