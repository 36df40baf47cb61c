// Looks for blocks of replicas that can change places. See alike_replicas.h.
#include "workloads/groups/alike_replicas.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <span>
#include <unordered_map>
#include <variant>

#include "sim/hash.h"

namespace orrery::workloads {

namespace {

/// GPUs from one replica to the next, where ranks lie in order.
std::int64_t gpus_of_replica(const Dims& dims, const Placement& placement) {
  std::int64_t gpus = 1;
  for (const Dim dim : placement.order) {
    if (dim == Dim::data) break;
    gpus *= dims.size(dim);
  }
  return gpus;
}

/// Ranks that a block has between one replica and the next, among those that a group runs over.
std::int64_t places_of_replica(const Dims& dims, const SubGroup& kind) {
  std::int64_t places = 1;
  for (const Dim dim : kDims) {
    if (dim == Dim::data) break;
    if (kind.over.has(dim)) places *= dims.size(dim);
  }
  return places;
}

/// Whether groups of a kind lie in a block of so many replicas each, or take part of all blocks alike.
enum class Lies { inside, across, otherwise };
Lies lies(const Dims& dims, const SubGroup& kind, std::int64_t replicas) {
  if (!kind.over.has(Dim::data)) return Lies::inside;
  const std::int64_t span = kind.stride * dims.group_size(kind);
  const std::int64_t block = replicas * places_of_replica(dims, kind);
  if (block % span == 0) return Lies::inside;
  return span == dims.block_size(kind) && block % kind.stride == 0 ? Lies::across : Lies::otherwise;
}

/// Replicas that share nodes, or groups that are smaller than all.
std::int64_t replicas_of_block(const Dims& dims, const Placement& placement, const std::vector<JobGroup>& groups,
                               std::int64_t gpus_per_node) {
  std::int64_t replicas = gpus_per_node / std::gcd(gpus_per_node, gpus_of_replica(dims, placement));
  for (const JobGroup& group : groups) {
    const auto* kind = std::get_if<SubGroup>(&group.members);
    if (kind == nullptr || !kind->over.has(Dim::data)) continue;
    const std::int64_t span = kind->stride * dims.group_size(*kind), one = places_of_replica(dims, *kind);
    if (span < dims.block_size(*kind)) replicas = std::lcm(replicas, span / std::gcd(span, one));
  }
  return replicas;
}

/// Whether all groups of a kind lie in one node each, for as ranks lie in order: neighbours, as many as fill a node or
/// a part of one.
bool in_a_node(const Dims& dims, const Placement& placement, const SubGroup& kind, std::int64_t gpus_per_node) {
  std::int64_t neighbours = 1;
  for (const Dim dim : placement.order) {
    if (!kind.over.has(dim)) break;
    neighbours *= dims.size(dim);
  }
  return !kind.mirrored && neighbours == dims.block_size(kind) &&
         neighbours % (kind.stride * dims.group_size(kind)) == 0 &&
         gpus_per_node % (kind.stride * dims.group_size(kind)) == 0;
}

/// Numbers what is above the members of a group, level by level, in the order in which it appears: groups with the same
/// numbers have the same of it in common.
class InCommon {
 public:
  explicit InCommon(const topology::Cluster& cluster) : cluster_(cluster) {}

  std::uint64_t of(std::span<const std::int64_t> gpus) {
    if (gpus.size() == 2) return of_pair(gpus[0], gpus[1]);
    sim::Fnv1a hash;
    at_.clear();
    for (const std::int64_t gpu : gpus) at_.push_back(static_cast<std::uint32_t>(cluster_.node_of(gpu)));
    if (number(hash) == 1) return hash.value();  // one node
    for (std::size_t i = 0; i < gpus.size(); ++i) at_[i] = cluster_.leaf_of(gpus[i]);
    while (number(hash) > 1) {
      bool higher = false;
      for (std::uint32_t& switches : at_) {
        const std::uint32_t above = cluster_.above(switches);
        higher = higher || above != switches;
        switches = above;
      }
      if (!higher) break;
    }
    return hash.value();
  }

 private:
  /// How many levels of switches two GPUs do not share; none in one node.
  std::uint64_t of_pair(std::int64_t a, std::int64_t b) const {
    if (cluster_.node_of(a) == cluster_.node_of(b)) return 0;
    std::uint32_t low = cluster_.leaf_of(a), other = cluster_.leaf_of(b);
    std::uint64_t levels = 1;
    for (; low != other; ++levels) {
      const std::uint32_t above = cluster_.above(low);
      if (above == low) break;
      low = above;
      other = cluster_.above(other);
    }
    return levels;
  }

  /// How many are told apart.
  std::size_t number(sim::Fnv1a& hash) {
    seen_.clear();
    std::size_t last = 0;  // of seen_, what the member before has
    for (const std::uint32_t one : at_) {
      if (seen_.empty() || seen_[last] != one) {
        last = static_cast<std::size_t>(std::find(seen_.begin(), seen_.end(), one) - seen_.begin());
        if (last == seen_.size()) seen_.push_back(one);
      }
      hash.add(last);
    }
    hash.add(seen_.size());
    return seen_.size();
  }

  const topology::Cluster& cluster_;
  std::vector<std::uint32_t> at_, seen_;
};

/// By block, what its groups have in common.
std::vector<std::uint64_t> kinds_of_blocks(const Dims& dims, const Placement& placement,
                                           const std::vector<JobGroup>& groups, std::int64_t replicas,
                                           std::int64_t alike, const topology::Cluster& cluster) {
  const RankMap ranks(dims, placement, cluster.gpus_per_node());
  InCommon in_common(cluster);
  std::vector<std::uint64_t> kinds(static_cast<std::size_t>(dims.size(Dim::data) / replicas), 0);
  std::vector<std::int64_t> gpus;
  const auto add = [&](std::span<const std::int64_t> members) {
    gpus.clear();
    for (const std::int64_t rank : members) gpus.push_back(ranks.gpu_of(rank));
    std::uint64_t& kind = kinds[static_cast<std::size_t>(dims.place(members.front(), Dim::data) / replicas)];
    kind = sim::hash_pair(kind, in_common.of(gpus));
  };
  std::vector<const JobGroup*> looked_at;  // of different members
  for (const JobGroup& group : groups) {
    if (group.carries == JobGroup::Carries::signals) continue;
    const bool known = std::any_of(looked_at.begin(), looked_at.end(),
                                   [&](const JobGroup* other) { return other->members == group.members; });
    if (known) continue;
    looked_at.push_back(&group);
    const auto* kind = std::get_if<SubGroup>(&group.members);
    if (kind != nullptr && lies(dims, *kind, replicas) == Lies::across) continue;
    if (kind != nullptr && in_a_node(dims, placement, *kind, cluster.gpus_per_node())) continue;
    // Blocks begin at the tensor dimension's first place where they run along it.
    const std::int64_t step = kind != nullptr && kind->over.has(Dim::tensor) ? dims.size(Dim::tensor) : alike;
    for (std::int64_t rank = 0; rank < dims.ranks(); rank += step) {
      if (kind == nullptr) {
        const auto& pairs = std::get<StagePairs>(group.members);
        const std::int64_t stage = dims.place(rank, Dim::pipeline);
        if (stage < pairs.pairs)
          add(std::array{rank, dims.moved(rank, Dim::pipeline, second_stage(pairs, stage, dims))});
      } else if (dims.first_of_block(rank, *kind) == rank) {
        for (const std::int64_t first : dims.first_members_of_block(rank, *kind)) add(dims.members_of(first, *kind));
      }
    }
  }
  return kinds;
}

bool can_change_places(const GroupLayout& layout, const Placement& placement, const topology::Cluster& cluster) {
  const bool in_order =
      placement.kind == Placement::Kind::order && placement.by == Placement::By::node && placement.node_order.empty();
  return in_order && layout.own_routes.bits == 0 && cluster.gpus() == layout.dims.ranks() &&
         cluster.nodes_change_places();
}

}  // namespace

AlikeReplicas alike_replicas(const GroupLayout& layout, const Placement& placement, const std::vector<JobGroup>& groups,
                             const topology::Cluster& cluster, std::int64_t alike) {
  const Dims& dims = layout.dims;
  const std::int64_t per_node = cluster.gpus_per_node();
  const std::int64_t replicas = replicas_of_block(dims, placement, groups, per_node);
  if (dims.size(Dim::data) % replicas != 0 || dims.size(Dim::data) == replicas) return {};
  if (!can_change_places(layout, placement, cluster)) return {};
  for (const JobGroup& group : groups) {
    const auto* kind = std::get_if<SubGroup>(&group.members);
    if (kind == nullptr) continue;
    const Lies where = lies(dims, *kind, replicas);
    if (where == Lies::otherwise || (where == Lies::across && group.exchange)) return {};
  }
  const std::vector<std::uint64_t> kinds = kinds_of_blocks(dims, placement, groups, replicas, alike, cluster);
  AlikeReplicas out{replicas, std::vector<std::uint32_t>(kinds.size(), 0), {}};
  std::unordered_map<std::uint64_t, std::size_t> first;
  for (std::size_t block = 0; block < kinds.size(); ++block)
    ++out.copies[first.try_emplace(kinds[block], block).first->second];
  if (first.size() == kinds.size()) return {};
  const std::int64_t replica = gpus_of_replica(dims, placement);
  for (std::int64_t gpu = 0; gpu < cluster.gpus(); gpu += per_node) {
    const std::int64_t place = gpu / replica % dims.size(Dim::data);
    out.of_node.push_back(out.copies[static_cast<std::size_t>(place / replicas)]);
  }
  return out;
}

bool lies_across(const Dims& dims, const SubGroup& kind, const AlikeReplicas& replicas) {
  return replicas.any() && lies(dims, kind, replicas.in_block) == Lies::across;
}

std::vector<std::int64_t> made_ranks(const Dims& dims, std::int64_t alike, const AlikeReplicas& replicas) {
  std::vector<std::int64_t> made;
  const std::int64_t replica = dims.stride(Dim::data), stage = dims.stride(Dim::pipeline);
  std::vector<std::int64_t> firsts;  // of the first stage's ranks, of each replica
  for (std::int64_t first = 0; first < stage; first += replica) {
    if (replicas.makes(dims, first)) firsts.push_back(first);
  }
  for (std::int64_t begin = 0; begin < dims.ranks(); begin += stage) {
    for (const std::int64_t first : firsts) {
      for (std::int64_t rank = begin + first; rank < begin + first + replica; rank += alike) made.push_back(rank);
    }
  }
  return made;
}

}  // namespace orrery::workloads
