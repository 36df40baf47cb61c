// Who meets in which call: the members of every group and pair, and what they say of their calls, which must agree.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tools/replay/graph.h"

namespace orrery::tools {

/// What tells communicators apart. A group whose ranks are not known is the rank's own.
struct MeetingKey {
  std::string name;
  std::vector<std::int64_t> ranks;
  std::int64_t tag = 0, alone = kNoPeer;  // alone: the rank
  auto operator<=>(const MeetingKey&) const = default;
};
MeetingKey key_of(const RankGraph& graph, const GraphNode& node);

struct Meeting {
  RankGroup group;
  // What its members call: an all-reduce, an all-to-all, anything but all-to-alls.
  bool message = false, all_reduces = false, exchanges = false, collects = false;
  struct Call {
    calibration::CollectiveOp op{};
    double bytes = 0;
    std::int64_t shortest = std::numeric_limits<std::int64_t>::max();  // traced, ps
  };
  std::vector<Call> seen;         // in their order, as the first member makes them
  std::set<std::size_t> members;  // graphs
};

/// The k-th call of each member is the k-th of all. Throws sim::UserError where members make different calls.
std::map<MeetingKey, Meeting> meetings_of(const std::vector<RankGraph>& graphs);

}  // namespace orrery::tools
