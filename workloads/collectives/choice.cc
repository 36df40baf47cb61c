// All algorithms between nodes, and NCCL's choice among them: latency + size / bandwidth of each algorithm and protocol
// by its own tuning model (NVIDIA/nccl, src/graph/tuning.cc), the minimum wins. That model is not the truth, and
// neither is the choice always the best; both are what runs.
//
// Where a tree with NVLS is to be had, trees under LL128 and Simple are left out. By its tuning model NCCL would take
// them between 1 and 256 MB, but neither of the two published series of H100 clusters shows them: NVIDIA's (GTC 2025
// S72583, 32 to 8192 GPUs) and that of arXiv 2411.13055 (4 to 512 nodes) both have the latency of NVLS and trees from 1
// MB up.
#include <limits>

#include "sim/error.h"
#include "workloads/collectives/algorithm.h"

namespace orrery::workloads {

namespace {

bool is_all_reduce(const Call& call) { return call.all_reduces(); }
bool is_broadcast(const Call& call) { return call.op == CollectiveOp::broadcast; }
bool is_exchange(const Call& call) { return call.op == CollectiveOp::all_to_all; }
bool is_ring(const Call& call) { return call.rings() && !is_broadcast(call); }
/// As many ranks in every node: NVLS pairs the GPUs at the same place.
bool is_in_switch(const Call& call) {
  return call.all_reduces() && call.shape.ranks == call.shape.nodes * call.shape.per_node &&
         call.device.reduces_in_switch(call.shape.per_node);
}

}  // namespace

std::span<const Algorithm> algorithms() {
  using enum CollectiveAlgorithm;
  const auto& [ll, ll128, simple] = protocols();
  static const std::array<Algorithm, 13> table{{
      {ring, "ring LL", ll, is_ring, workloads::ring, believed_ring},
      {ring, "ring LL128", ll128, is_ring, workloads::ring, believed_ring},
      {ring, "ring Simple", simple, is_ring, workloads::ring, believed_ring},
      {ring, "chain", simple, is_broadcast, broadcast, nullptr},
      {tree, "tree LL", ll, is_all_reduce, double_binary_tree, believed_tree},
      {tree, "tree LL128", ll128, is_all_reduce, double_binary_tree, believed_tree},
      {tree, "tree Simple", simple, is_all_reduce, double_binary_tree, believed_tree},
      {nvls_tree, "nvls_tree", simple, is_in_switch, workloads::nvls_tree, believed_nvls_tree},
      {sharp, "sharp", simple, is_all_reduce, workloads::sharp, nullptr},
      {hierarchical_ring, "hierarchical_ring", simple, is_ring, workloads::hierarchical_ring, nullptr},
      {hierarchical_tree, "hierarchical_tree", simple, is_all_reduce, workloads::hierarchical_tree, nullptr},
      {pairwise, "pairwise", simple, is_exchange, pairwise_exchange, nullptr},
      {hierarchical_exchange, "hierarchical_exchange", simple, is_exchange, workloads::hierarchical_exchange, nullptr},
  }};
  return table;
}

const Algorithm& choose(const Call& call, std::string_view wanted) {
  const bool any = wanted == kAuto;
  const auto& allowed = call.software.library.collective_algorithms;
  const bool in_switch = any && allowed.has(CollectiveAlgorithm::nvls_tree) && is_in_switch(call);
  const Algorithm* best = nullptr;
  const Algorithm* fallback = nullptr;
  double least = std::numeric_limits<double>::infinity();
  for (const Algorithm& a : algorithms()) {
    if (!a.fits(call)) continue;
    if (any) {
      const bool plain = a.family == CollectiveAlgorithm::ring || a.family == CollectiveAlgorithm::pairwise;
      if (plain) fallback = &a;
      if (!allowed.has(a.family)) continue;
      if (in_switch && a.family == CollectiveAlgorithm::tree && a.protocol.kind != Protocol::Kind::ll) continue;
    } else if (wanted != a.name && wanted != name_of(a.family)) {
      continue;
    }
    const double seconds =
        a.believed != nullptr ? a.believed(call, a.protocol) : seconds_of(a.estimate(call, a.protocol), call);
    if (seconds < least) {
      least = seconds;
      best = &a;
    }
  }
  if (best == nullptr) best = fallback;
  SIM_CHECK(best != nullptr, "no algorithm '{}' for this call", wanted);
  return *best;
}

}  // namespace orrery::workloads
