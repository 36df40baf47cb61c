// The map of ranks. See rank_map.h. Groups of experts lie inside tensor x context x data ranks, numbered on, and count
// as a dimension here. Left out: nodes beyond the first, which repeat their pattern unless ranks were placed at random.
#include "tools/report/rank_map.h"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "topology/fabrics.h"
#include "workloads/groups/placement.h"

namespace orrery::tools {

namespace {

constexpr std::int64_t kMostNodes = 64;

/// A way to tell ranks apart.
struct Axis {
  std::string name;
  std::int64_t size = 1, stride = 0;                // ranks from one place to the next; 0: no one distance
  std::int64_t cut = 1, within = 1;                 // rank r is at place r % within / cut % size
  std::function<std::int64_t(std::int64_t)> place;  // of a rank
};

std::vector<Axis> axes_of(const workloads::Parallelism& p, const workloads::Dims& dims) {
  std::vector<Axis> axes;
  for (const workloads::Dim dim : workloads::kDims) {
    if (dims.size(dim) > 1)
      axes.push_back({std::string(workloads::name_of(dim)), dims.size(dim), dims.stride(dim), dims.stride(dim),
                      dims.stride(dim) * dims.size(dim),
                      [&dims, dim](std::int64_t rank) { return dims.place(rank, dim); }});
  }
  if (p.expert > 1) {
    const std::int64_t stage = dims.stride(workloads::Dim::pipeline), cut = p.expert_tensor, size = p.expert;
    axes.push_back({"expert", size, 0, cut, stage, [=](std::int64_t rank) { return rank % stage / cut % size; }});
  }
  return axes;
}

/// Ranks that agree with rank 0 in all but this axis; of experts, the first ranks in whose order they are numbered.
std::int64_t nodes_of_group(const Axis& axis, const std::vector<Axis>& axes, const workloads::RankMap& ranks,
                            std::int64_t gpus_per_node) {
  std::set<std::int64_t> nodes;
  std::vector<bool> seen(static_cast<std::size_t>(axis.size), false);
  for (std::int64_t rank = 0; rank < ranks.ranks(); ++rank) {
    const auto agrees = [&](const Axis& other) {
      return other.name == axis.name || axis.name == "expert" || other.name == "expert" || other.place(rank) == 0;
    };
    const auto place = static_cast<std::size_t>(axis.place(rank));
    if (seen[place] || !std::all_of(axes.begin(), axes.end(), agrees)) continue;
    seen[place] = true;
    nodes.insert(ranks.gpu_of(rank) / gpus_per_node);
  }
  return static_cast<std::int64_t>(nodes.size());
}

}  // namespace

nlohmann::ordered_json rank_map_json(const workloads::Parallelism& layout, const workloads::Placement& placement,
                                     const workloads::Machine& machine) {
  const workloads::Dims dims = layout.dims();
  const std::int64_t per_node = machine.gpus_per_node, gpus = machine.gpus;
  const workloads::RankMap ranks(dims, placement, per_node);
  const std::vector<Axis> axes = axes_of(layout, dims);
  nlohmann::ordered_json map;
  map["gpus_per_node"] = per_node;
  map["nodes"] = (gpus + per_node - 1) / per_node;
  map["dimensions"] = nlohmann::ordered_json::array();
  for (const Axis& axis : axes)
    map["dimensions"].push_back({{"name", axis.name},
                                 {"size", axis.size},
                                 {"stride", axis.stride},
                                 {"cut", axis.cut},
                                 {"within", axis.within},
                                 {"nodes", nodes_of_group(axis, axes, ranks, per_node)}});
  std::vector<std::int64_t> rank_on(static_cast<std::size_t>(gpus), -1);
  for (std::int64_t rank = 0; rank < ranks.ranks(); ++rank) {
    if (ranks.gpu_of(rank) < gpus) rank_on[static_cast<std::size_t>(ranks.gpu_of(rank))] = rank;
  }
  map["gpus"] = gpus;
  bool in_order = true;
  for (std::int64_t gpu = 0; gpu < gpus; ++gpu) in_order = in_order && rank_on[static_cast<std::size_t>(gpu)] == gpu;
  if (!in_order) map["rank_of_gpu"] = rank_on;
  map["ranks"] = nlohmann::ordered_json::array();
  for (std::int64_t gpu = 0; gpu < std::min(gpus, kMostNodes * per_node); ++gpu) {
    const std::int64_t rank = rank_on[static_cast<std::size_t>(gpu)];
    nlohmann::ordered_json row = nlohmann::ordered_json::array({rank});
    for (const Axis& axis : axes) row.push_back(rank < 0 ? -1 : axis.place(rank));
    map["ranks"].push_back(std::move(row));
  }
  return map;
}

nlohmann::ordered_json unit_map_json(const topology::Cluster& cluster) {
  nlohmann::ordered_json map;
  map["gpus"] = cluster.gpus();
  map["gpus_per_node"] = cluster.gpus_per_node();
  map["nodes"] = cluster.nodes();
  map["dimensions"] = nlohmann::ordered_json::array();
  const std::int64_t unit = cluster.fabric_spec().tree.unit_nodes;
  if (std::string_view(cluster.fabric_spec().kind->name) == "fat_tree" && unit > 0 && unit < cluster.nodes()) {
    const std::int64_t size = (cluster.nodes() + unit - 1) / unit, gpus = unit * cluster.gpus_per_node();
    map["dimensions"].push_back(
        {{"name", "unit of leaf switches"}, {"size", size}, {"cut", gpus}, {"within", gpus * size}});
  }
  map["ranks"] = nlohmann::ordered_json::array();
  return map;
}

}  // namespace orrery::tools
