// Faults laid over a cluster's wiring. Lost lanes and switches are taken out before the link tables are made, so that
// routes, collisions, counts and pictures all see what is left; links at part of their rate keep their place. A leaf
// that has lost its way up becomes a tree of its own: whether a job can live with that is checked last.
//
// In a dragonfly a lost switch takes its links along; single links between its switches cannot be named, as a picture
// of exchanges does not say which switch carries which link.
#include "topology/faults.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>

#include "topology/state.h"

namespace orrery::topology {

namespace {

using sim::UserError;

/// What a name stands for: a switch of the fabric, or a part of a node.
struct Named {
  std::int64_t node = -1;   // -1: a switch of the fabric
  std::uint32_t group = 0;  // of the fabric's wiring, or of the node's
  std::int32_t member = 0;
  std::int64_t nic = -1;
};

std::optional<std::int64_t> number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

[[noreturn]] void refuse(const Fault& fault, const std::string& message) {
  throw UserError(fault.place, fault.key, message);
}

/// "n3 nic0", "n0 gpu5", "n0 nvswitch2", "n0 pcie1".
std::optional<Named> part_of_node(const Cluster::State& s, const std::string& name) {
  const std::size_t space = name.find(' ');
  if (name.empty() || name[0] != 'n' || space == std::string::npos) return std::nullopt;
  const auto node = number(std::string_view(name).substr(1, space - 1));
  const std::string part = name.substr(space + 1);
  const std::size_t digits = part.find_first_of("0123456789");
  if (!node || *node >= s.nodes || digits == std::string::npos) return std::nullopt;
  const auto index = number(std::string_view(part).substr(digits));
  static const std::map<std::string, VertexKind> kKinds = {{"gpu", VertexKind::gpu},
                                                           {"nvswitch", VertexKind::nvswitch},
                                                           {"pcie", VertexKind::pcie_switch},
                                                           {"nic", VertexKind::nic},
                                                           {"host", VertexKind::host_bridge}};
  const auto kind = kKinds.find(part.substr(0, digits));
  if (!index || kind == kKinds.end()) return std::nullopt;
  std::int64_t before = 0;
  for (std::uint32_t g = 0; g < s.inside.groups.size(); ++g) {
    const NodeWiring::Group& group = s.inside.groups[g];
    if (group.kind != kind->second) continue;
    if (*index < before + group.members) {
      return Named{*node, g, static_cast<std::int32_t>(*index - before), kind->second == VertexKind::nic ? *index : -1};
    }
    before += group.members;
  }
  return std::nullopt;
}

/// Looks names up; the table of switches is made once.
class Names {
 public:
  explicit Names(const Cluster::State& s) : s_(s) {
    for (std::uint32_t g = 0; g < s.outside.groups.size(); ++g) {
      if (s.outside.groups[g].mesh_links == 0) groups_.emplace(s.outside.groups[g].name, g);
    }
  }
  Named find(const Fault& fault, const std::string& name) const {
    if (const auto part = part_of_node(s_, name)) return *part;
    if (const auto it = groups_.find(name); it != groups_.end() && s_.outside.groups[it->second].members == 1)
      return {-1, it->second, 0, -1};
    const std::size_t dot = name.rfind('.');
    if (dot != std::string::npos) {
      const auto it = groups_.find(name.substr(0, dot));
      const auto member = number(std::string_view(name).substr(dot + 1));
      if (it != groups_.end() && member && *member < s_.outside.groups[it->second].members)
        return {-1, it->second, static_cast<std::int32_t>(*member), -1};
    }
    refuse(fault, unknown(name));
  }

 private:
  std::string unknown(const std::string& name) const {
    std::vector<std::string> candidates;
    for (const auto& [known, g] : groups_) {
      const std::int32_t members = s_.outside.groups[g].members;
      candidates.push_back(members > 1 ? known + ".0" : known);
      if (members > 1) candidates.push_back(fmt::format("{}.{}", known, members - 1));
    }
    if (s_.inside.nics > 0) candidates.push_back("n0 nic0");
    candidates.push_back("n0 gpu0");
    const std::string near = sim::nearest_word(name, candidates);
    return fmt::format("got '{}', which names nothing in this cluster, expected {} (orrery topology draws them)", name,
                       near.empty() ? "a name such as " + candidates.front() : near);
  }
  const Cluster::State& s_;
  std::map<std::string, std::uint32_t> groups_;
};

/// The bundle between two switches, and which of its ends each is.
struct Between {
  std::uint32_t bundle;
  std::int32_t low, high;
};

std::vector<Between> bundles_between(const Cluster::State& s, const Named& a, const Named& b) {
  std::vector<Between> found;
  const auto& bundles = s.outside.bundles;
  for (std::uint32_t i = 0; i < bundles.size(); ++i) {
    if (bundles[i].low == a.group && bundles[i].high == b.group) found.push_back({i, a.member, b.member});
    if (bundles[i].low == b.group && bundles[i].high == a.group) found.push_back({i, b.member, a.member});
  }
  return found;
}

/// What `bundle` has between two members, also where the other end is an exchange and not a switch.
std::int32_t lanes_of_pair(const Cluster::State& s, const Between& at) {
  const Bundle& b = s.outside.bundles[at.bundle];
  return lanes_between(b, s.outside.groups[b.low].members, s.outside.groups[b.high].members, at.low, at.high);
}

void damage_fabric_link(Cluster::State& s, const Fault& fault, const Named& a, const Named& b) {
  const auto between = bundles_between(s, a, b);
  std::int32_t lanes = 0;
  for (const Between& at : between) lanes += lanes_of_pair(s, at);
  if (lanes == 0) refuse(fault, fmt::format("got {} and {}, which no link joins", fault.a, fault.b));
  if (fault.lanes > lanes) {
    refuse(fault, fmt::format("got {} lost lanes between {} and {}, which {} join, expected at most {}", fault.lanes,
                              fault.a, fault.b, lanes, lanes));
  }
  std::int32_t lose = fault.kind != Fault::Kind::lost_link ? 0 : fault.lanes > 0 ? fault.lanes : lanes;
  for (const Between& at : between) {
    const std::int32_t lost = std::min(lose, lanes_of_pair(s, at));
    const double share = fault.kind == Fault::Kind::slow_link ? fault.rate : 1.0;
    s.outside.bundles[at.bundle].damage.push_back({at.low, at.high, lost, share});
    lose -= lost;
  }
}

void lose_nic(Cluster::State& s, std::int64_t node, std::int64_t nic) {
  s.connected.nic_lost.resize(static_cast<std::size_t>(s.nodes * s.inside.nics), false);
  s.connected.nic_lost[static_cast<std::size_t>(node * s.inside.nics + nic)] = true;
}

void lose_switch(Cluster::State& s, const Named& at) {
  for (std::uint32_t i = 0; i < s.outside.bundles.size(); ++i) {
    Bundle& b = s.outside.bundles[i];
    const std::int32_t low_members = s.outside.groups[b.low].members, high_members = s.outside.groups[b.high].members;
    // A lost member of an exchange takes its links to each of the others.
    const bool sibling = s.outside.tree && s.outside.groups[at.group].parent == b.high &&
                         s.outside.groups[b.high].mesh_links > 0 && b.low != at.group;
    if (sibling) b.damage.push_back({0, 0, std::min(lanes_left(b), s.outside.groups[b.high].mesh_links), 1.0});
    if (b.low != at.group && b.high != at.group) continue;
    for (std::int32_t l = 0; l < low_members; ++l) {
      for (std::int32_t h = 0; h < high_members; ++h) {
        const bool touched = (b.low == at.group && l == at.member) || (b.high == at.group && h == at.member);
        const std::int32_t lanes = lanes_between(b, low_members, high_members, l, h);
        if (touched && lanes > 0) b.damage.push_back({l, h, lanes, 1.0});
      }
    }
  }
  for (std::int64_t n = 0; n < s.nodes; ++n) {
    for (std::int64_t i = 0; i < s.inside.nics; ++i) {
      if (s.leaf_of(n, i) == at.group && s.outside.groups[at.group].members == 1) lose_nic(s, n, i);
    }
  }
}

/// Of a link inside a node: the bundle and how many of its lanes lie between the two named members.
struct InNode {
  std::uint32_t bundle = 0;
  std::int32_t lanes = 0;
};

InNode bundle_in_node(const Cluster::State& s, const Named& a, const Named& b) {
  for (std::uint32_t i = 0; i < s.inside.bundles.size(); ++i) {
    const Bundle& bundle = s.inside.bundles[i];
    const bool along = bundle.low == a.group && bundle.high == b.group;
    const bool against = bundle.low == b.group && bundle.high == a.group;
    if (!along && !against) continue;
    return {i, lanes_between(bundle, s.inside.groups[bundle.low].members, s.inside.groups[bundle.high].members,
                             along ? a.member : b.member, along ? b.member : a.member)};
  }
  return {};
}

}  // namespace

void Cluster::State::damage_wiring() {
  if (faults.list.empty()) return;
  const Names names(*this);
  std::set<std::tuple<Fault::Kind, std::string, std::string>> seen;
  for (const Fault& fault : faults.list) {
    const Named a = names.find(fault, fault.a);
    if (!seen.insert({fault.kind, std::min(fault.a, fault.b), std::max(fault.a, fault.b)}).second)
      refuse(fault,
             fmt::format("got {}{}{} a second time, expected once", fault.a, fault.b.empty() ? "" : " and ", fault.b));
    if (fault.kind == Fault::Kind::lost_switch) {
      if (a.node >= 0) refuse(fault, fmt::format("got {}, which is no switch of the fabric", fault.a));
      lose_switch(*this, a);
      continue;
    }
    const Named b = names.find(fault, fault.b);
    if (a.node < 0 && b.node < 0) {
      damage_fabric_link(*this, fault, a, b);
      continue;
    }
    const Named &inner = a.node >= 0 ? a : b, &outer = a.node >= 0 ? b : a;
    const bool to_leaf = outer.node < 0 && inner.nic >= 0 && leaf_of(inner.node, inner.nic) == outer.group;
    const bool in_node = a.node >= 0 && a.node == b.node && bundle_in_node(*this, a, b).lanes > 0;
    if (!to_leaf && !in_node) refuse(fault, fmt::format("got {} and {}, which no link joins", fault.a, fault.b));
    const std::int32_t joined = to_leaf ? 1 : bundle_in_node(*this, a, b).lanes;
    if (fault.lanes > joined) {
      refuse(fault, fmt::format("got {} lost lanes between {} and {}, which {} join, expected at most {}", fault.lanes,
                                fault.a, fault.b, joined, joined));
    }
    if (fault.kind != Fault::Kind::lost_link) continue;
    if (to_leaf) lose_nic(*this, inner.node, inner.nic);
    const InNode at = in_node ? bundle_in_node(*this, a, b) : InNode{};
    if (in_node && (fault.lanes > 0 ? fault.lanes : at.lanes) >= inside.bundles[at.bundle].lanes) {
      refuse(fault, fmt::format("got {} and {}, whose only way that link is; a link inside a node can lose lanes or "
                                "be slow (perturb.slow_links), but not be lost whole",
                                fault.a, fault.b));
    }
  }
  // What has no way up left is a tree of its own.
  if (!outside.tree) return;
  for (FabricWiring::Group& group : outside.groups) {
    if (group.parent != kNoGroup && lanes_left(outside.bundles[group.up]) <= 0) group.parent = kNoGroup;
  }
}

void Cluster::State::damage_links() {
  if (faults.list.empty()) return;
  const auto slow = [&](std::uint32_t link, double share) {
    LinkInfo& info = links.change(LinkId{link});
    info.capacity = Bandwidth(info.capacity.value() * share);
    info.never_binding = false;
  };
  const Names names(*this);
  for (const Fault& fault : faults.list) {
    if (fault.kind == Fault::Kind::lost_switch) continue;
    const Named a = names.find(fault, fault.a), b = names.find(fault, fault.b);
    const double share = fault.kind == Fault::Kind::slow_link ? fault.rate : 1.0;
    if (a.node >= 0 && b.node >= 0) {
      const InNode at = bundle_in_node(*this, a, b);
      const std::int32_t hit = fault.lanes > 0 ? fault.lanes : at.lanes;
      const double gone = fault.kind == Fault::Kind::slow_link ? at.lanes * (1 - share) : hit;
      const std::uint32_t link = static_cast<std::uint32_t>(a.node) * node_links + 2 * at.bundle;
      for (const std::uint32_t way : {0U, 1U}) slow(link + way, 1 - gone / inside.bundles[at.bundle].lanes);
      continue;
    }
    if (a.node >= 0 || b.node >= 0) {
      const Named& nic = a.node >= 0 ? a : b;
      for (const std::uint32_t way : {0U, 1U}) slow(nic_link(nic.node, nic.nic) + way, share);
      continue;
    }
    if (fault.kind != Fault::Kind::slow_link) continue;
    for (const Between& at : bundles_between(*this, a, b)) {
      const std::uint32_t first = by_bundle.first_link[at.bundle];
      if (!outside.tree) {
        const auto count =
            static_cast<std::uint32_t>(single_path() ? std::max(1, lanes_left(outside.bundles[at.bundle])) : 1);
        for (std::uint32_t i = 0; i < 2 * count; ++i) slow(first + i, share);
        continue;
      }
      if (!single_path()) continue;  // payload() counts them
      const Lanes& all = by_bundle.lanes[at.bundle];
      for (std::uint32_t l = 0; l < all.low.size(); ++l) {
        if (all.low[l] != at.low || all.high[l] != at.high) continue;
        slow(first + 2 * l, share);
        slow(first + 2 * l + 1, share);
      }
    }
  }
}

void Cluster::State::check_connected(const Settings& where) {
  std::vector<std::uint32_t>& root = connected.root;
  root.resize(outside.groups.size());
  for (std::uint32_t g = static_cast<std::uint32_t>(root.size()); g-- > 0;) {
    const std::uint32_t parent = outside.groups[g].parent;
    root[g] = mesh != nullptr ? mesh->component(g) : parent == kNoGroup ? g : root[parent];
  }
  // Under one root, without asking every NIC.
  const bool joined = std::all_of(root.begin(), root.end(), [&](std::uint32_t r) { return r == root.front(); });
  if (faults.list.empty() && connected.nic_lost.empty() && joined) return;
  std::map<std::vector<std::uint32_t>, std::int64_t> kinds;  // roots of a node's NICs -> the first such node
  std::set<std::uint32_t> roots;
  std::vector<std::uint32_t> own, before;
  for (std::int64_t n = 0; n < nodes && inside.nics > 0; ++n) {
    own.clear();
    for (std::int64_t i = 0; i < inside.nics; ++i) {
      if (!lost(n, i)) own.push_back(root[leaf_of(n, i)]);
    }
    std::sort(own.begin(), own.end());
    own.erase(std::unique(own.begin(), own.end()), own.end());
    if (n > 0 && own == before) continue;  // as a rule the nodes of a cluster are alike
    roots.insert(own.begin(), own.end());
    kinds.emplace(own, n);
    before = own;
  }
  connected.one_piece = roots.size() <= 1;
  const auto refuse_pair = [&](std::int64_t a, std::int64_t b, const char* why) {
    const std::string message = fmt::format("node {} and node {} have no way to each other{}", a, b, why);
    for (const Fault& fault : faults.list) {
      if (fault.kind != Fault::Kind::slow_link) refuse(fault, "cuts the cluster: " + message);
    }
    where.fail("is in pieces: " + message);
  };
  for (const auto& [some, a] : kinds) {
    if (some.empty() && nodes > 1) refuse_pair(a, a == 0 ? 1 : 0, "; each node needs one NIC");
    for (const auto& [other, b] : kinds) {
      std::vector<std::uint32_t> common;
      std::set_intersection(some.begin(), some.end(), other.begin(), other.end(), std::back_inserter(common));
      if (common.empty() && a != b) refuse_pair(a, b, "; use links that join their switches");
    }
  }
  if (!single_path() || mesh != nullptr || faults.list.empty()) return;
  // Leaves whose lanes end at different spines: only the single lanes tell.
  std::vector<std::uint32_t> hurt;
  for (std::uint32_t g = 0; g < root.size(); ++g) {
    if (outside.groups[g].kind == VertexKind::leaf && outside.groups[g].parent != kNoGroup) hurt.push_back(g);
  }
  for (const std::uint32_t a : hurt) {
    if (outside.bundles[outside.groups[a].up].damage.empty()) continue;
    for (const std::uint32_t b : hurt) {
      if (a == b || root[a] != root[b] || has_lanes(a, b)) continue;
      const auto node_under = [&](std::uint32_t leaf) {
        const auto at = std::find(outside.leaf_of_nic.begin(), outside.leaf_of_nic.end(), leaf);
        return (at - outside.leaf_of_nic.begin()) / inside.nics;
      };
      refuse_pair(node_under(a), node_under(b), "; no switch has links to both that are left");
    }
  }
}

}  // namespace orrery::topology
