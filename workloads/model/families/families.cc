// The catalogue of families, and what is laid over the layers of any.
#include "workloads/model/families/families.h"

#include <algorithm>

#include "workloads/model/adapters.h"
#include "workloads/model/residual_streams.h"

namespace orrery::workloads {

namespace {

/// Every kind twice, as it is and recomputed, as a whole or in parts; split_network says which blocks are of the
/// second.
Network network_in_part_again(const Model& model, const Split& split, const Computation& computation) {
  Computation kept = computation, again = computation;
  kept.recompute = Recompute::none;
  again.recomputed_layers = kept.recomputed_layers = 0;
  Network out = network(model, split, kept);
  const Network all = network(model, split, again);
  out.again = {computation.recomputed_layers, static_cast<std::uint8_t>(out.kinds.size())};
  out.kinds.insert(out.kinds.end(), all.kinds.begin(), all.kinds.end());
  return out;
}

}  // namespace

const std::vector<Family>& families() {
  static const std::vector<Family> all{
      {"recommender", [](const Model& m) { return m.recommender.any(); }, dlrm},
      {"pattern", [](const Model& m) { return m.pattern.any(); }, hybrid},
      // Layers that predict further tokens stand behind a mixture's, or behind a dense model's of the same blocks.
      {"mixture", [](const Model& m) { return m.experts.any() || m.experts.mtp_layers > 0; }, moe},
      {"gpt", [](const Model&) { return true; }, gpt}};
  return all;
}

Network network(const Model& model, const Split& split, const Computation& computation) {
  if (computation.recompute != Recompute::none && computation.recomputed_layers > 0)
    return network_in_part_again(model, split, computation);
  const auto family =
      std::find_if(families().begin(), families().end(), [&](const Family& f) { return f.holds(model); });
  Network layers = family->layers(model, split, computation);
  if (model.recommender.any()) return layers;
  if (model.residual_streams > 1) widen(layers, LayerWriter(model, split, computation));
  if (computation.adapters.any()) adapt(layers, LayerWriter(model, split, computation));
  layers.recipes = computation.style.recipes;
  return layers;
}

}  // namespace orrery::workloads
