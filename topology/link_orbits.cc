// A symmetry of most machines: the GPUs of a node can change places. Turning the GPUs of every block of neighbours by
// one place, and the NICs with them, maps leaves onto leaves (rails onto rails) and, level by level, groups of switches
// onto groups; where that map exists and what it joins is alike, routes turn with their ends, since a route climbs the
// tree of groups. Left out: meshes inside a node, nodes with fewer or more NICs than GPUs, and routes that a hash
// chooses.
#include <algorithm>
#include <utility>

#include "topology/state.h"

namespace orrery::topology {

namespace {

bool alike(const LinkInfo& a, const LinkInfo& b) {
  return a.capacity == b.capacity && a.tier == b.tier && a.lanes == b.lanes && a.never_binding == b.never_binding;
}

/// Every GPU has one NVLink bundle, one NIC of its own and one PCIe link to it, all GPUs the same.
bool gpus_are_alike(const Cluster::State& s) {
  const NodeWiring& in = s.inside;
  if (!in.switched) return false;
  const bool networked = in.nics > 0;
  if (networked && in.nics != in.gpus) return false;
  const auto gpus = static_cast<std::uint32_t>(in.gpus);
  if (in.bundles.size() != (networked ? 3 : 1) * static_cast<std::size_t>(in.gpus)) return false;
  const auto row = [&](std::uint32_t link) -> const LinkInfo& { return s.links[LinkId{link}]; };
  for (std::uint32_t g = 0; g < gpus; ++g) {
    std::vector<std::pair<std::uint32_t, std::uint32_t>> pairs{{2 * g, 0}};  // of the first node: this GPU's, GPU 0's
    if (networked) {
      if (in.nic_of_gpu[g] != static_cast<std::int32_t>(g) || in.gpu_of_nic[g] != static_cast<std::int32_t>(g))
        return false;
      pairs.insert(pairs.end(), {{2 * in.pcie_of_gpu[g], 2 * in.pcie_of_gpu[0]},
                                 {2 * in.pcie_of_nic[g], 2 * in.pcie_of_nic[0]},
                                 {s.nic_link(0, g), s.nic_link(0, 0)}});
    }
    for (const auto& [own, first] : pairs) {
      if (!alike(row(own), row(first)) || !alike(row(own + 1), row(first + 1))) return false;
    }
  }
  const auto distinct = [](std::vector<std::uint32_t> bundles) {
    std::sort(bundles.begin(), bundles.end());
    return std::adjacent_find(bundles.begin(), bundles.end()) == bundles.end();
  };
  return distinct(in.pcie_of_gpu) && distinct(in.pcie_of_nic);
}

/// Where the turn takes every group of switches; empty where it tears one apart. Groups without NICs keep kNoGroup.
std::vector<std::uint32_t> images_of_groups(const Cluster::State& s, std::int64_t size) {
  std::vector<std::uint32_t> image(s.outside.groups.size(), kNoGroup);
  const auto map = [&](std::uint32_t from, std::uint32_t to) {
    if (image[from] == kNoGroup) image[from] = to;
    return image[from] == to;
  };
  for (std::int64_t n = 0; n < s.nodes && s.inside.nics > 0; ++n) {
    for (std::int64_t i = 0; i < s.inside.nics; ++i) {
      const std::int64_t turned = i / size * size + (i + 1) % size;
      if (!map(s.leaf_of(n, i), s.leaf_of(n, turned))) return {};
    }
  }
  for (std::uint32_t g = 0; g < image.size(); ++g) {  // children stand before parents
    if (image[g] == kNoGroup) continue;
    const FabricWiring::Group &own = s.outside.groups[g], &other = s.outside.groups[image[g]];
    if (own.apex_switches != other.apex_switches || own.transit_switches != other.transit_switches) return {};
    if ((own.parent == kNoGroup) != (other.parent == kNoGroup)) return {};
    if (own.parent == kNoGroup) continue;
    for (const std::uint32_t way : {0u, 1u}) {
      const LinkId a{s.by_bundle.first_link[own.up] + way}, b{s.by_bundle.first_link[other.up] + way};
      if (!alike(s.links[a], s.links[b])) return {};
    }
    if (!map(own.parent, other.parent)) return {};
  }
  return image;
}

}  // namespace

LinkOrbits Cluster::link_orbits(std::int64_t size) const {
  const State& s = *state_;
  if (size < 1 || s.inside.gpus % size != 0 || s.single_path() || !s.outside.tree) return {};
  if (!s.faults.list.empty() || !gpus_are_alike(s)) return {};
  const std::vector<std::uint32_t> image = images_of_groups(s, size);
  if (image.size() != s.outside.groups.size()) return {};
  const std::size_t in_nodes = static_cast<std::size_t>(s.nodes) * s.node_links;
  std::vector<std::int32_t> orbits(s.links.size() - in_nodes, static_cast<std::int32_t>(size));
  for (std::uint32_t g = 0; g < image.size(); ++g) {
    if (s.outside.groups[g].parent == kNoGroup) continue;
    std::int32_t length = 1;
    for (std::uint32_t at = image[g]; at != g && at != kNoGroup; at = image[at]) ++length;
    const std::size_t link = s.by_bundle.first_link[s.outside.groups[g].up] - in_nodes;
    orbits[link] = orbits[link + 1] = length;
  }
  return {in_nodes, static_cast<std::int32_t>(size), std::move(orbits)};
}

}  // namespace orrery::topology
