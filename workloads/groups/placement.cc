// Placements: mixed-radix order of the dimensions, a seeded permutation, or an explicit list.
#include "workloads/groups/placement.h"

#include <algorithm>
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

RankMap::RankMap(const Dims& dims, const Placement& placement, std::int64_t gpus_per_node) : dims_(dims) {
  const std::int64_t n = ranks();
  const bool by_number = placement.kind == Placement::Kind::order && placement.by != Placement::By::rail &&
                         placement.node_order.empty() &&
                         std::equal(placement.order.begin(), placement.order.end(), kDims.begin(), kDims.end());
  if (by_number) return;
  gpu_.resize(static_cast<std::size_t>(n));
  std::iota(gpu_.begin(), gpu_.end(), 0);
  if (placement.kind == Placement::Kind::list) {
    SIM_CHECK(placement.gpus.size() == gpu_.size(), "{} GPUs placed for {} ranks", placement.gpus.size(), n);
    gpu_ = placement.gpus;
  } else if (placement.kind == Placement::Kind::random) {
    std::uint64_t state = placement.seed;
    for (std::size_t i = gpu_.size(); i > 1; --i) std::swap(gpu_[i - 1], gpu_[next_random(state) % i]);
  } else {
    for (std::int64_t rank = 0; rank < n; ++rank) {
      std::int64_t gpu = 0, stride = 1;
      for (const Dim dim : placement.order) {
        gpu += dims_.place(rank, dim) * stride;
        stride *= dims_.size(dim);
      }
      gpu_[static_cast<std::size_t>(rank)] = gpu;
    }
    arrange(placement, gpus_per_node);
  }
}

void RankMap::arrange(const Placement& placement, std::int64_t gpus_per_node) {
  const std::int64_t nodes = ranks() / gpus_per_node;
  if (placement.by == Placement::By::rail) {
    const std::int64_t fastest = dims_.size(placement.order.front());
    const std::int64_t block = std::gcd(fastest, gpus_per_node);  // what stays together in a node
    for (std::int64_t& gpu : gpu_) {
      const std::int64_t number = gpu / block, node = number % nodes, place = number / nodes;
      gpu = node * gpus_per_node + place * block + gpu % block;
    }
  }
  if (placement.by != Placement::By::rail && !placement.node_order.empty()) {
    SIM_CHECK(static_cast<std::int64_t>(placement.node_order.size()) == nodes, "{} nodes in order, of {}",
              placement.node_order.size(), nodes);
    for (std::int64_t& gpu : gpu_) {
      gpu = placement.node_order[static_cast<std::size_t>(gpu / gpus_per_node)] * gpus_per_node + gpu % gpus_per_node;
    }
  }
}

std::vector<std::int64_t> RankMap::gpus_of(std::span<const std::int64_t> ranks) const {
  std::vector<std::int64_t> gpus;
  gpus.reserve(ranks.size());
  for (const std::int64_t rank : ranks) gpus.push_back(gpu_of(rank));
  return gpus;
}

}  // namespace orrery::workloads
