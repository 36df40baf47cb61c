// Parts of a plan for several threads. Instances that meet in small communicators (a tensor group, the stages of a
// replica) belong together, so that what joins parts are the few large ones, as a rule the groups of data parallelism:
// communicators are taken from the smallest up, and each puts its members together while these are not too many for one
// part. What has then come together is dealt out in turn.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/contention.h"
#include "sim/plan.h"
#include "sim/sharing_tables.h"

namespace orrery::sim {

inline constexpr std::uint32_t kNotJoint = 0xffffffff;

/// A communicator with members in several parts.
struct Joint {
  CommunicatorId communicator{};
  std::uint32_t parts = 0;  // that have members
  std::uint32_t owner = 0;  // the part that sees to its transfers
};

struct Partition {
  std::uint32_t parts = 1;
  // Empty where there is one part.
  std::vector<std::uint8_t> part_of;    // by instance
  std::vector<std::uint32_t> joint_of;  // by communicator: a row of `joints`, or kNotJoint
  std::vector<Joint> joints;
  std::vector<LinkOwner> owners;  // by link
};

/// At most `most` parts, fewer where the plan does not fall into so many. Time grows with the plan's slots and routes.
Partition partition(const Plan& plan, const Contention& contention, std::size_t links, std::uint32_t most);

}  // namespace orrery::sim
