// The rings of a collective over GPUs that are joined by direct links. A ring over n GPUs in a fixed order loads one
// link to the next GPU and leaves the others idle; collective libraries therefore run several rings at once, a channel
// each, in both directions, whose union uses the mesh as well as it can be used: RCCL keeps tables of them by node
// (ROCm/rccl, src/graph/rome_models.cc: 4 rings over the 8 dies of 4 MI250X, model 71; 28 over 8 MI300X, every link as
// often as every other, model 79), NCCL searches for them (NVIDIA/nccl, src/graph/search.cc).
//
// Here they are the best there are: with c(e) the rate of link e in each direction, x(C) >= 0 the rate of the ring C
// that passes every GPU once, run both ways,
//   rate at which each GPU sends = max 2 sum x(C)   so that   sum over C through e of x(C) <= c(e) for every link e,
// a linear program over all rings. The simplex method needs only the ring that gains most at the present prices of the
// links, the shortest closed tour of the GPUs, and finds that by dynamic programming over subsets (Held & Karp, J. SIAM
// 1962). RCCL's tables reach this optimum on both nodes (tests/topology/mesh_rings_test.cc).
//
// Hops follow direct links where some ring can do with these alone, else the node's routes (GPUs without a link). Left
// out: more than 12 GPUs that are not all joined alike (one ring in their order, both ways), and channels too few to
// share out a link in the best parts.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "topology/wiring.h"

namespace orrery::topology {

/// Bytes on a directed link of the node (2 * bundle, + 1 from high to low) for every byte that each GPU sends.
struct LinkShare {
  std::uint32_t link = 0;
  double weight = 0;
};

/// Once round all rings of these GPUs of a node (places in it, rising), at the shares at which the rings run best.
/// Empty for one GPU.
std::vector<LinkShare> ring_shares(const NodeWiring& wiring, std::span<const std::int32_t> gpus);

/// ring_shares() of the nodes of a cluster, all of which are wired alike: worked out once for each set of places.
class MeshRings {
 public:
  /// `wiring`: the same at every call.
  std::shared_ptr<const std::vector<LinkShare>> of(const NodeWiring& wiring, std::span<const std::int32_t> gpus) const;

 private:
  mutable std::mutex mutex_;
  mutable std::unordered_map<std::uint64_t, std::shared_ptr<const std::vector<LinkShare>>> known_;
};

}  // namespace orrery::topology
