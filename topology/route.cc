// Which links a path loads. In a tree of switch groups a path climbs from both ends to the first common group; over any
// other graph mesh_routes.h finds the shortest ways. Inside a node the wiring has the ways ready.
#include <algorithm>
#include <vector>

#include "sim/hash.h"
#include "topology/state.h"

namespace orrery::topology {

std::int64_t Cluster::State::nic_of(std::int64_t node_index, std::int64_t gpu_in_node) const {
  std::int64_t nic = inside.nic_of_gpu[static_cast<std::size_t>(gpu_in_node)];
  if (connected.nic_lost.empty()) return nic;
  for (std::int32_t tried = 0; tried < inside.nics && lost(node_index, nic); ++tried) nic = (nic + 1) % inside.nics;
  return nic;
}

void Cluster::State::inside_node(std::int64_t gpu_from, std::int64_t gpu_to, Path& path) const {
  if (gpu_from == gpu_to) return;
  const std::int64_t node_index = gpu_from / gpus_per_node;
  const auto base = static_cast<std::uint32_t>(node_index) * node_links;
  const auto a = static_cast<std::uint32_t>(gpu_from - node_index * gpus_per_node);
  const auto b = static_cast<std::uint32_t>(gpu_to - node_index * gpus_per_node);
  if (inside.switched) {
    path.links.push_back({LinkId{base + 2 * a}, 1.0});
    path.links.push_back({LinkId{base + 2 * b + 1}, 1.0});
    path.latency += spec_of(node_index).latency;
    path.hops += 2;
    return;
  }
  const std::vector<std::uint32_t>& route = inside.routes[a * static_cast<std::uint32_t>(inside.gpus) + b];
  for (const std::uint32_t link : route) path.links.push_back({LinkId{base + link}, 1.0});
  path.latency += spec_of(node_index).latency * static_cast<std::int64_t>(route.size());
  path.hops += static_cast<std::int32_t>(route.size());
}

std::int32_t Cluster::State::hops_to_nic(std::int64_t gpu, std::int64_t nic) const {
  if (inside.nic_routes.empty()) return 2;
  const auto row = static_cast<std::size_t>(gpu % gpus_per_node * inside.nics + nic);
  return static_cast<std::int32_t>(inside.nic_routes[row].size());
}

Cluster::State::Relay Cluster::State::relay(std::int64_t gpu_from, std::int64_t gpu_to) const {
  const std::int64_t n = gpu_from / gpus_per_node, m = gpu_to / gpus_per_node;
  const std::int64_t i = nic_of(n, gpu_from - n * gpus_per_node), j = nic_of(m, gpu_to - m * gpus_per_node);
  const auto joined = [&](std::int64_t a, std::int64_t b) {
    return !lost(n, a) && !lost(m, b) && reach(leaf_of(n, a), leaf_of(m, b));
  };
  if (connected.one_piece || joined(i, j)) return {{n, i, m, j}, gpu_from, gpu_to};
  const auto owner = [&](std::int64_t node_index, std::int64_t nic) {
    return node_index * gpus_per_node + inside.gpu_of_nic[static_cast<std::size_t>(nic)];
  };
  // The sender's node passes it on, else the receiver's, else both (of the NICs that reach each other the first).
  for (std::int64_t a = 0; a < inside.nics; ++a) {
    if (joined(a, j)) return {{n, a, m, j}, owner(n, a), gpu_to};
  }
  for (std::int64_t b = 0; b < inside.nics; ++b) {
    if (joined(i, b)) return {{n, i, m, b}, gpu_from, owner(m, b)};
  }
  for (std::int64_t a = 0; a < inside.nics; ++a) {
    for (std::int64_t b = 0; b < inside.nics; ++b) {
      if (joined(a, b)) return {{n, a, m, b}, owner(n, a), owner(m, b)};
    }
  }
  SIM_CHECK(false, "no way from node {} to node {}", n, m);
  return {};
}

void Cluster::State::between_nics(std::int64_t gpu_from, std::int64_t gpu_to, const Ends& ends, std::uint64_t flow,
                                  Path& path) const {
  const auto base = [&](std::int64_t node_index) { return static_cast<std::uint32_t>(node_index) * node_links; };
  const auto bundle = [](const std::vector<std::uint32_t>& bundles, std::int64_t row) {
    return 2 * bundles[static_cast<std::size_t>(row)];
  };
  const auto add = [&](std::uint32_t link) { path.links.push_back({LinkId{link}, 1.0}); };
  const std::int64_t from = gpu_from - ends.node_from * gpus_per_node, to = gpu_to - ends.node_to * gpus_per_node;
  const auto shared = [&](std::int64_t gpu, std::int64_t nic) -> const std::vector<std::uint32_t>& {
    return inside.nic_routes[static_cast<std::size_t>(gpu * inside.nics + nic)];
  };
  path.links.reserve(path.links.size() + 10);
  path.hops += hops_to_nic(gpu_from, ends.nic_from) + hops_to_nic(gpu_to, ends.nic_to);
  if (inside.nic_routes.empty()) {
    add(base(ends.node_from) + bundle(inside.pcie_of_gpu, from));
    add(base(ends.node_from) + bundle(inside.pcie_of_nic, ends.nic_from) + 1);  // the NIC is the low end
  } else {
    for (const std::uint32_t link : shared(from, ends.nic_from)) add(base(ends.node_from) + link);
  }
  add(nic_link(ends.node_from, ends.nic_from));
  cross_fabric(ends, flow, path);
  add(nic_link(ends.node_to, ends.nic_to) + 1);
  if (inside.nic_routes.empty()) {
    add(base(ends.node_to) + bundle(inside.pcie_of_nic, ends.nic_to));
    add(base(ends.node_to) + bundle(inside.pcie_of_gpu, to) + 1);
  } else {
    const std::vector<std::uint32_t>& out = shared(to, ends.nic_to);
    for (auto link = out.rbegin(); link != out.rend(); ++link) add(base(ends.node_to) + (*link ^ 1U));
  }
}

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

Cluster::Way Cluster::State::way_of_switches(std::uint32_t leaf_a, std::uint32_t leaf_b) const {
  Cluster::Way way;
  std::int32_t switches = 0;
  if (mesh != nullptr) {
    switches = mesh->hops(leaf_a, leaf_b) + 1;
    way.top = leaf_a == leaf_b ? Tier::leaf : Tier::spine;
  } else {
    const Climb c = climb(outside, leaf_a, leaf_b);
    switches = outside.groups[c.apex].apex_switches;
    for (std::uint32_t i = 0; i < c.from_size; ++i) switches += outside.groups[c.from[i]].transit_switches;
    for (std::uint32_t i = 0; i < c.to_size; ++i) switches += outside.groups[c.to[i]].transit_switches;
    way.top = c.from_size == 0 ? Tier::leaf : outside.bundles[outside.groups[c.from[c.from_size - 1]].up].tier;
  }
  way.hops = switches + 1;
  way.latency = fabric.message.latency + fabric.switches.latency * static_cast<std::int64_t>(switches);
  return way;
}

void Cluster::State::cross_fabric(const Ends& ends, std::uint64_t flow, Path& path) const {
  const Cluster::Way way = way_of_switches(leaf_of(ends.node_from, ends.nic_from), leaf_of(ends.node_to, ends.nic_to));
  path.latency += way.latency;
  path.hops += way.hops;
  path.top = way.top;
  const auto cross = [&](std::uint64_t one) {
    if (mesh != nullptr)
      cross_mesh(ends, one, path);
    else
      cross_tree(ends, one, path);
  };
  const auto flows = static_cast<std::uint64_t>(std::min(fabric.routes.flows_per_nic, FabricSpec::kMostHashed));
  if (!seeded() || flows == 1) return cross(flow);
  // Equal shares, so that the slowest flow sets the pace. A network adds up shares that meet on a link.
  const std::size_t begin = path.links.size();
  for (std::uint64_t one = 0; one < flows; ++one) cross(flow * flows + one);
  for (std::size_t link = begin; link < path.links.size(); ++link)
    path.links[link].weight /= static_cast<double>(flows);
}

std::uint64_t Cluster::State::key_of(const Ends& ends, std::uint64_t flow) const {
  const auto endpoint = [&](std::int64_t node_index, std::int64_t nic) {
    return static_cast<std::uint64_t>(node_index * inside.nics + nic);
  };
  if (!seeded()) return number_of_nic[endpoint(ends.node_to, ends.nic_to)];
  return sim::hash_pair(sim::hash_pair(*fabric.routes.ecmp_seed, flow),
                        sim::hash_pair(endpoint(ends.node_from, ends.nic_from), endpoint(ends.node_to, ends.nic_to)));
}

std::size_t Cluster::State::pick(std::uint64_t key, std::uint32_t group, std::size_t member,
                                 std::size_t choices) const {
  return static_cast<std::size_t>((seeded() ? sim::hash_pair(key, sim::hash_pair(group, member)) : key) % choices);
}

void Cluster::State::cross_mesh(const Ends& ends, std::uint64_t flow, Path& path) const {
  const std::uint32_t a = leaf_of(ends.node_from, ends.nic_from), b = leaf_of(ends.node_to, ends.nic_to);
  if (!single_path()) {
    mesh->spread(a, b, fabric.routes.policy == FabricSpec::Routing::adaptive, path.links);
    return;
  }
  const std::uint64_t key = key_of(ends, flow);
  mesh->walk(
      a, b, [&](std::uint32_t at, std::size_t choices) { return pick(key, at, 0, choices); }, path.links);
}

namespace {

/// Members of the groups on a climb from which the destination can still be reached: `down[i]` of to[i], its last row
/// the common group; `up[i]` of from[i].
struct Open {
  std::vector<std::vector<char>> down, up;
};

Open open_members(const FabricWiring& wiring, const std::vector<Lanes>& lanes, const Climb& c) {
  const auto members = [&](std::uint32_t group) { return static_cast<std::size_t>(wiring.groups[group].members); };
  Open open;
  open.down.emplace_back(members(c.to_size > 0 ? c.to[0] : c.apex), 1);
  for (std::uint32_t i = 0; i < c.to_size; ++i) {
    const Lanes& choices = lanes[wiring.groups[c.to[i]].up];
    std::vector<char> above(members(wiring.groups[c.to[i]].parent), 0);
    for (std::size_t l = 0; l < choices.low.size(); ++l) {
      if (open.down[i][static_cast<std::size_t>(choices.low[l])] != 0)
        above[static_cast<std::size_t>(choices.high[l])] = 1;
    }
    open.down.push_back(std::move(above));
  }
  open.up.resize(c.from_size + 1);
  open.up[c.from_size] = open.down.back();
  for (std::uint32_t i = c.from_size; i-- > 0;) {
    const Lanes& choices = lanes[wiring.groups[c.from[i]].up];
    open.up[i].assign(members(c.from[i]), 0);
    for (std::size_t l = 0; l < choices.low.size(); ++l) {
      if (open.up[i + 1][static_cast<std::size_t>(choices.high[l])] != 0)
        open.up[i][static_cast<std::size_t>(choices.low[l])] = 1;
    }
  }
  return open;
}

}  // namespace

bool Cluster::State::has_lanes(std::uint32_t leaf_a, std::uint32_t leaf_b) const {
  return open_members(outside, by_bundle.lanes, climb(outside, leaf_a, leaf_b)).up[0][0] != 0;
}

void Cluster::State::cross_tree(const Ends& ends, std::uint64_t flow, Path& path) const {
  const std::uint32_t leaf_a = leaf_of(ends.node_from, ends.nic_from), leaf_b = leaf_of(ends.node_to, ends.nic_to);
  const Climb c = climb(outside, leaf_a, leaf_b);
  if (!single_path()) {
    for (std::uint32_t i = 0; i < c.from_size; ++i) {
      path.links.push_back({LinkId{by_bundle.first_link[outside.groups[c.from[i]].up]}, 1.0});
    }
    for (std::uint32_t i = c.to_size; i-- > 0;) {
      path.links.push_back({LinkId{by_bundle.first_link[outside.groups[c.to[i]].up] + 1}, 1.0});
    }
    return;
  }
  const std::uint64_t key = key_of(ends, flow);
  const bool damaged = !faults.list.empty();
  const Open open = damaged ? open_members(outside, by_bundle.lanes, c) : Open{};
  std::size_t member = 0;
  std::vector<std::uint32_t> left;  // of the lanes at a switch, those that lead on
  // Every switch chooses by itself among its lanes towards the destination. By d mod k, the choice of a tier is a
  // digit of the destination's number, so that destinations below one switch are dealt out over all above it.
  const auto choose = [&](std::uint64_t digit, std::uint32_t group, const std::vector<std::uint32_t>& lanes_there) {
    return lanes_there[pick(digit, group, member, lanes_there.size())];
  };
  std::uint64_t below = 1;
  for (std::uint32_t i = 0; i < c.from_size; ++i) {
    const FabricWiring::Group& group = outside.groups[c.from[i]];
    const Lanes& choices = by_bundle.lanes[group.up];
    left.clear();
    for (std::uint32_t l = choices.from_low_begin[member]; l < choices.from_low_begin[member + 1]; ++l) {
      if (!damaged || open.up[i + 1][static_cast<std::size_t>(choices.high[l])] != 0) left.push_back(l);
    }
    const std::uint32_t lane = choose(seeded() ? key : key / below, c.from[i], left);
    path.links.push_back({LinkId{by_bundle.first_link[group.up] + 2 * lane}, 1.0});
    member = static_cast<std::size_t>(choices.high[lane]);
    below *= left.size();
  }
  std::vector<std::uint64_t> digits(c.to_size, 1);
  for (std::uint32_t i = 0; i + 1 < c.to_size; ++i) {
    const FabricWiring::Group& group = outside.groups[c.to[i]];
    digits[i + 1] = digits[i] * static_cast<std::uint64_t>(outside.bundles[group.up].lanes / group.members);
  }
  for (std::uint32_t i = c.to_size; i-- > 0;) {
    const FabricWiring::Group& group = outside.groups[c.to[i]];
    const Lanes& choices = by_bundle.lanes[group.up];
    left.clear();
    for (std::uint32_t l = choices.from_high_begin[member]; l < choices.from_high_begin[member + 1]; ++l) {
      const std::uint32_t lane = choices.from_high[l];
      if (!damaged || open.down[i][static_cast<std::size_t>(choices.low[lane])] != 0) left.push_back(lane);
    }
    const std::uint32_t lane = choose(seeded() ? key : key / digits[i], group.parent + kDown, left);
    path.links.push_back({LinkId{by_bundle.first_link[group.up] + 2 * lane + 1}, 1.0});
    member = static_cast<std::size_t>(choices.low[lane]);
  }
}

}  // namespace orrery::topology
