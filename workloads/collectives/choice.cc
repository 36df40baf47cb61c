// NCCL's choice among the algorithms between nodes: latency + size / bandwidth of each algorithm and protocol by its
// own tuning model (NVIDIA/nccl, src/graph/tuning.cc), the minimum wins. That model is not the truth, and neither is
// the choice always the best; both are what runs: chosen by the simulator's own times instead, tensor groups of 16 over
// two nodes of A100 (vTrain's rows) would be a fifth too fast.
//
// A fabric with a gap between messages comes with a tuner in NCCL's plug-in for it, which knows what NCCL's model does
// not (aws-ofi-nccl, src/tuner, for EFA): the gap is added to what NCCL believes of rings.
//
// Where a tree with NVLS is to be had, trees under LL128 and Simple are left out. By its tuning model NCCL would take
// them between 1 and 256 MB, but neither of the two published series of H100 clusters shows them: NVIDIA's (GTC 2025
// S72583, 32 to 8192 GPUs) and that of arXiv 2411.13055 (4 to 512 nodes) both have the latency of NVLS and trees from 1
// MB up.
#include <algorithm>
#include <limits>

#include "sim/error.h"
#include "workloads/collectives/catalogue.h"

namespace orrery::workloads {

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
