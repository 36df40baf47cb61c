// A node whose GPUs (or dies) are joined by direct links. A pair without one goes over other dies: fewest links first,
// then the widest bottleneck, then the lowest numbers; there and back take the same way. Sources for the shipped nodes:
// OLCF Frontier user guide and C. Pearson, "Interconnect Bandwidth Heterogeneity on AMD MI250x and Infinity Fabric"
// (2023) for the MI250X; AMD Instinct MI300X platform data sheet for the 8-way mesh. Left out: spreading one transfer
// over several ways.
#include <algorithm>

#include "topology/mesh_rings.h"
#include "topology/wiring.h"

namespace orrery::topology {

namespace {

struct Step {
  std::int32_t hops = -1;
  double width = 0;  // narrowest link so far
  std::int32_t previous = -1;
  std::uint32_t link = 0;  // directed, from `previous`
};

/// The best way from `source` to every group. Breadth first; a group's row is final when its ring of equal hops is
/// done.
std::vector<Step> best_ways(const NodeWiring& wiring, std::int32_t source) {
  std::vector<Step> best(wiring.groups.size());
  best[static_cast<std::size_t>(source)] = {0, 1e300, -1, 0};
  std::vector<std::int32_t> ring{source};
  while (!ring.empty()) {
    std::vector<std::int32_t> next;
    std::sort(ring.begin(), ring.end());
    for (const std::int32_t u : ring) {
      const Step from = best[static_cast<std::size_t>(u)];
      for (std::uint32_t b = 0; b < wiring.bundles.size(); ++b) {
        const Bundle& bundle = wiring.bundles[b];
        const auto low = static_cast<std::int32_t>(bundle.low), high = static_cast<std::int32_t>(bundle.high);
        if (low != u && high != u) continue;
        const std::int32_t v = low == u ? high : low;
        Step& to = best[static_cast<std::size_t>(v)];
        const double width = std::min(from.width, bundle.lane_rate.value());
        if (to.hops < 0) next.push_back(v);
        if (to.hops < 0 || (to.hops == from.hops + 1 && width > to.width)) {
          to = {from.hops + 1, width, u, 2 * b + (low == u ? 0U : 1U)};
        }
      }
    }
    ring = std::move(next);
  }
  return best;
}

}  // namespace

std::vector<std::vector<std::uint32_t>> best_routes(const NodeWiring& wiring) {
  const std::size_t n = wiring.groups.size();
  std::vector<std::vector<std::uint32_t>> routes(n * n);
  for (std::size_t a = 0; a < n; ++a) {
    const std::vector<Step> best = best_ways(wiring, static_cast<std::int32_t>(a));
    for (std::size_t b = a + 1; b < n; ++b) {
      if (best[b].hops < 0) continue;
      std::vector<std::uint32_t>& there = routes[a * n + b];
      for (std::size_t at = b; at != a; at = static_cast<std::size_t>(best[at].previous)) {
        there.push_back(best[at].link);
      }
      std::reverse(there.begin(), there.end());
      std::vector<std::uint32_t>& back = routes[b * n + a];
      for (auto link = there.rbegin(); link != there.rend(); ++link) back.push_back(*link ^ 1U);
    }
  }
  return routes;
}

namespace {

/// Islands of GPUs that links join are joined by the host: a GPU's PCIe link to its island's switch, and one way from
/// there to the host, which all GPUs of the island share. A ring that leaves an island goes at that pace (NCCL moves
/// what has no peer-to-peer way through the host's memory).
void join_islands(NodeWiring& wiring, const NodeSpec& spec) {
  const auto gpus = static_cast<std::size_t>(wiring.gpus);
  std::vector<std::size_t> island(gpus);
  for (std::size_t g = 0; g < gpus; ++g) island[g] = g;
  for (const Bundle& bundle : std::vector<Bundle>(wiring.bundles)) {
    const std::size_t a = island[bundle.low], b = island[bundle.high];
    std::replace(island.begin(), island.end(), std::max(a, b), std::min(a, b));
  }
  if (std::all_of(island.begin(), island.end(), [](std::size_t each) { return each == 0; })) return;
  const auto host = static_cast<std::uint32_t>(wiring.groups.size());
  wiring.groups.push_back({VertexKind::host_bridge, 1});
  for (std::size_t i = 0; i < gpus; ++i) {
    if (island[i] != i) continue;  // an island is called by its first GPU
    const auto above = static_cast<std::uint32_t>(wiring.groups.size());
    wiring.groups.push_back({VertexKind::pcie_switch, 1});
    wiring.bundles.push_back({above, host, 1, spec.host_rate, Tier::node});
    for (std::size_t g = 0; g < gpus; ++g) {
      if (island[g] == i) wiring.bundles.push_back({static_cast<std::uint32_t>(g), above, 1, spec.pcie, Tier::node});
    }
  }
}

}  // namespace

NodeWiring mesh_node(const NodeSpec& spec, std::int64_t gpus, std::int64_t nics) {
  NodeWiring wiring;
  wiring.gpus = static_cast<std::int32_t>(gpus);
  wiring.groups.assign(static_cast<std::size_t>(gpus), {VertexKind::gpu, 1});
  for (const NodeSpec::MeshLink& link : spec.mesh) {
    if (link.a >= gpus || link.b >= gpus) continue;  // a dark part of the node
    wiring.bundles.push_back({static_cast<std::uint32_t>(std::min(link.a, link.b)),
                              static_cast<std::uint32_t>(std::max(link.a, link.b)), 1, link.rate, Tier::node});
  }
  if (spec.host_rate.value() > 0) join_islands(wiring, spec);
  const std::vector<std::vector<std::uint32_t>> all = best_routes(wiring);
  const std::size_t count = wiring.groups.size(), n = static_cast<std::size_t>(gpus);
  for (std::size_t a = 0; a < n; ++a) {
    for (std::size_t b = 0; b < n; ++b) wiring.routes.push_back(all[a * count + b]);
  }
  for (std::size_t g = 1; g < static_cast<std::size_t>(gpus); ++g) {
    SIM_CHECK(!wiring.routes[g].empty(), "no way from GPU 0 to GPU {} inside the node", g);
  }
  wiring.rings = std::make_shared<const MeshRings>();
  attach_nics(wiring, spec, nics);
  return wiring;
}

}  // namespace orrery::topology
