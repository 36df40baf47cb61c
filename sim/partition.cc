// Parts of a plan; see partition.h.
#include "sim/partition.h"

#include <algorithm>

#include "sim/clusters.h"

namespace orrery::sim {

namespace {

/// Deals clusters out in turn: neighbours are mostly alike, and what is alike is then at work in all parts at a time.
std::vector<std::uint8_t> deal_out(Clusters& clusters, std::uint32_t instances, std::uint32_t parts) {
  std::vector<std::uint32_t> size(instances, 0);
  for (std::uint32_t i = 0; i < instances; ++i) ++size[clusters.root(i)];
  constexpr std::uint8_t kUnassigned = 0xff;
  std::vector<std::uint8_t> of_root(instances, kUnassigned), part_of(instances);
  std::vector<std::uint64_t> dealt(parts, 0);
  for (std::uint32_t i = 0; i < instances; ++i) {
    const std::uint32_t r = clusters.root(i);
    if (of_root[r] == kUnassigned) {
      const auto fewest = std::min_element(dealt.begin(), dealt.end());
      of_root[r] = static_cast<std::uint8_t>(fewest - dealt.begin());
      *fewest += size[r];
    }
    part_of[i] = of_root[r];
  }
  return part_of;
}

void list_joints(const Members& members, Partition& out) {
  out.joint_of.assign(members.communicators(), kNotJoint);
  std::vector<std::uint32_t> seen(out.parts, kNotJoint);
  for (std::uint32_t c = 0; c < members.communicators(); ++c) {
    std::uint32_t parts = 0;
    for (const std::uint32_t i : members.of(c)) {
      if (std::exchange(seen[out.part_of[i]], c) != c) ++parts;
    }
    if (parts < 2) continue;
    out.joint_of[c] = static_cast<std::uint32_t>(out.joints.size());
    out.joints.push_back({CommunicatorId{c}, parts, out.joint_of[c] % out.parts});
  }
}

/// A link goes to the part most of whose own routes cross it.
void own_links(const Plan& plan, const Contention& contention, const Members& members, std::size_t links,
               Partition& out) {
  std::vector<std::uint32_t> crossing(links * out.parts, 0);
  std::vector<bool> jointly(links, false);
  for (std::uint32_t c = 0; c < members.communicators(); ++c) {
    if (members.count(c) == 0) continue;
    const Communicator& communicator = plan.communicators.rows()[c];
    const bool joint = out.joint_of[c] != kNotJoint;
    const std::uint32_t part = out.part_of[members.of(c).front()];
    for (std::uint32_t p = 0; p < communicator.patterns; ++p) {
      for (const WeightedLink& l : contention.links_of(RouteId{index(communicator.first_route) + p})) {
        if (joint) {
          jointly[index(l.link)] = true;
        } else {
          ++crossing[index(l.link) * out.parts + part];
        }
      }
    }
  }
  out.owners.reserve(links);
  for (std::size_t l = 0; l < links; ++l) {
    const auto begin = crossing.begin() + static_cast<std::ptrdiff_t>(l * out.parts), end = begin + out.parts;
    const auto most = std::max_element(begin, end);
    const auto part = *most == 0 ? l % out.parts : static_cast<std::size_t>(most - begin);
    const bool others = std::count_if(begin, end, [](std::uint32_t n) { return n > 0; }) > 1;
    out.owners.push_back({static_cast<std::uint8_t>(part), others || jointly[l]});
  }
}

}  // namespace

Partition partition(const Plan& plan, const Contention& contention, std::size_t links, std::uint32_t most) {
  constexpr std::uint32_t kMostParts = 64;
  Partition out;
  const auto instances = static_cast<std::uint32_t>(plan.instances.size());
  most = std::min({most, kMostParts, instances});
  if (most < 2) return out;
  const Members members(plan);
  Clusters clusters(instances);
  // Half a part: what is larger would leave parts of unequal sizes.
  const std::uint64_t largest = std::max<std::uint64_t>(1, instances / (2 * most));
  for (const std::uint32_t c : by_size(members)) clusters.join(members.of(c), largest);
  out.parts = most;
  out.part_of = deal_out(clusters, instances, most);
  list_joints(members, out);
  own_links(plan, contention, members, links, out);
  return out;
}

}  // namespace orrery::sim
