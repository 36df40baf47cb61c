// Sums of kept tensors. See kept.h. Left out: kernels' own workspaces, tensors alive for one kernel.
#include "workloads/model/kept.h"

#include <algorithm>
#include <vector>

namespace orrery::workloads {

PassBytes bytes_of(const Layer& layer) {
  PassBytes bytes;
  double all = 0, input = 0;
  std::int32_t halves = 0;
  for (const Kept& kept : layer.kept) {
    all += kept.bytes();
    if (kept.as == KeptAs::input) input += kept.bytes();
    if (kept.as != KeptAs::recomputed) bytes.kept += kept.bytes();
    halves = std::max(halves, kept.half + 1);
  }
  if (layer.recomputed) bytes.kept = input;
  // From the last half to the first; what later halves kept has been freed by then.
  double freed = 0;
  for (std::int32_t half = halves; half-- > 0;) {
    double working = layer.recomputed ? all - input : 0, kept_here = 0;
    for (const Working& needed : layer.working) working += needed.half == half ? needed.bytes() : 0;
    for (const Kept& kept : layer.kept) {
      if (kept.half != half) continue;
      const bool again = kept.as == KeptAs::recomputed;
      if (again && !layer.recomputed) working += kept.bytes();
      if (!again || layer.recomputed) kept_here += kept.bytes();
    }
    bytes.working = std::max(bytes.working, working - freed);
    freed += kept_here;
  }
  for (const Between& between : layer.between) bytes.between += between.bytes();
  return bytes;
}

PassBytes bytes_of(const Network& network, const LayerRange& range) {
  std::vector<PassBytes> kinds;
  for (const Layer& layer : network.kinds) kinds.push_back(bytes_of(layer));
  PassBytes pass;
  for (std::int64_t i = range.end; i-- > range.begin;) {
    const PassBytes& layer = kinds[network.layers[static_cast<std::size_t>(i)]];
    pass.working = std::max(pass.working, layer.working - pass.kept);
    pass.kept += layer.kept;
    pass.between += layer.between;
  }
  return pass;
}

}  // namespace orrery::workloads
