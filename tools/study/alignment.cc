// A node stands for the ranks of its first GPU: tensor groups fill nodes, or divide them, wherever placement matters.
#include "tools/study/alignment.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <set>

#include "workloads/groups/placement.h"

namespace orrery::tools {

using workloads::Dim;

namespace {

/// Of each of the job's own nodes, the places of its first GPU's rank in every dimension.
std::vector<std::array<std::int64_t, workloads::kDims.size()>> coordinates(const workloads::GroupInputs& job,
                                                                           std::int64_t per_node) {
  const workloads::RankMap ranks(job.layout.dims, job.placement, per_node);
  std::vector<std::array<std::int64_t, workloads::kDims.size()>> nodes(
      static_cast<std::size_t>(ranks.ranks() / per_node));
  for (std::int64_t rank = 0; rank < ranks.ranks(); ++rank) {
    const std::int64_t gpu = ranks.gpu_of(rank);
    if (gpu % per_node != 0) continue;
    for (const Dim dim : workloads::kDims)
      nodes[static_cast<std::size_t>(gpu / per_node)][static_cast<std::size_t>(dim)] = ranks.dims().place(rank, dim);
  }
  return nodes;
}

/// What members of a group of `dim` have in common.
std::array<std::int64_t, workloads::kDims.size()> without(std::array<std::int64_t, workloads::kDims.size()> place,
                                                          Dim dim) {
  place[static_cast<std::size_t>(dim)] = 0;
  return place;
}

}  // namespace

std::vector<std::int64_t> aligned(const workloads::GroupInputs& job, std::int64_t per_node,
                                  const std::vector<std::int64_t>& places, Dim dim) {
  const auto own = coordinates(job, per_node);
  std::vector<std::size_t> order(own.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const auto group_a = without(own[a], dim), group_b = without(own[b], dim);
    if (group_a != group_b) return group_a < group_b;
    return own[a] < own[b];
  });
  std::vector<std::int64_t> nodes(own.size());
  for (std::size_t i = 0; i < order.size(); ++i) nodes[order[i]] = places[i];
  return nodes;
}

std::int64_t widest_group(const workloads::GroupInputs& job, std::int64_t per_node,
                          const std::vector<std::int64_t>& nodes, const std::vector<std::int32_t>& part_of, Dim dim) {
  const auto own = coordinates(job, per_node);
  std::map<std::array<std::int64_t, workloads::kDims.size()>, std::set<std::int32_t>> parts;
  for (std::size_t i = 0; i < own.size(); ++i)
    parts[without(own[i], dim)].insert(part_of[static_cast<std::size_t>(nodes[i])]);
  std::size_t most = 0;
  for (const auto& [group, touched] : parts) most = std::max(most, touched.size());
  return static_cast<std::int64_t>(most);
}

}  // namespace orrery::tools
