// A cluster's checks and its answers: which links a path loads. Groups of switches form a tree, so a path climbs from
// both ends to the first common group.
#include "topology/cluster.h"

#include <algorithm>
#include <utility>

#include "sim/hash.h"
#include "topology/state.h"

namespace orrery::topology {

Cluster::Cluster(const NodeSpec& node, const FabricSpec& fabric, std::int64_t gpus, std::int64_t gpus_per_node,
                 const Settings& where)
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
  s.wire(where);
  s.compile();
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
const sim::Table<LinkId, LinkInfo>& Cluster::links() const { return state_->links; }

std::int64_t Cluster::node_of(std::int64_t gpu) const {
  SIM_CHECK(gpu >= 0 && gpu < state_->gpus, "GPU {} of {}", gpu, state_->gpus);
  return gpu / state_->gpus_per_node;
}

std::int64_t Cluster::nic_of(std::int64_t gpu) const {
  SIM_CHECK(state_->inside.nics > 0, "a cluster without a fabric has no NICs");
  return state_->inside.nic_of_gpu[static_cast<std::size_t>(gpu - node_of(gpu) * state_->gpus_per_node)];
}

Path Cluster::path(std::int64_t from, std::int64_t to, std::uint64_t flow) const {
  const State& s = *state_;
  const std::int64_t node_from = node_of(from), node_to = node_of(to);
  if (node_from != node_to) {
    return s.between_nodes(from, nic_of(from), to, nic_of(to), flow);
  }
  Path path;
  if (from == to) return path;
  const auto base = static_cast<std::uint32_t>(node_from) * s.node_links;
  const auto a = static_cast<std::uint32_t>(from - node_from * s.gpus_per_node);
  const auto b = static_cast<std::uint32_t>(to - node_from * s.gpus_per_node);
  if (s.inside.switched) {
    path.links = {{LinkId{base + 2 * a}, 1.0}, {LinkId{base + 2 * b + 1}, 1.0}};
    path.latency = s.node.latency;
    return path;
  }
  const std::vector<std::uint32_t>& route = s.inside.routes[a * static_cast<std::uint32_t>(s.inside.gpus) + b];
  for (const std::uint32_t link : route) path.links.push_back({LinkId{base + link}, 1.0});
  path.latency = s.node.latency * static_cast<std::int64_t>(route.size());
  return path;
}

std::vector<LinkId> Cluster::nic_links(std::int64_t node, std::int64_t nic) const {
  const State& s = *state_;
  if (s.fabric.kind == FabricSpec::Kind::none) return {};
  SIM_CHECK(node >= 0 && node < s.nodes && nic >= 0 && nic < s.inside.nics, "NIC {} of node {}", nic, node);
  return {LinkId{s.nic_link(node, nic)}, LinkId{s.nic_link(node, nic) + 1}};
}

Path Cluster::nic_path(std::int64_t node_from, std::int64_t nic_from, std::int64_t node_to, std::int64_t nic_to,
                       std::uint64_t flow) const {
  const State& s = *state_;
  SIM_CHECK(node_from != node_to && node_from >= 0 && node_to >= 0 && node_from < s.nodes && node_to < s.nodes,
            "nodes {} and {} of {}", node_from, node_to, s.nodes);
  SIM_CHECK(nic_from >= 0 && nic_to >= 0 && nic_from < s.inside.nics && nic_to < s.inside.nics, "NICs {} and {} of {}",
            nic_from, nic_to, s.inside.nics);
  const auto gpu_of = [&](std::int64_t node_index, std::int64_t nic) {
    return node_index * s.gpus_per_node + s.inside.gpu_of_nic[static_cast<std::size_t>(nic)];
  };
  return s.between_nodes(gpu_of(node_from, nic_from), nic_from, gpu_of(node_to, nic_to), nic_to, flow);
}

Path Cluster::State::between_nodes(std::int64_t gpu_from, std::int64_t nic_from, std::int64_t gpu_to,
                                   std::int64_t nic_to, std::uint64_t flow) const {
  const std::int64_t node_from = gpu_from / gpus_per_node, node_to = gpu_to / gpus_per_node;
  const auto link = [&](std::int64_t node_index, const std::vector<std::uint32_t>& bundles, std::int64_t row) {
    return static_cast<std::uint32_t>(node_index) * node_links + 2 * bundles[static_cast<std::size_t>(row)];
  };
  Path path;
  path.links.reserve(10);
  path.links.push_back({LinkId{link(node_from, inside.pcie_of_gpu, gpu_from - node_from * gpus_per_node)}, 1.0});
  path.links.push_back({LinkId{link(node_from, inside.pcie_of_nic, nic_from) + 1}, 1.0});  // the NIC is the low end
  path.links.push_back({LinkId{nic_link(node_from, nic_from)}, 1.0});
  cross_fabric(node_from, nic_from, node_to, nic_to, flow, path);
  path.links.push_back({LinkId{nic_link(node_to, nic_to) + 1}, 1.0});
  path.links.push_back({LinkId{link(node_to, inside.pcie_of_nic, nic_to)}, 1.0});
  path.links.push_back({LinkId{link(node_to, inside.pcie_of_gpu, gpu_to - node_to * gpus_per_node) + 1}, 1.0});
  return path;
}

namespace {

/// The groups from two leaves up to the first common one.
struct Climb {
  std::uint32_t from[4], to[4];  // from[0], to[0]: the leaves; the common group is not in them
  std::uint32_t from_size = 0, to_size = 0;
  std::uint32_t apex = kNoGroup;
};

Climb climb(const FabricWiring& wiring, std::uint32_t leaf_a, std::uint32_t leaf_b) {
  Climb c;
  // Children stand before parents, so the lower index has to climb.
  while (leaf_a != leaf_b) {
    std::uint32_t& lower = leaf_a < leaf_b ? leaf_a : leaf_b;
    SIM_CHECK(wiring.groups[lower].parent != kNoGroup && c.from_size < 4 && c.to_size < 4,
              "leaves have no common switch");
    if (leaf_a < leaf_b)
      c.from[c.from_size++] = lower;
    else
      c.to[c.to_size++] = lower;
    lower = wiring.groups[lower].parent;
  }
  c.apex = leaf_a;
  return c;
}

}  // namespace

std::int32_t Cluster::State::switches_between(std::uint32_t leaf_a, std::uint32_t leaf_b) const {
  const Climb c = climb(outside, leaf_a, leaf_b);
  std::int32_t switches = outside.groups[c.apex].apex_switches;
  for (std::uint32_t i = 0; i < c.from_size; ++i) switches += outside.groups[c.from[i]].transit_switches;
  for (std::uint32_t i = 0; i < c.to_size; ++i) switches += outside.groups[c.to[i]].transit_switches;
  return switches;
}

void Cluster::State::cross_fabric(std::int64_t node_from, std::int64_t nic_from, std::int64_t node_to,
                                  std::int64_t nic_to, std::uint64_t flow, Path& path) const {
  const std::uint32_t leaf_a = leaf_of(node_from, nic_from), leaf_b = leaf_of(node_to, nic_to);
  const Climb c = climb(outside, leaf_a, leaf_b);
  path.latency =
      fabric.nic_latency + fabric.switch_latency * static_cast<std::int64_t>(switches_between(leaf_a, leaf_b));
  path.top = c.from_size == 0 ? Tier::leaf : outside.bundles[outside.groups[c.from[c.from_size - 1]].up].tier;

  if (!seeded()) {
    for (std::uint32_t i = 0; i < c.from_size; ++i) {
      path.links.push_back({LinkId{first_link[outside.groups[c.from[i]].up]}, 1.0});
    }
    for (std::uint32_t i = c.to_size; i-- > 0;) {
      path.links.push_back({LinkId{first_link[outside.groups[c.to[i]].up] + 1}, 1.0});
    }
    return;
  }
  // Every switch hashes the flow by itself onto its lanes towards the destination.
  const auto endpoint = [&](std::int64_t node_index, std::int64_t nic) {
    return static_cast<std::uint64_t>(node_index * inside.nics + nic);
  };
  const std::uint64_t key = sim::hash_pair(sim::hash_pair(*fabric.ecmp_seed, flow),
                                           sim::hash_pair(endpoint(node_from, nic_from), endpoint(node_to, nic_to)));
  std::size_t member = 0;
  const auto pick = [&](std::uint32_t group, std::size_t lanes_there) {
    return static_cast<std::size_t>(sim::hash_pair(key, sim::hash_pair(group, member)) % lanes_there);
  };
  for (std::uint32_t i = 0; i < c.from_size; ++i) {
    const FabricWiring::Group& group = outside.groups[c.from[i]];
    const Lanes& choices = lanes[group.up];
    const std::size_t each = choices.low.size() / static_cast<std::size_t>(group.members);
    const std::size_t lane = member * each + pick(c.from[i], each);
    path.links.push_back({LinkId{first_link[group.up] + 2 * static_cast<std::uint32_t>(lane)}, 1.0});
    member = static_cast<std::size_t>(choices.high[lane]);
  }
  for (std::uint32_t i = c.to_size; i-- > 0;) {
    const FabricWiring::Group& group = outside.groups[c.to[i]];
    const Lanes& choices = lanes[group.up];
    const std::uint32_t begin = choices.from_high_begin[member], end = choices.from_high_begin[member + 1];
    const std::uint32_t lane = choices.from_high[begin + pick(group.parent + kDown, end - begin)];
    path.links.push_back({LinkId{first_link[group.up] + 2 * lane + 1}, 1.0});
    member = static_cast<std::size_t>(choices.low[lane]);
  }
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
  const auto after = std::upper_bound(s.first_link.begin(), s.first_link.end(), id);
  const auto bundle = static_cast<std::size_t>(after - s.first_link.begin() - 1);
  const FabricWiring::Group& low = s.outside.groups[s.outside.bundles[bundle].low];
  const FabricWiring::Group& high = s.outside.groups[s.outside.bundles[bundle].high];
  if (!s.seeded()) return arrow(low.name, high.name);
  const std::uint32_t lane = (id - s.first_link[bundle]) / 2;
  const auto member = [](const FabricWiring::Group& group, std::int32_t m) {
    return group.members > 1 ? fmt::format("{}.{}", group.name, m) : group.name;
  };
  return fmt::format("{} (lane {})",
                     arrow(member(low, s.lanes[bundle].low[lane]), member(high, s.lanes[bundle].high[lane])), lane);
}

}  // namespace orrery::topology
