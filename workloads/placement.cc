// Placements: mixed-radix order of the dimensions, a seeded permutation, or an explicit list.
#include "workloads/placement.h"

#include <numeric>
#include <utility>

#include "sim/error.h"

namespace orrery::workloads {

namespace {
/// SplitMix64 (Steele et al., OOPSLA 2014): the same permutation on every platform, which std::shuffle does not
/// promise.
std::uint64_t next_random(std::uint64_t& state) {
  std::uint64_t z = (state += 0x9e3779b97f4a7c15ULL);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}
}  // namespace

RankMap::RankMap(const Job& job)
    : tensor_(job.parallelism.tensor),
      context_(job.parallelism.context),
      data_(job.parallelism.data),
      pipeline_(job.parallelism.pipeline),
      mirrored_(job.parallelism.schedule->copies() > 1) {
  const std::int64_t n = ranks();
  gpu_.resize(static_cast<std::size_t>(n));
  std::iota(gpu_.begin(), gpu_.end(), 0);
  const Placement& placement = job.placement;
  if (placement.kind == Placement::Kind::list) {
    SIM_CHECK(placement.gpus.size() == gpu_.size(), "{} GPUs placed for {} ranks", placement.gpus.size(), n);
    gpu_ = placement.gpus;
  } else if (placement.kind == Placement::Kind::random) {
    std::uint64_t state = placement.seed;
    for (std::size_t i = gpu_.size(); i > 1; --i) std::swap(gpu_[i - 1], gpu_[next_random(state) % i]);
  } else {
    for (std::int64_t rank = 0; rank < n; ++rank) {
      const Coordinates at = coordinates_of(rank);
      std::int64_t gpu = 0, stride = 1;
      for (const std::string& dimension : placement.order) {
        const auto [coordinate, size] = dimension == "tensor"    ? std::pair{at.tensor, tensor_}
                                        : dimension == "context" ? std::pair{at.context, context_}
                                        : dimension == "data"    ? std::pair{at.data, data_}
                                                                 : std::pair{at.pipeline, pipeline_};
        gpu += coordinate * stride;
        stride *= size;
      }
      gpu_[static_cast<std::size_t>(rank)] = gpu;
    }
    arrange(job);
  }
}

void RankMap::arrange(const Job& job) {
  const Placement& placement = job.placement;
  const std::int64_t per_node = job.gpus_per_node, nodes = ranks() / per_node;
  if (placement.by == Placement::By::rail) {
    const std::string& fastest = placement.order.front();
    const std::int64_t size = fastest == "tensor"    ? tensor_
                              : fastest == "context" ? context_
                              : fastest == "data"    ? data_
                                                     : pipeline_;
    const std::int64_t block = std::gcd(size, per_node);  // what stays together in a node
    for (std::int64_t& gpu : gpu_) {
      const std::int64_t number = gpu / block, node = number % nodes, place = number / nodes;
      gpu = node * per_node + place * block + gpu % block;
    }
  }
  if (placement.by == Placement::By::pod) {
    SIM_CHECK(static_cast<std::int64_t>(placement.node_order.size()) == nodes, "{} nodes in order, of {}",
              placement.node_order.size(), nodes);
    for (std::int64_t& gpu : gpu_) {
      gpu = placement.node_order[static_cast<std::size_t>(gpu / per_node)] * per_node + gpu % per_node;
    }
  }
}

Coordinates RankMap::coordinates_of(std::int64_t rank) const {
  Coordinates at;
  at.tensor = rank % tensor_;
  rank /= tensor_;
  at.context = rank % context_;
  rank /= context_;
  at.data = rank % data_;
  rank /= data_;
  at.pipeline = rank;
  return at;
}

std::vector<std::int64_t> RankMap::tensor_group(const Coordinates& member) const {
  std::vector<std::int64_t> gpus;
  Coordinates at = member;
  for (at.tensor = 0; at.tensor < tensor_; ++at.tensor) gpus.push_back(gpu_of(rank_of(at)));
  return gpus;
}

std::vector<std::int64_t> RankMap::replicas(const Coordinates& member) const {
  std::vector<std::int64_t> ranks;
  ranks.reserve(static_cast<std::size_t>(data_ * context_) * (mirrored_ ? 2 : 1));
  Coordinates at = member;
  for (int copy = 0; copy < (mirrored_ ? 2 : 1); ++copy, at.pipeline = pipeline_ - 1 - at.pipeline) {
    for (at.data = 0; at.data < data_; ++at.data) {
      for (at.context = 0; at.context < context_; ++at.context) ranks.push_back(rank_of(at));
    }
  }
  return ranks;
}

std::vector<std::int64_t> RankMap::context_group(const Coordinates& member) const {
  std::vector<std::int64_t> gpus;
  Coordinates at = member;
  for (at.context = 0; at.context < context_; ++at.context) gpus.push_back(gpu_of(rank_of(at)));
  return gpus;
}

}  // namespace orrery::workloads
