// All algorithms between nodes, and NCCL's choice among them: latency + size / bandwidth of each algorithm and protocol
// by its own tuning model (NVIDIA/nccl, src/graph/tuning.cc), the minimum wins. That model is not the truth, and
// neither is the choice always the best; both are what runs.
//
// Where a tree with NVLS is to be had, trees under LL128 and Simple are left out. By its tuning model NCCL would take
// them between 1 and 256 MB, but neither of the two published series of H100 clusters shows them: NVIDIA's (GTC 2025
// S72583, 32 to 8192 GPUs) and that of arXiv 2411.13055 (4 to 512 nodes) both have the latency of NVLS and trees from 1
// MB up.
#include <algorithm>
#include <limits>

#include "sim/error.h"
#include "workloads/collectives/algorithm.h"

namespace orrery::workloads {

namespace {

bool is_all_reduce(const Call& call) { return call.all_reduces(); }
bool is_broadcast(const Call& call) { return call.op == CollectiveOp::broadcast; }
bool is_exchange(const Call& call) { return call.op == CollectiveOp::all_to_all; }
bool is_gather(const Call& call) { return call.op == CollectiveOp::all_gather; }
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
  static const std::array<Algorithm, 14> table{{
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
  }};
  return table;
}

std::vector<const Algorithm*> algorithms_with_routes() {
  std::vector<const Algorithm*> out;
  for (const Algorithm& a : algorithms()) {
    if (a.route != nullptr) out.push_back(&a);
  }
  return out;
}

calibration::CollectiveAlgorithms with_own_routes(const calibration::CollectiveAlgorithms& algorithms) {
  calibration::CollectiveAlgorithms own;
  for (const Algorithm* a : algorithms_with_routes()) {
    if (algorithms.has(a->family)) own.add(a->family);
  }
  return own;
}

Pattern pattern_of(const Algorithm& algorithm, const Estimate& estimate) {
  if (algorithm.route == nullptr) return estimate.pattern;
  const auto own = algorithms_with_routes();
  const auto at = std::find(own.begin(), own.end(), &algorithm) - own.begin();
  return static_cast<Pattern>(static_cast<std::uint32_t>(Pattern::own) + static_cast<std::uint32_t>(at));
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
