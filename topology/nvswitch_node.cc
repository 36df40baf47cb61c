// A node whose GPUs reach each other through NVSwitch chips: every GPU has the same number of NVLinks to every chip, as
// nearly as they divide (DGX A100: 12 links over 6 chips, 2 each; DGX H100: 18 over 4 chips, 5 4 4 5; sources: NVIDIA
// DGX A100 System Architecture white paper, 2020; NVIDIA H100 Tensor Core GPU Architecture white paper, 2022). The
// chips never bind: each is non-blocking, and traffic is spread over all links. Left out: in-switch reduction (NVLink
// SHARP) and the copy engines.
#include "topology/wiring.h"

namespace orrery::topology {

NodeWiring nvswitch_node(const NodeSpec& spec, std::int64_t gpus, std::int64_t nics) {
  NodeWiring wiring;
  wiring.gpus = static_cast<std::int32_t>(gpus);
  wiring.groups.assign(static_cast<std::size_t>(gpus), {VertexKind::gpu, 1});
  wiring.groups.push_back({VertexKind::nvswitch, static_cast<std::int32_t>(spec.switches)});
  wiring.switched = true;
  const auto chips = static_cast<std::uint32_t>(gpus);
  // The outer chips take the links left over: 5 4 4 5.
  const std::int64_t left_over = spec.links % spec.switches;
  const std::int64_t first_extra = (spec.switches - left_over / 2) % spec.switches;
  for (std::uint32_t g = 0; g < chips; ++g) {
    wiring.bundles.push_back({g, chips, static_cast<std::int32_t>(spec.links),
                              Bandwidth(spec.rate.value() / static_cast<double>(spec.links)), Tier::node, 1,
                              static_cast<std::int32_t>(first_extra)});
  }
  attach_nics(wiring, spec, nics);
  return wiring;
}

}  // namespace orrery::topology
