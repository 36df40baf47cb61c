// Finding islands; see islands.h.
#include "sim/islands.h"

#include <algorithm>
#include <map>
#include <span>
#include <utility>

#include "sim/clusters.h"

namespace orrery::sim {

namespace {

/// By program and slot: the transfers that an instance issues on it.
std::vector<std::vector<std::uint32_t>> transfers_by_slot(const Plan& plan) {
  std::vector<std::vector<std::uint32_t>> counts;
  counts.reserve(plan.programs.size());
  for (const Program& program : plan.programs) {
    std::vector<std::uint32_t>& of_slot = counts.emplace_back();
    for (std::uint32_t op = 0; op < program.size(); ++op) {
      if (program.kind[op] != OpKind::transfer) continue;
      if (program.slot[op] >= of_slot.size()) of_slot.resize(program.slot[op] + 1, 0);
      ++of_slot[program.slot[op]];
    }
  }
  return counts;
}

/// By communicator: the transfers on it.
std::vector<std::uint32_t> transfers_of(const Plan& plan) {
  const auto by_slot = transfers_by_slot(plan);
  std::vector<std::uint32_t> transfers(plan.communicators.size(), 0);
  for (std::uint32_t i = 0; i < plan.instances.size(); ++i) {
    const auto& of_slot = by_slot[index(plan.instances[InstanceId{i}].program)];
    const auto slots = plan.slots_of(InstanceId{i});
    for (std::size_t s = 0; s < std::min(slots.size(), of_slot.size()); ++s) transfers[index(slots[s])] = of_slot[s];
  }
  return transfers;
}

/// The fewest transfers on a communicator that is met on often: those with fewer make at most an eighth of all
/// arrivals.
std::uint32_t often(const Members& members, const std::vector<std::uint32_t>& transfers) {
  std::map<std::uint32_t, std::uint64_t> arrivals;
  std::uint64_t all = 0, fewer = 0;
  for (std::uint32_t c = 0; c < members.communicators(); ++c) {
    const std::uint64_t of_communicator = std::uint64_t{transfers[c]} * members.count(c);
    arrivals[transfers[c]] += of_communicator;
    all += of_communicator;
  }
  for (const auto& [count, of_count] : arrivals) {
    fewer += of_count;
    if (fewer > all / 8) return count;
  }
  return 0;
}

template <class Visit>
void each_link(const Plan& plan, const Contention& contention, std::uint32_t communicator, const Visit& visit) {
  const Communicator& c = plan.communicators.rows()[communicator];
  for (std::uint32_t p = 0; p < c.patterns; ++p) {
    for (const WeightedLink& l : contention.links_of(RouteId{index(c.first_route) + p})) visit(index(l.link));
  }
}

/// Puts together who meets often, and who meets seldom where these are not many.
Clusters cluster(const Plan& plan, const Members& members, std::uint64_t most) {
  Clusters clusters(static_cast<std::uint32_t>(plan.instances.size()));
  const std::vector<std::uint32_t> transfers = transfers_of(plan);
  const std::uint32_t seldom = often(members, transfers);
  for (std::uint32_t c = 0; c < members.communicators(); ++c) {
    if (transfers[c] >= seldom && members.count(c) > 0) clusters.join(members.of(c), plan.instances.size());
  }
  for (std::uint32_t i = 0; i < plan.instances.size(); ++i) most = std::max<std::uint64_t>(most, clusters.size(i));
  for (const std::uint32_t c : by_size(members)) {
    if (transfers[c] < seldom && members.count(c) > 0) clusters.join(members.of(c), most);
  }
  return clusters;
}

/// By communicator: all its members are in one cluster.
std::vector<bool> inside(const Members& members, Clusters& clusters) {
  std::vector<bool> all(members.communicators());
  for (std::uint32_t c = 0; c < members.communicators(); ++c) {
    const auto of = members.of(c);
    const auto same = [&](std::uint32_t i) { return clusters.root(i) == clusters.root(of.front()); };
    all[c] = std::all_of(of.begin(), of.end(), same);
  }
  return all;
}

/// Puts clusters together that have a link in common which what is inside of clusters can fill; false where there are
/// none left.
bool join_by_links(const Plan& plan, const Network& network, const Members& members, Clusters& clusters) {
  const std::vector<bool> local = inside(members, clusters);
  const Contention contention = find_contention(plan, network, local);
  constexpr std::uint32_t kNobody = 0xffffffff;
  std::vector<std::uint32_t> user(network.capacity.size(), kNobody);
  bool joined = false;
  for (std::uint32_t c = 0; c < members.communicators(); ++c) {
    if (!local[c] || members.count(c) == 0) continue;
    const std::uint32_t member = members.of(c).front();
    each_link(plan, contention, c, [&](std::uint32_t link) {
      if (user[link] == kNobody) user[link] = member;
      if (clusters.root(user[link]) == clusters.root(member)) return;
      clusters.unite(user[link], member);
      joined = true;
    });
  }
  return joined;
}

/// Whether each joint communicator's transfers keep to links that none but its members' islands use themselves.
bool joints_keep_to_members(const Plan& plan, const Contention& contention, const Members& members, std::size_t links,
                            const Islands& islands) {
  constexpr std::uint32_t kNobody = 0xffffffff, kSeveral = 0xfffffffe;
  std::vector<std::uint32_t> user(links, kNobody), joins(islands.count, kNobody);
  for (std::uint32_t c = 0; c < members.communicators(); ++c) {
    const std::uint32_t island = islands.of_communicator[c];
    if (island == Islands::kJoint) continue;
    each_link(plan, contention, c, [&](std::uint32_t link) {
      user[link] = user[link] == kNobody || user[link] == island ? island : kSeveral;
    });
  }
  bool keep = true;
  for (std::uint32_t c = 0; c < members.communicators(); ++c) {
    if (islands.of_communicator[c] != Islands::kJoint) continue;
    std::uint32_t joined = 0;
    for (const std::uint32_t i : members.of(c)) {
      if (std::exchange(joins[islands.of_instance[i]], c) != c) ++joined;
    }
    each_link(plan, contention, c, [&](std::uint32_t link) {
      if (user[link] == kNobody || joined == islands.count) return;
      if (user[link] == kSeveral || joins[user[link]] != c) keep = false;
    });
  }
  return keep;
}

}  // namespace

Islands find_islands(const Plan& plan, const Network& network, const Contention& contention, std::uint64_t most) {
  Islands out;
  const Members members(plan);
  Clusters clusters = cluster(plan, members, most);
  while (join_by_links(plan, network, members, clusters)) continue;
  std::vector<std::uint32_t> of_root(plan.instances.size(), Islands::kJoint);
  out.of_instance.reserve(plan.instances.size());
  for (std::uint32_t i = 0; i < plan.instances.size(); ++i) {
    std::uint32_t& island = of_root[clusters.root(i)];
    if (island == Islands::kJoint) island = out.count++;
    out.of_instance.push_back(island);
  }
  out.of_communicator.reserve(members.communicators());
  for (std::uint32_t c = 0; c < members.communicators(); ++c) {
    const auto of = members.of(c);
    std::uint32_t island = of.empty() ? 0 : out.of_instance[of.front()];
    for (const std::uint32_t i : of) {
      if (out.of_instance[i] != island) island = Islands::kJoint;
    }
    out.of_communicator.push_back(island);
  }
  if (out.count < 2 || !joints_keep_to_members(plan, contention, members, network.capacity.size(), out)) return {};
  return out;
}

}  // namespace orrery::sim
