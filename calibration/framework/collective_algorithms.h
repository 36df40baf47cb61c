// The names of collective algorithms, by which documents of software list those that a library has. What each does and
// costs: workloads/collectives/catalogue.h.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace orrery::calibration {

/// How a collective library moves the data of groups that span nodes. The first four are NCCL's for reductions.
enum class CollectiveAlgorithm : std::uint8_t {
  ring,                   // once or twice round all ranks
  tree,                   // double binary tree over nodes, chains inside them: all-reduce
  nvls_tree,              // reduced inside the node's switch, tree over nodes: all-reduce
  sharp,                  // reduced inside the network's switches: all-reduce
  hierarchical_ring,      // inside the nodes, then rings over nodes, rail by rail
  hierarchical_tree,      // inside the nodes, then trees over nodes, rail by rail: all-reduce
  pairwise,               // all-to-all: every rank to every other
  hierarchical_exchange,  // all-to-all: by NVLink to the receiver's rail first, one message per node
  bruck,                  // all-gather: in rounds, to ranks at twice the distance each
  pat,                    // all-gather, reduce-scatter: in rounds, one GPU per node, the farthest first
};
/// Their names, in the same order.
inline constexpr auto kCollectiveAlgorithms = std::to_array<std::string_view>({
    "ring",
    "tree",
    "nvls_tree",
    "sharp",
    "hierarchical_ring",
    "hierarchical_tree",
    "pairwise",
    "hierarchical_exchange",
    "bruck",
    "pat",
});
constexpr std::string_view name_of(CollectiveAlgorithm algorithm) {
  return kCollectiveAlgorithms[static_cast<std::size_t>(algorithm)];
}

/// A set of them.
struct CollectiveAlgorithms {
  std::uint32_t bits = 0;
  constexpr bool has(CollectiveAlgorithm a) const { return (bits >> static_cast<std::uint32_t>(a) & 1U) != 0; }
  constexpr void add(CollectiveAlgorithm a) { bits |= 1U << static_cast<std::uint32_t>(a); }
  bool operator==(const CollectiveAlgorithms&) const = default;
};

}  // namespace orrery::calibration
