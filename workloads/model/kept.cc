// Sums of kept tensors. See kept.h. Left out: kernels' own workspaces, tensors alive for one kernel.
#include "workloads/model/kept.h"

#include <algorithm>
#include <vector>

namespace orrery::workloads {

PassBytes bytes_of(const Layer& layer, double units) {
  PassBytes bytes;
  double all = 0, input = 0;
  std::int32_t halves = 1;
  for (const Working& needed : layer.working) halves = std::max(halves, needed.half + 1);
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
    const double beside = half == 0 || layer.kind != LayerKind::head ? units : 0;
    working += beside;
    for (const Working& needed : layer.working) working += needed.half == half ? needed.bytes() : 0;
    for (const Kept& kept : layer.kept) {
      if (kept.half != half) continue;
      const bool again = kept.as == KeptAs::recomputed;
      if (again && !layer.recomputed) working += kept.bytes();
      if (!again || layer.recomputed) kept_here += kept.bytes();
    }
    if (working - freed > bytes.working) {
      bytes.working = working - freed;
      bytes.units = beside;
    }
    freed += kept_here;
  }
  for (const Between& between : layer.between) bytes.between += between.bytes();
  return bytes;
}

namespace {
double weight_gradients(const Layer& layer) {
  double bytes = 0;
  for (const Working& needed : layer.working) bytes += needed.for_weights ? needed.bytes() : 0;
  return bytes;
}
}  // namespace

PassBytes bytes_of(const Network& network, const LayerRange& range, const UnitBytes& units) {
  std::vector<PassBytes> kinds;
  for (const Layer& layer : network.kinds) {
    const double of_head = units.blocks - units.made - units.reducing + units.ends;
    kinds.push_back(bytes_of(layer, layer.kind == LayerKind::head ? of_head : units.blocks));
  }
  PassBytes pass;
  double ends = 0;             // of the unit of embedding and head, behind the head
  double not_yet_reduced = 0;  // of units: behind the head alone
  for (std::int64_t i = range.end; i-- > range.begin;) {
    const Layer& layer = network.layer(i);
    const bool head = layer.kind == LayerKind::head;
    const PassBytes& bytes = kinds[network.layers[static_cast<std::size_t>(i)]];
    const double beside = ends - not_yet_reduced;
    if (bytes.working + beside - pass.kept > pass.working) {
      pass.working = bytes.working + beside - pass.kept;
      pass.units = bytes.units + beside;
    }
    not_yet_reduced = head ? units.reducing : 0;
    pass.kept += bytes.kept;
    pass.between += bytes.between;
    if (head && ends == 0) ends += units.ends;
    if (layer.kind != LayerKind::block && units.ends_whole) ends += weight_gradients(layer);
  }
  return pass;
}

}  // namespace orrery::workloads
