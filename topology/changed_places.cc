// Another symmetry of most machines: whole nodes can change places. What a job's routes load outside of nodes can be
// left out where it is never_binding; then a route is links of its ends' nodes, which are alike, and a latency, which
// depends on the switches that the ends have in common. Left out: fabrics whose links between switches can be full,
// machines that are no tree or have faults, and nodes of several kinds.
#include <algorithm>

#include "topology/state.h"

namespace orrery::topology {

namespace {

/// Every group is so many levels above its leaves, whatever the leaf, and groups of a level are crossed alike.
bool levels_are_alike(const FabricWiring& outside) {
  constexpr std::size_t kNone = 0;
  std::vector<std::size_t> level(outside.groups.size(), kNone);  // counted from 1
  for (const std::uint32_t leaf : outside.leaf_of_nic) level[leaf] = 1;
  std::vector<std::uint32_t> first;                   // of each level
  for (std::uint32_t g = 0; g < level.size(); ++g) {  // children stand before parents
    if (level[g] == kNone) continue;
    const FabricWiring::Group& group = outside.groups[g];
    if (level[g] > first.size()) first.push_back(g);
    if (level[g] > first.size()) return false;
    const FabricWiring::Group& other = outside.groups[first[level[g] - 1]];
    const bool top = group.parent == kNoGroup;
    if (group.apex_switches != other.apex_switches || group.transit_switches != other.transit_switches) return false;
    if (top != (other.parent == kNoGroup)) return false;
    if (top) continue;
    if (outside.bundles[group.up].tier != outside.bundles[other.up].tier) return false;
    std::size_t& above = level[group.parent];
    if (above != kNone && above != level[g] + 1) return false;
    above = level[g] + 1;
  }
  return true;
}

}  // namespace

bool Cluster::nodes_change_places() const {
  const State& s = *state_;
  if (s.inside.nics == 0 || !s.outside.tree || s.single_path() || !s.connected.one_piece) return false;
  if (!s.faults.list.empty() || !s.others.empty()) return false;
  const std::vector<LinkInfo>& between = s.links.between();
  const bool never_full = std::all_of(between.begin(), between.end(), [](const LinkInfo& link) {
    return link.never_binding && link.tier != Tier::leaf;
  });
  return never_full && levels_are_alike(s.outside);
}

std::uint32_t Cluster::leaf_of(std::int64_t gpu) const {
  const std::int64_t node = node_of(gpu);
  return state_->leaf_of(node, state_->nic_of(node, gpu - node * state_->gpus_per_node));
}

std::uint32_t Cluster::above(std::uint32_t switches) const {
  const std::uint32_t parent = state_->outside.groups[switches].parent;
  return parent == kNoGroup ? switches : parent;
}

std::uint32_t Cluster::links_of_node() const { return state_->node_links; }

std::int64_t Cluster::node_of_link(LinkId link) const {
  return std::min(static_cast<std::int64_t>(sim::index(link) / state_->node_links), state_->nodes);
}

}  // namespace orrery::topology
