// Thrown flows of a job's groups. See hashed_paths.h.
#include "workloads/step/hashed_paths.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <variant>

#include "sim/max_min.h"
#include "workloads/collectives/collective.h"
#include "workloads/job/step_plan.h"

namespace orrery::workloads {

namespace {

/// The GPUs of every group of a kind that does not lie in one node.
std::vector<std::vector<std::int64_t>> spread_groups(const JobGroup& group, const RankMap& ranks,
                                                     const topology::Cluster& cluster) {
  const Dims& dims = ranks.dims();
  std::vector<std::vector<std::int64_t>> out;
  const auto keep = [&](const std::vector<std::int64_t>& members) {
    std::vector<std::int64_t> gpus = ranks.gpus_of(members);
    const std::int64_t node = cluster.node_of(gpus.front());
    if (std::any_of(gpus.begin(), gpus.end(), [&](std::int64_t gpu) { return cluster.node_of(gpu) != node; }))
      out.push_back(std::move(gpus));
  };
  for (std::int64_t rank = 0; rank < dims.ranks(); ++rank) {
    if (const auto* kind = std::get_if<SubGroup>(&group.members)) {
      if (dims.first_of_block(rank, *kind) != rank) continue;
      for (const auto& members : dims.groups_of_block(rank, *kind)) keep(members);
    } else {
      const StagePairs& pairs = std::get<StagePairs>(group.members);
      const std::int64_t stage = dims.place(rank, Dim::pipeline);
      if (stage >= pairs.pairs) continue;
      const std::int64_t other = dims.moved(rank, Dim::pipeline, second_stage(pairs, stage, dims));
      keep(group.upwards ? std::vector{other, rank} : std::vector{rank, other});
    }
  }
  return out;
}

/// Max-min fair rates of all groups of a kind.
std::vector<double> rates_of(const std::vector<std::vector<std::int64_t>>& groups, bool messages,
                             const topology::Cluster& cluster) {
  sim::Network network;
  for (const auto& link : cluster.links()) network.add_link(link.capacity);
  for (const std::vector<std::int64_t>& gpus : groups) {
    if (messages)
      add_pair_route(network, gpus[0], gpus[1], cluster);
    else
      add_group_routes(network, gpus, shape_of(gpus, cluster), {}, cluster);
  }
  std::vector<sim::Demand> demands;
  for (std::uint32_t r = 0; r < network.routes(); ++r) demands.push_back({network.links_of(sim::RouteId{r}), 0});
  return sim::max_min_rates(demands, network.capacity);
}

double mean_of(const std::vector<double>& rates) {
  return std::accumulate(rates.begin(), rates.end(), 0.0) / static_cast<double>(rates.size());
}

}  // namespace

std::vector<HashedPaths> hashed_paths(const Site& site, const GroupInputs& inputs, std::int64_t seeds) {
  Site asked = site;
  const auto cluster_with = [&](topology::FabricSpec::Routing routing, std::optional<std::uint64_t> seed) {
    asked.fabric.routes.policy = routing;
    asked.fabric.routes.ecmp_seed = seed;
    return cluster_of(asked);
  };
  const topology::Cluster even = cluster_with(topology::FabricSpec::Routing::adaptive, std::nullopt);
  std::vector<topology::Cluster> hashed;
  for (std::int64_t seed = 1; seed <= seeds; ++seed)
    hashed.push_back(cluster_with(topology::FabricSpec::Routing::ecmp, static_cast<std::uint64_t>(seed)));
  const RankMap ranks(inputs.layout.dims, inputs.placement, site.gpus_per_node);
  std::vector<HashedPaths> out;
  for (const JobGroup& group : comm_groups(inputs.layout)) {
    if (group.carries == JobGroup::Carries::signals) continue;
    if (group.upwards) continue;  // the same pairs the other way
    const auto groups = spread_groups(group, ranks, even);
    if (groups.empty()) continue;
    const bool messages = group.carries == JobGroup::Carries::messages;
    HashedPaths row{group.group.name, static_cast<std::int64_t>(groups.size())};
    row.even = mean_of(rates_of(groups, messages, even));
    std::vector<double> all;
    for (const topology::Cluster& cluster : hashed) {
      const std::vector<double> rates = rates_of(groups, messages, cluster);
      row.slowest += *std::min_element(rates.begin(), rates.end()) / static_cast<double>(seeds);
      all.insert(all.end(), rates.begin(), rates.end());
    }
    row.mean = mean_of(all);
    const auto rank = static_cast<std::ptrdiff_t>(std::floor(0.05 * static_cast<double>(all.size())));
    std::nth_element(all.begin(), all.begin() + rank, all.end());
    row.worst_twentieth = all[static_cast<std::size_t>(rank)];
    out.push_back(row);
  }
  return out;
}

}  // namespace orrery::workloads
