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

std::vector<LinkInfo> node_template(const Cluster::State& s) {
  const double nic = s.nic_payload(), pcie = s.node.pcie.value();
  std::vector<double> through(static_cast<std::size_t>(s.inside.gpus), 0.0);  // of the NICs that a GPU may use
  for (std::size_t i = 0; i < static_cast<std::size_t>(s.inside.nics); ++i) {
    for (std::size_t g = 0; g < through.size(); ++g) {
      const bool uses = s.inside.nic_of_gpu[g] == static_cast<std::int32_t>(i) ||
                        s.inside.gpu_of_nic[i] == static_cast<std::int32_t>(g);
      if (uses) through[g] += nic;
    }
  }
  std::vector<LinkInfo> rows;
  for (const Bundle& b : s.inside.bundles) {
    LinkInfo info{.tier = b.tier, .lanes = b.lanes};
    if (b.tier == Tier::nic) {
      info.capacity = b.lane_rate;
      const double below = b.low < through.size() ? through[b.low] : nic;
      info.never_binding = pcie >= below * (1 - kRounding);
    } else {
      info.capacity = Bandwidth(b.lane_rate.value() * b.lanes * s.node.efficiency);
    }
    rows.insert(rows.end(), 2, info);
  }
  for (std::int32_t i = 0; i < s.inside.nics; ++i) {
    // Strictly less behind it: of two equal links in a row one has to stay.
    rows.insert(rows.end(), 2, {Bandwidth(nic), Tier::leaf, 1, pcie < nic * (1 - kRounding)});
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
  lanes.from_high_begin.push_back(0);
  for (const std::vector<std::uint32_t>& some : from_high) {
    lanes.from_high.insert(lanes.from_high.end(), some.begin(), some.end());
    lanes.from_high_begin.push_back(static_cast<std::uint32_t>(lanes.from_high.size()));
  }
  return lanes;
}

}  // namespace

void Cluster::State::wire(const Settings& where) {
  const bool networked = fabric.kind != FabricSpec::Kind::none;
  outside = row_of(fabric_generators(), fabric.kind).make(fabric, nodes, where);
  inside = row_of(node_generators(), node.kind).make(node, std::min(gpus, gpus_per_node), networked ? fabric.nics : 0);
  const std::uint64_t per_node = 2 * (inside.bundles.size() + static_cast<std::uint64_t>(inside.nics));
  if (per_node * static_cast<std::uint64_t>(nodes) > kMostLinks) {
    where.fail(fmt::format("{} GPUs need {} links; at most {} are simulated", gpus,
                           per_node * static_cast<std::uint64_t>(nodes), kMostLinks));
  }
  node_links = static_cast<std::uint32_t>(per_node);
}

void Cluster::State::compile() {
  const std::vector<LinkInfo> one_node = node_template(*this);
  std::vector<LinkInfo>& rows = links.rows();
  rows.reserve(one_node.size() * static_cast<std::size_t>(nodes) + 2 * outside.bundles.size());
  for (std::int64_t n = 0; n < nodes; ++n) rows.insert(rows.end(), one_node.begin(), one_node.end());

  // Payload that can come up into each group, and the NICs below it.
  std::vector<double> feed(outside.groups.size(), 0.0);
  std::vector<std::int64_t> nics_below(outside.groups.size(), 0);
  const double nic_feed = inside.nics > 0 ? std::min(nic_payload(), node.pcie.value()) : 0.0;
  for (const std::uint32_t leaf : outside.leaf_of_nic) {
    feed[leaf] += nic_feed;
    ++nics_below[leaf];
  }
  const bool hashed = fabric.routing == FabricSpec::Routing::ecmp;
  std::map<std::pair<std::int64_t, std::int32_t>, double> known;  // few bundles differ
  first_link.resize(outside.bundles.size());
  collisions.assign(outside.bundles.size(), 1.0);
  if (seeded()) lanes.resize(outside.bundles.size());
  for (std::uint32_t g = 0; g < outside.groups.size(); ++g) {
    const FabricWiring::Group& group = outside.groups[g];
    if (group.parent == kNoGroup) continue;
    SIM_CHECK(group.parent > g && outside.bundles[group.up].low == g, "group {} stands behind its parent", g);
    const Bundle& bundle = outside.bundles[group.up];
    if (hashed && nics_below[g] > 0) {
      double& factor = known[{nics_below[g], bundle.lanes}];
      if (factor == 0) {
        const Bandwidth flow_rate(fabric.nic_rate.value() / static_cast<double>(fabric.flows_per_nic));
        factor =
            expected_collision_factor(nics_below[g] * fabric.flows_per_nic, bundle.lanes, flow_rate, bundle.lane_rate);
      }
      collisions[group.up] = factor;
    }
    first_link[group.up] = static_cast<std::uint32_t>(rows.size());
    LinkInfo info{.capacity = Bandwidth(payload(bundle)), .tier = bundle.tier, .lanes = bundle.lanes};
    if (seeded()) {
      lanes[group.up] = lanes_of(bundle, group.members, outside.groups[group.parent].members);
      info.capacity = Bandwidth(info.capacity.value() / bundle.lanes);
      info.lanes = 1;
      rows.insert(rows.end(), 2 * static_cast<std::size_t>(bundle.lanes), info);
      feed[group.parent] += std::min(feed[g], payload(bundle));
    } else {
      info.capacity = Bandwidth(info.capacity.value() / collisions[group.up]);
      info.never_binding = info.capacity.value() >= feed[g] * (1 - kRounding);
      rows.insert(rows.end(), 2, info);
      feed[group.parent] += std::min(feed[g], info.capacity.value());
    }
    nics_below[group.parent] += nics_below[g];
  }
}

}  // namespace orrery::topology
