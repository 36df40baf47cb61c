// Shapes of groups. See group_shapes.h. Left out: for messages all but the highest tier, and that of neighbouring
// stages only where the data dimension begins and ends, whose ranks lie farthest apart; a signal's group counts as if
// it filled node after node.
#include "workloads/groups/group_shapes.h"

#include <algorithm>

namespace orrery::workloads {

namespace {

GroupShape worse(const GroupShape& a, const GroupShape& b) {
  GroupShape w = a;
  w.nodes = std::max(a.nodes, b.nodes);
  w.per_node = std::max(a.per_node, b.per_node);
  w.rails = std::min(a.rails, b.rails);
  w.top = std::max(a.top, b.top);
  w.hop = std::max(a.hop, b.hop);
  w.nic = a.nic && b.nic ? slower(*a.nic, *b.nic) : a.nic ? a.nic : b.nic;
  return w;
}

/// Ranks that are made, of which shapes are told.
struct Made {
  std::int64_t alike = 1;  // tensor ranks
  const AlikeReplicas& replicas;
  std::vector<std::int64_t> ranks;
};

GroupShape worst_of(const SubGroup& kind, const RankMap& ranks, const topology::Cluster& cluster, const Made& made) {
  const Dims& dims = ranks.dims();
  GroupShape worst;
  bool first = true;
  // Blocks begin at the tensor dimension's first place where they run along it.
  for (const std::int64_t rank : made.ranks) {
    if (dims.first_of_block(rank, kind) != rank) continue;
    for (const std::int64_t member : dims.first_members_of_block(rank, kind)) {
      if (!made.replicas.makes(dims, member)) continue;
      const GroupShape shape = shape_of(ranks.gpus_of(dims.members_of(member, kind)), cluster);
      worst = first ? shape : worse(worst, shape);
      first = false;
    }
  }
  return worst;
}

/// The first pair that leaves its node speaks for all.
GroupShape worst_of(const StagePairs& pairs, const RankMap& ranks, const topology::Cluster& cluster, const Made& made) {
  const Dims& dims = ranks.dims();
  GroupShape worst;
  for (const std::int64_t rank : made.ranks) {
    if (worst.nodes > 1) break;
    const std::int64_t stage = dims.place(rank, Dim::pipeline);
    if (stage >= pairs.pairs) continue;
    const std::int64_t other = dims.moved(rank, Dim::pipeline, second_stage(pairs, stage, dims));
    worst = shape_of(ranks.gpus_of(std::vector{rank, other}), cluster);
  }
  return worst;
}

GroupShape shape_of_messages(const RankMap& ranks, const topology::Cluster& cluster) {
  const Dims& dims = ranks.dims();
  GroupShape shape;
  shape.ranks = 2;
  for (const std::int64_t data : {std::int64_t{0}, dims.size(Dim::data) - 1}) {
    for (std::int64_t stage = 0; stage + 1 < dims.size(Dim::pipeline); ++stage) {
      const std::int64_t from = data * dims.stride(Dim::data) + stage * dims.stride(Dim::pipeline);
      const auto way = cluster.way(ranks.gpu_of(from), ranks.gpu_of(from + dims.stride(Dim::pipeline)));
      shape.top = std::max(shape.top, way.top);
    }
  }
  return shape;
}

GroupShape shape_of_signals(std::int64_t members, const topology::Cluster& cluster) {
  GroupShape shape;
  shape.ranks = members;
  shape.nodes = (members + cluster.gpus_per_node() - 1) / cluster.gpus_per_node();
  shape.per_node = std::min(members, cluster.gpus_per_node());
  if (shape.nodes > 1) {
    const auto way = cluster.way(0, cluster.gpus() - 1);
    shape.hop = way.latency;
    shape.top = way.top;
  }
  return shape;
}

GroupShape shape_of_group(const JobGroup& group, const RankMap& ranks, const topology::Cluster& cluster,
                          const Made& made) {
  const auto* members = std::get_if<SubGroup>(&group.members);
  switch (group.carries) {
    case JobGroup::Carries::messages:
      return shape_of_messages(ranks, cluster);
    case JobGroup::Carries::signals:
      return shape_of_signals(ranks.dims().group_size(*members), cluster);
    case JobGroup::Carries::collectives:
      break;
  }
  GroupShape shape = members != nullptr ? worst_of(*members, ranks, cluster, made)
                                        : worst_of(std::get<StagePairs>(group.members), ranks, cluster, made);
  if (group.exchange) shape.exchange = *group.exchange;
  return shape;
}

/// Stage by stage: one pair that crosses nodes makes all ranks of the stage send as if it did, so that both ends agree.
std::vector<bool> same_node_by_stage(const RankMap& ranks, const topology::Cluster& cluster, const Made& made) {
  const Dims& dims = ranks.dims();
  const std::int64_t stages = dims.size(Dim::pipeline);
  std::vector<bool> same_node(static_cast<std::size_t>(stages), true);
  for (const std::int64_t rank : made.ranks) {
    const std::int64_t stage = dims.place(rank, Dim::pipeline);
    if (!same_node[static_cast<std::size_t>(stage)]) continue;
    const std::int64_t next = dims.moved(rank, Dim::pipeline, (stage + 1) % stages);
    if (cluster.node_of(ranks.gpu_of(rank)) != cluster.node_of(ranks.gpu_of(next)))
      same_node[static_cast<std::size_t>(stage)] = false;
  }
  return same_node;
}

}  // namespace

const GroupShape& GroupShapes::operator[](const CommGroup& group) const {
  static const GroupShape alone;
  for (const auto& [known, shape] : shapes_) {
    if (known == group) return shape;
  }
  return alone;
}

GroupShapes group_shapes(const std::vector<JobGroup>& groups, const RankMap& ranks, const topology::Cluster& cluster,
                         std::int64_t alike, const AlikeReplicas& replicas) {
  const Made made{alike, replicas, made_ranks(ranks.dims(), alike, replicas)};
  GroupShapes shapes;
  for (const JobGroup& group : groups) {
    if (!(group.group == CommGroup::scales)) shapes.set(group.group, shape_of_group(group, ranks, cluster, made));
  }
  GroupShape scales = shapes[CommGroup::data];
  for (const CommGroup& group : {CommGroup::replicate, CommGroup::tensor}) {
    const GroupShape& more = shapes[group];
    scales.ranks *= more.ranks;
    scales.nodes *= more.nodes;
    scales.per_node *= more.per_node;
    scales.top = std::max(scales.top, more.top);
  }
  scales.hop = std::max(scales.hop, shapes[CommGroup::replicate].hop);
  shapes.set(CommGroup::scales, scales);
  shapes.pipeline_same_node = same_node_by_stage(ranks, cluster, made);
  return shapes;
}

}  // namespace orrery::workloads
