// The catalogue of algorithms between nodes. A new one is a file with its costs, their declaration and a row here, its
// name in calibration/framework/collective_algorithms.h, and its test.
#pragma once

#include <array>
#include <span>

#include "workloads/collectives/algorithm.h"

namespace orrery::workloads {

// The costs, closed form above each; the files say where they come from.
Estimate ring(const Call& call, const Protocol& protocol);
double believed_ring(const Call& call, const Protocol& protocol);
Estimate broadcast(const Call& call, const Protocol& protocol);
Estimate double_binary_tree(const Call& call, const Protocol& protocol);
double believed_tree(const Call& call, const Protocol& protocol);
Estimate nvls_tree(const Call& call, const Protocol& protocol);
double believed_nvls_tree(const Call& call, const Protocol& protocol);
Estimate sharp(const Call& call, const Protocol& protocol);
Estimate hierarchical_ring(const Call& call, const Protocol& protocol);
Estimate hierarchical_tree(const Call& call, const Protocol& protocol);
Estimate pairwise_exchange(const Call& call, const Protocol& protocol);
Estimate hierarchical_exchange(const Call& call, const Protocol& protocol);
Estimate bruck(const Call& call, const Protocol& protocol);
OwnRoute bruck_route(std::span<const std::int64_t> gpus, const topology::Cluster& cluster);
Estimate pat(const Call& call, const Protocol& protocol);
double believed_pat(const Call& call, const Protocol& protocol);
OwnRoute pat_route(std::span<const std::int64_t> gpus, const topology::Cluster& cluster);

/// All of them, in the order in which lists show them.
inline std::span<const Algorithm> algorithms() {
  using enum CollectiveAlgorithm;
  const auto& [ll, ll128, simple] = protocols();
  static const auto table = std::to_array<Algorithm>({
      {ring, "ring LL", "all ranks in a ring, 4 bytes of flag with 4 of data: small calls", ll, is_ring,
       workloads::ring, believed_ring},
      {ring, "ring LL128", "all ranks in a ring, 8 bytes of flag with 120 of data", ll128, is_ring, workloads::ring,
       believed_ring},
      {ring, "ring Simple", "all ranks in a ring, data alone: large calls", simple, is_ring, workloads::ring,
       believed_ring},
      {ring, "chain", "a broadcast passed on from rank to rank", simple, is_broadcast, broadcast, nullptr},
      {tree, "tree LL", "all-reduce up and down two binary trees over the nodes, as ring LL", ll, is_all_reduce,
       double_binary_tree, believed_tree},
      {tree, "tree LL128", "all-reduce up and down two binary trees over the nodes, as ring LL128", ll128,
       is_all_reduce, double_binary_tree, believed_tree},
      {tree, "tree Simple", "all-reduce up and down two binary trees over the nodes, as ring Simple", simple,
       is_all_reduce, double_binary_tree, believed_tree},
      {nvls_tree, "nvls_tree", "all-reduce added up in the NVSwitches of each node (NVLS), trees between nodes", simple,
       is_in_switch, workloads::nvls_tree, believed_nvls_tree},
      {sharp, "sharp", "all-reduce added up in the switches of the network (SHARP)", simple, is_all_reduce,
       workloads::sharp, nullptr},
      {hierarchical_ring, "hierarchical_ring", "within the nodes first, then a ring over the nodes", simple, is_ring,
       workloads::hierarchical_ring, nullptr},
      {hierarchical_tree, "hierarchical_tree", "within the nodes first, then trees over the nodes", simple,
       is_all_reduce, workloads::hierarchical_tree, nullptr},
      {pairwise, "pairwise", "an all-to-all, every rank to every other directly", simple, is_exchange,
       pairwise_exchange, nullptr},
      {hierarchical_exchange, "hierarchical_exchange",
       "an all-to-all by NVLink to the place of the receiver first, one message to a node", simple, is_exchange,
       workloads::hierarchical_exchange, nullptr},
      {bruck, "bruck", "an all-gather in few rounds, to ranks at twice the distance each", simple, is_gather,
       workloads::bruck, nullptr, bruck_route},
      {pat, "pat", "all-gather or reduce-scatter of one GPU per node in few rounds, the farthest ranks first", simple,
       [](const Call& call) { return is_ring(call) && !call.all_reduces() && call.shape.per_node == 1; },
       workloads::pat, believed_pat, pat_route},
  });
  return table;
}

}  // namespace orrery::workloads
