// A cluster's checks and its small answers; which links a path loads is found in route.cc.
#include "topology/cluster.h"

#include <algorithm>
#include <utility>

#include "topology/fabrics.h"
#include "topology/mesh_rings.h"
#include "topology/state.h"

namespace orrery::topology {

Cluster::Cluster(const NodeSpec& node, const FabricSpec& fabric, std::int64_t gpus, std::int64_t gpus_per_node,
                 const Settings& where, const Faults& faults, std::vector<OtherNodes> others)
    : state_(std::make_unique<State>()) {
  if (gpus < 1) where.fail(fmt::format("{} GPUs; a cluster has at least 1", gpus));
  if (gpus_per_node < 1 || gpus_per_node > node.gpus) {
    where.fail(fmt::format("gpus_per_node is {}; a node of this device holds 1 to {}", gpus_per_node, node.gpus));
  }
  if (gpus > gpus_per_node && gpus % gpus_per_node != 0) {
    where.fail(fmt::format("{} GPUs do not fill nodes of {}; use {} or {}", gpus, gpus_per_node,
                           gpus / gpus_per_node * gpus_per_node, (gpus / gpus_per_node + 1) * gpus_per_node));
  }
  State& s = *state_;
  s.node = node;
  s.fabric = fabric;
  s.gpus = gpus;
  s.gpus_per_node = gpus_per_node;
  s.nodes = (gpus + gpus_per_node - 1) / gpus_per_node;
  s.others = std::move(others);
  s.faults = faults;
  s.wire(where);
  s.damage_wiring();
  s.compile();
  s.damage_links();
  s.check_connected(where);
}

Cluster::~Cluster() = default;
Cluster::Cluster(Cluster&&) noexcept = default;
Cluster& Cluster::operator=(Cluster&&) noexcept = default;

std::int64_t Cluster::gpus() const { return state_->gpus; }
std::int64_t Cluster::gpus_per_node() const { return state_->gpus_per_node; }
std::int64_t Cluster::nodes() const { return state_->nodes; }
std::int64_t Cluster::nics_per_node() const { return state_->inside.nics; }
const NodeSpec& Cluster::node_spec() const { return state_->node; }
const FabricSpec& Cluster::fabric_spec() const { return state_->fabric; }

Cluster::NicRate Cluster::nic_rate(std::int64_t node) const {
  return {state_->nic_rate_of(node), state_->spec_of(node).pcie};
}
const LinkTable& Cluster::links() const { return state_->links; }

std::int64_t Cluster::node_of(std::int64_t gpu) const {
  SIM_CHECK(gpu >= 0 && gpu < state_->gpus, "GPU {} of {}", gpu, state_->gpus);
  return gpu / state_->gpus_per_node;
}

std::int64_t Cluster::nic_of(std::int64_t gpu) const {
  SIM_CHECK(state_->inside.nics > 0, "a cluster without a fabric has no NICs");
  const std::int64_t node = node_of(gpu);
  return state_->nic_of(node, gpu - node * state_->gpus_per_node);
}

Path Cluster::path(std::int64_t from, std::int64_t to, std::uint64_t flow) const {
  const State& s = *state_;
  Path path;
  path.links.reserve(16);  // as many as most have
  if (node_of(from) == node_of(to)) {
    s.inside_node(from, to, path);
    return path;
  }
  const State::Relay relay = s.relay(from, to);
  s.inside_node(from, relay.gpu_from, path);
  s.between_nics(relay.gpu_from, relay.gpu_to, relay.ends, flow, path);
  s.inside_node(relay.gpu_to, to, path);
  return path;
}

Cluster::Way Cluster::way(std::int64_t from, std::int64_t to) const {
  const State& s = *state_;
  const std::int64_t n = node_of(from), m = node_of(to);
  if (n != m && s.connected.one_piece) {  // by its own NIC to the other's
    const std::int64_t a = s.nic_of(n, from - n * s.gpus_per_node), b = s.nic_of(m, to - m * s.gpus_per_node);
    Way way = s.way_of_switches(s.leaf_of(n, a), s.leaf_of(m, b));
    way.hops += s.hops_to_nic(from, a) + s.hops_to_nic(to, b);
    return way;
  }
  Path inside;
  inside.links.reserve(8);  // two nodes' ways between a GPU and another
  if (n == m) {
    s.inside_node(from, to, inside);
    return {Tier::node, inside.hops, inside.latency};
  }
  const State::Relay relay = s.relay(from, to);
  s.inside_node(from, relay.gpu_from, inside);
  s.inside_node(relay.gpu_to, to, inside);
  const State::Ends& ends = relay.ends;
  Way way = s.way_of_switches(s.leaf_of(ends.node_from, ends.nic_from), s.leaf_of(ends.node_to, ends.nic_to));
  way.hops += inside.hops + s.hops_to_nic(relay.gpu_from, ends.nic_from) + s.hops_to_nic(relay.gpu_to, ends.nic_to);
  way.latency += inside.latency;
  return way;
}

std::vector<sim::WeightedLink> Cluster::ring_links(std::span<const std::int64_t> gpus) const {
  const State& s = *state_;
  std::vector<sim::WeightedLink> links;
  if (gpus.size() < 2) return links;
  if (s.inside.rings == nullptr) {
    for (std::size_t i = 0; i < gpus.size(); ++i) {
      const Path hop = path(gpus[i], gpus[(i + 1) % gpus.size()]);
      links.insert(links.end(), hop.links.begin(), hop.links.end());
    }
    return links;
  }
  const std::int64_t first = node_of(gpus.front()) * s.gpus_per_node;
  const std::uint32_t base = static_cast<std::uint32_t>(node_of(gpus.front())) * s.node_links;
  std::vector<std::int32_t> places;
  for (const std::int64_t gpu : gpus) places.push_back(static_cast<std::int32_t>(gpu - first));
  for (const LinkShare& share : *s.inside.rings->of(s.inside, places))
    links.push_back({LinkId{base + share.link}, share.weight});
  return links;
}

std::vector<LinkId> Cluster::nic_links(std::int64_t node, std::int64_t nic) const {
  const State& s = *state_;
  if (!s.fabric.kind->networked) return {};
  SIM_CHECK(node >= 0 && node < s.nodes && nic >= 0 && nic < s.inside.nics, "NIC {} of node {}", nic, node);
  return {LinkId{s.nic_link(node, nic)}, LinkId{s.nic_link(node, nic) + 1}};
}

Path Cluster::nic_path(std::int64_t node_from, std::int64_t nic_from, std::int64_t node_to, std::int64_t nic_to,
                       std::uint64_t flow) const {
  const State& s = *state_;
  SIM_CHECK(node_from != node_to && node_from >= 0 && node_to >= 0 && node_from < s.nodes && node_to < s.nodes,
            "a path from node {} to node {} of {}", node_from, node_to, s.nodes);
  SIM_CHECK(nic_from >= 0 && nic_to >= 0 && nic_from < s.inside.nics && nic_to < s.inside.nics, "NICs {} and {} of {}",
            nic_from, nic_to, s.inside.nics);
  const auto gpu_of = [&](std::int64_t node_index, std::int64_t nic) {
    return node_index * s.gpus_per_node + s.inside.gpu_of_nic[static_cast<std::size_t>(nic)];
  };
  const std::int64_t from = gpu_of(node_from, nic_from), to = gpu_of(node_to, nic_to);
  if (s.lost(node_from, nic_from) || s.lost(node_to, nic_to) ||
      !s.reach(s.leaf_of(node_from, nic_from), s.leaf_of(node_to, nic_to))) {
    return path(from, to, flow);
  }
  Path path;
  s.between_nics(from, to, {node_from, nic_from, node_to, nic_to}, flow, path);
  return path;
}

std::vector<std::string> Cluster::cut_off() const {
  const State& s = *state_;
  std::vector<std::string> names;
  for (std::int64_t n = 0; n < s.nodes && !s.connected.nic_lost.empty(); ++n) {
    for (std::int64_t i = 0; i < s.inside.nics; ++i) {
      if (s.lost(n, i)) names.push_back(fmt::format("n{} nic{}", n, i));
    }
  }
  return names;
}

std::vector<std::vector<std::int64_t>> Cluster::pods() const {
  const State& s = *state_;
  std::vector<std::vector<std::int64_t>> pods;
  std::vector<std::size_t> pod_of(s.outside.groups.size(), 0);  // by the top group below the root; 0: none yet
  for (std::int64_t n = 0; n < s.nodes; ++n) {
    std::uint32_t top = s.inside.nics > 0 ? s.leaf_of(n, 0) : 0;
    while (s.inside.nics > 0 && s.outside.groups[top].parent != kNoGroup &&
           s.outside.groups[s.outside.groups[top].parent].parent != kNoGroup) {
      top = s.outside.groups[top].parent;
    }
    if (s.inside.nics == 0) {
      if (pods.empty()) pods.emplace_back();
      pods[0].push_back(n);
      continue;
    }
    if (pod_of[top] == 0) {
      pods.emplace_back();
      pod_of[top] = pods.size();
    }
    pods[pod_of[top] - 1].push_back(n);
  }
  return pods;
}

std::string Cluster::link_name(LinkId link) const {
  const State& s = *state_;
  const std::uint32_t id = sim::index(link);
  SIM_CHECK(id < s.links.size(), "link {} of {}", id, s.links.size());
  const bool down = id % 2 == 1;
  const auto arrow = [&](const std::string& low, const std::string& high) {
    return down ? fmt::format("{} -> {}", high, low) : fmt::format("{} -> {}", low, high);
  };
  const auto in_nodes = static_cast<std::uint32_t>(s.nodes) * s.node_links;
  if (id < in_nodes) {
    const std::uint32_t node_index = id / s.node_links, bundle = id % s.node_links / 2;
    const auto bundles = static_cast<std::uint32_t>(s.inside.bundles.size());
    if (bundle >= bundles) {
      const std::uint32_t nic = bundle - bundles;
      return arrow(fmt::format("node {} nic {}", node_index, nic), s.outside.groups[s.leaf_of(node_index, nic)].name);
    }
    const auto name = [&](std::uint32_t group) {
      const auto kind = s.inside.groups[group].kind;
      std::uint32_t first = group;
      while (first > 0 && s.inside.groups[first - 1].kind == kind) --first;
      return s.inside.groups[group].members > 1 ? fmt::format("{}es", name_of(kind))
                                                : fmt::format("{} {}", name_of(kind), group - first);
    };
    return fmt::format("node {} {}", node_index,
                       arrow(name(s.inside.bundles[bundle].low), name(s.inside.bundles[bundle].high)));
  }
  const auto after = std::upper_bound(s.by_bundle.first_link.begin(), s.by_bundle.first_link.end(), id);
  const auto bundle = static_cast<std::size_t>(after - s.by_bundle.first_link.begin() - 1);
  const FabricWiring::Group& low = s.outside.groups[s.outside.bundles[bundle].low];
  const FabricWiring::Group& high = s.outside.groups[s.outside.bundles[bundle].high];
  if (!s.single_path()) return arrow(low.name, high.name);
  const std::uint32_t lane = (id - s.by_bundle.first_link[bundle]) / 2;
  if (!s.outside.tree) return fmt::format("{} (lane {})", arrow(low.name, high.name), lane);
  const auto member = [](const FabricWiring::Group& group, std::int32_t m) {
    return group.members > 1 ? fmt::format("{}.{}", group.name, m) : group.name;
  };
  return fmt::format(
      "{} (lane {})",
      arrow(member(low, s.by_bundle.lanes[bundle].low[lane]), member(high, s.by_bundle.lanes[bundle].high[lane])),
      lane);
}

}  // namespace orrery::topology
