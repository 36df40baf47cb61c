// Compiles a cluster's wiring into link tables. A link's payload rate is line rate x lanes x efficiency; PCIe rates are
// payload rates already. Under unseeded ECMP a bundle's rate is divided by the expected collision factor of all NICs
// below it sending at once (collisions.cc).
//
// never_binding is proved from the NICs upward: what enters a group from below is at most the sum, over the links into
// it, of the smaller of their capacity and what can reach them. A bundle that carries at least that never is the only
// full link; the same sum bounds what can leave downwards. Each proof leans only on links nearer to the NICs, so all
// such links may be left out together.
#include <algorithm>
#include <map>
#include <utility>

#include "topology/fabrics.h"
#include "topology/state.h"

namespace orrery::topology {

namespace {

constexpr double kRounding = 1e-9;  // two ways of adding the same rates differ by less

template <class Row, class Kind>
const Row& row_of(const std::vector<Row>& rows, Kind kind) {
  const auto row = std::find_if(rows.begin(), rows.end(), [&](const Row& r) { return r.kind == kind; });
  SIM_CHECK(row != rows.end(), "the catalogue lacks a generator");
  return *row;
}

/// Links of one node. `nic`: payload bytes/s of a NIC.
std::vector<LinkInfo> node_template(const NodeSpec& spec, const NodeWiring& inside, double nic, double taken_at_leaf) {
  const double pcie = spec.pcie.value();
  std::vector<double> through(static_cast<std::size_t>(inside.gpus), 0.0);  // of the NICs that a GPU may use
  for (std::size_t i = 0; i < static_cast<std::size_t>(inside.nics); ++i) {
    for (std::size_t g = 0; g < through.size(); ++g) {
      const bool uses =
          inside.nic_of_gpu[g] == static_cast<std::int32_t>(i) || inside.gpu_of_nic[i] == static_cast<std::int32_t>(g);
      if (uses) through[g] += nic;
    }
  }
  std::vector<LinkInfo> rows;
  for (const Bundle& b : inside.bundles) {
    LinkInfo info{.tier = b.tier, .lanes = b.lanes};
    if (b.tier == Tier::nic) {
      info.capacity = b.lane_rate;
      const double below = b.low < through.size() ? through[b.low] : nic;
      info.never_binding = pcie >= below * (1 - kRounding);
    } else {
      info.capacity = Bandwidth(b.lane_rate.value() * b.lanes * spec.efficiency);
    }
    rows.insert(rows.end(), 2, info);
  }
  const double left = nic * (1 - taken_at_leaf);
  for (std::int32_t i = 0; i < inside.nics; ++i) {
    // Strictly less behind it: of two equal links in a row one has to stay.
    rows.insert(rows.end(), 2, {Bandwidth(left), Tier::leaf, 1, pcie < left * (1 - kRounding)});
  }
  return rows;
}

Lanes lanes_of(const Bundle& bundle, std::int32_t low_members, std::int32_t high_members) {
  SIM_CHECK(bundle.lanes % low_members == 0 && low_members % bundle.planes == 0 && high_members % bundle.planes == 0,
            "{} lanes over {} and {} members in {} planes", bundle.lanes, low_members, high_members, bundle.planes);
  Lanes lanes;
  std::vector<std::vector<std::uint32_t>> from_high(static_cast<std::size_t>(high_members));
  for (std::int32_t l = 0; l < low_members; ++l) {
    for (std::int32_t h = 0; h < high_members; ++h) {
      for (std::int32_t i = lanes_between(bundle, low_members, high_members, l, h); i > 0; --i) {
        from_high[static_cast<std::size_t>(h)].push_back(static_cast<std::uint32_t>(lanes.low.size()));
        lanes.low.push_back(l);
        lanes.high.push_back(h);
      }
    }
  }
  for (std::int32_t l = 0; l <= low_members; ++l) {
    const auto first = std::lower_bound(lanes.low.begin(), lanes.low.end(), l);
    lanes.from_low_begin.push_back(static_cast<std::uint32_t>(first - lanes.low.begin()));
  }
  lanes.from_high_begin.push_back(0);
  for (const std::vector<std::uint32_t>& some : from_high) {
    lanes.from_high.insert(lanes.from_high.end(), some.begin(), some.end());
    lanes.from_high_begin.push_back(static_cast<std::uint32_t>(lanes.from_high.size()));
  }
  return lanes;
}

/// What the lanes of each member of one side carry together, in lanes; 0 for a member without any left.
std::vector<double> lanes_of_members(const Bundle& bundle, std::int32_t low_members, std::int32_t high_members,
                                     bool by_low) {
  std::vector<double> sums(static_cast<std::size_t>(by_low ? low_members : high_members), 0.0);
  for (std::int32_t l = 0; l < low_members; ++l) {
    for (std::int32_t h = 0; h < high_members; ++h) {
      double share = 1.0;
      for (const Bundle::Damage& d : bundle.damage) share *= d.low == l && d.high == h ? d.share : 1.0;
      sums[static_cast<std::size_t>(by_low ? l : h)] += share * lanes_between(bundle, low_members, high_members, l, h);
    }
  }
  return sums;
}

}  // namespace

std::int32_t lanes_left(const Bundle& bundle) {
  std::int32_t lanes = bundle.lanes;
  for (const Bundle::Damage& d : bundle.damage) lanes -= d.lost;
  return lanes;
}

double Cluster::State::payload(const Bundle& b, bool upwards) const {
  if (b.damage.empty()) return lane_payload(b) * b.lanes;
  // Upwards the traffic comes evenly from the members of the low end, downwards from those of the high end. A switch
  // that only deals evenly cannot send less where less is left: the weakest member bounds them all.
  const std::vector<double> sums =
      lanes_of_members(b, outside.groups[b.low].members, outside.tree ? outside.groups[b.high].members : 1, upwards);
  double all = 0, least = 0, alive = 0;
  for (const double sum : sums) {
    if (sum <= 0) continue;
    all += sum;
    least = alive == 0 ? sum : std::min(least, sum);
    ++alive;
  }
  const bool dealt = fabric.routes.policy != FabricSpec::Routing::adaptive;
  return lane_payload(b) * (dealt ? alive * least : all);
}

namespace {
NodeWiring wiring_of(const NodeSpec& spec, std::int64_t gpus, std::int64_t nics) {
  return row_of(node_generators(), spec.kind).make(spec, gpus, nics);
}
}  // namespace

bool wired_alike(const NodeSpec& a, const NodeSpec& b, std::int64_t gpus, std::int64_t nics) {
  if (a == b) return true;
  if (a.kind != NodeSpec::Kind::nvswitch || b.kind != a.kind || std::min(a.gpus, b.gpus) < gpus) return false;
  const NodeWiring one = wiring_of(a, gpus, nics), other = wiring_of(b, gpus, nics);
  return one.bundles.size() == other.bundles.size() && one.nic_of_gpu == other.nic_of_gpu &&
         one.gpu_of_nic == other.gpu_of_nic && one.pcie_of_gpu == other.pcie_of_gpu &&
         one.pcie_of_nic == other.pcie_of_nic;
}

std::size_t Cluster::State::kind_of(std::int64_t node_index) const {
  std::int64_t begin = nodes;
  for (std::size_t kind = others.size(); kind > 0; --kind) {
    begin -= others[kind - 1].nodes;
    if (node_index >= begin) return kind;
  }
  return 0;
}

NodeWiring Cluster::State::wired(const NodeSpec& spec) const {
  return wiring_of(spec, std::min(gpus, gpus_per_node), fabric.kind->networked ? fabric.nics : 0);
}

void Cluster::State::wire(const Settings& where) {
  outside = fabric.kind->make(fabric, nodes, where);
  inside = wired(node);
  std::int64_t of_other_kinds = 0;
  for (const OtherNodes& other : others) {
    of_other_kinds += other.nodes;
    SIM_CHECK(wired_alike(node, other.node, inside.gpus, inside.nics), "nodes of two kinds are wired otherwise");
  }
  SIM_CHECK(of_other_kinds == 0 || of_other_kinds < nodes, "{} nodes of other kinds of {}", of_other_kinds, nodes);
  const std::uint64_t per_node = 2 * (inside.bundles.size() + static_cast<std::uint64_t>(inside.nics));
  if (per_node * static_cast<std::uint64_t>(nodes) > kMostLinks) {
    where.fail(fmt::format("{} GPUs need {} links; at most {} are simulated", gpus,
                           per_node * static_cast<std::uint64_t>(nodes), kMostLinks));
  }
  std::uint64_t between = 0;
  for (const Bundle& b : outside.bundles) between += 2 * static_cast<std::uint64_t>(single_path() ? b.lanes : 1);
  if (between > kMostLinks) {
    where.fail(fmt::format("the switches have {} links; at most {} are simulated", between, kMostLinks));
  }
  node_links = static_cast<std::uint32_t>(per_node);
}

void Cluster::State::compile() {
  const double taken = faults.background[static_cast<std::size_t>(Tier::leaf)];
  std::vector<std::vector<LinkInfo>> kinds{node_template(node, inside, nic_payload(fabric.nic_rate), taken)};
  for (const OtherNodes& other : others)
    kinds.push_back(node_template(other.node, wired(other.node), nic_payload(other.nic_rate), taken));
  std::vector<std::size_t> first;  // nodes of the other kinds, which are the last ones
  std::int64_t begin = nodes;
  for (std::size_t kind = others.size(); kind-- > 0;) {
    begin -= others[kind].nodes;
    first.insert(first.begin(), static_cast<std::size_t>(begin));
  }
  links.set_nodes(std::move(kinds), std::move(first), static_cast<std::size_t>(nodes));
  by_bundle.first_link.resize(outside.bundles.size());
  by_bundle.collisions.assign(outside.bundles.size(), 1.0);
  if (outside.tree)
    compile_tree();
  else
    compile_mesh();
  if (fabric.routes.policy != FabricSpec::Routing::d_mod_k) return;
  // Destinations are counted leaf by leaf, in the order of their nodes.
  std::vector<std::uint32_t> next(outside.groups.size() + 1, 0);
  for (const std::uint32_t leaf : outside.leaf_of_nic) ++next[leaf + 1];
  for (std::size_t g = 1; g < next.size(); ++g) next[g] += next[g - 1];
  for (const std::uint32_t leaf : outside.leaf_of_nic) number_of_nic.push_back(next[leaf]++);
}

void Cluster::State::compile_mesh() {
  for (std::size_t b = 0; b < outside.bundles.size(); ++b) {
    const Bundle& bundle = outside.bundles[b];
    by_bundle.first_link[b] = static_cast<std::uint32_t>(links.size());
    const std::int32_t lanes_here = std::max(1, lanes_left(bundle));  // a lost link keeps its row, which no route uses
    LinkInfo info{.capacity = Bandwidth(lane_payload(bundle) * lanes_here), .tier = bundle.tier, .lanes = lanes_here};
    if (single_path()) {
      info = {Bandwidth(lane_payload(bundle)), bundle.tier};
      links.add(2 * static_cast<std::size_t>(lanes_here), info);
      continue;
    }
    links.add(2, info);
  }
  mesh = std::make_unique<MeshRoutes>(outside, by_bundle.first_link, single_path());
}

void Cluster::State::compile_tree() {
  // Payload that can come up into each group, and the NICs below it.
  std::vector<double> feed(outside.groups.size(), 0.0);
  std::vector<std::int64_t> nics_below(outside.groups.size(), 0);
  const double of_first_kind = inside.nics > 0 ? nic_feed(0) : 0.0;
  for (std::size_t row = 0; row < outside.leaf_of_nic.size(); ++row) {
    const std::uint32_t leaf = outside.leaf_of_nic[row];
    const bool first_kind = others.empty() || inside.nics == 0;
    feed[leaf] += first_kind ? of_first_kind : nic_feed(static_cast<std::int64_t>(row) / inside.nics);
    ++nics_below[leaf];
  }
  const bool hashed = fabric.routes.policy == FabricSpec::Routing::ecmp;
  std::map<std::pair<std::int64_t, std::int32_t>, double> known;  // few bundles differ
  if (single_path()) by_bundle.lanes.resize(outside.bundles.size());
  for (std::uint32_t g = 0; g < outside.groups.size(); ++g) {
    const FabricWiring::Group& group = outside.groups[g];
    if (outside.bundles.empty() || (group.parent == kNoGroup && outside.bundles[group.up].low != g)) continue;
    const Bundle& bundle = outside.bundles[group.up];
    const std::int32_t left = lanes_left(bundle);
    by_bundle.first_link[group.up] = static_cast<std::uint32_t>(links.size());
    if (group.parent == kNoGroup) continue;  // its links are all lost
    SIM_CHECK(group.parent > g && bundle.low == g, "group {} stands behind its parent", g);
    if (hashed && nics_below[g] > 0) {
      double& factor = known[{nics_below[g], left}];
      if (factor == 0) {
        const Bandwidth flow_rate(fabric.nic_rate.value() / static_cast<double>(fabric.routes.flows_per_nic));
        factor =
            expected_collision_factor(nics_below[g] * fabric.routes.flows_per_nic, left, flow_rate, bundle.lane_rate);
      }
      by_bundle.collisions[group.up] = factor;
    }
    LinkInfo info{.tier = bundle.tier, .lanes = left};
    const double up = payload(bundle, true), down = payload(bundle, false);
    if (single_path()) {
      by_bundle.lanes[group.up] = lanes_of(bundle, group.members, outside.groups[group.parent].members);
      info.capacity = Bandwidth(lane_payload(bundle));
      info.lanes = 1;
      links.add(2 * static_cast<std::size_t>(left), info);
      feed[group.parent] += std::min(feed[g], up);
    } else {
      for (const double way : {up, down}) {
        info.capacity = Bandwidth(way / by_bundle.collisions[group.up]);
        info.never_binding = info.capacity.value() >= feed[g] * (1 - kRounding);
        links.add(1, info);
      }
      feed[group.parent] += std::min(feed[g], links.between()[links.between().size() - 2].capacity.value());
    }
    nics_below[group.parent] += nics_below[g];
  }
}

}  // namespace orrery::topology
