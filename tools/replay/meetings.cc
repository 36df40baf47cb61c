// Members and their calls. See meetings.h.
#include "tools/replay/meetings.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/error.h"

namespace orrery::tools {

using calibration::CollectiveOp;

MeetingKey key_of(const RankGraph& graph, const GraphNode& node) {
  if (node.kind == NodeKind::collective) {
    const RankGroup& group = graph.groups[node.group];
    return {group.name, group.ranks, 0, group.ranks.empty() ? graph.rank : kNoPeer};
  }
  if (node.peer == kNoPeer) return {"message", {}, node.tag, graph.rank};
  const bool sends = node.kind == NodeKind::send;
  return {"message", {sends ? graph.rank : node.peer, sends ? node.peer : graph.rank}, node.tag, kNoPeer};
}

namespace {

void take(const RankGraph& graph, const GraphNode& node, std::size_t turn, std::size_t g, Meeting& meeting) {
  const bool first = *meeting.members.begin() == g && meeting.members.size() == 1;
  if (first) meeting.seen.push_back({node.op, node.bytes, std::numeric_limits<std::int64_t>::max()});
  if (turn >= meeting.seen.size() || meeting.seen[turn].op != node.op) {
    throw sim::UserError(
        {graph.file, 1, 1}, meeting.group.name,
        fmt::format("got {} as call {} of rank {}, expected {} as another member of the group has it", name_of(node.op),
                    turn + 1, graph.rank, turn < meeting.seen.size() ? name_of(meeting.seen[turn].op) : "none"));
  }
  Meeting::Call& call = meeting.seen[turn];
  call.shortest = std::min(call.shortest, node.duration.value());
  meeting.all_reduces |= node.op == CollectiveOp::all_reduce;
  meeting.exchanges |= node.op == CollectiveOp::all_to_all;
  meeting.collects |= node.op != CollectiveOp::all_to_all;
}

}  // namespace

std::map<MeetingKey, Meeting> meetings_of(const std::vector<RankGraph>& graphs) {
  std::map<MeetingKey, Meeting> meetings;
  for (std::size_t g = 0; g < graphs.size(); ++g) {
    const RankGraph& graph = graphs[g];
    std::map<Meeting*, std::size_t> made;
    for (const GraphNode& node : graph.nodes) {
      if (!node.communicates()) continue;
      const MeetingKey key = key_of(graph, node);
      Meeting& meeting = meetings[key];
      if (meeting.members.insert(g).second && meeting.members.size() == 1) {
        meeting.message = node.kind != NodeKind::collective;
        if (meeting.message)
          meeting.group = {"message", key.ranks, 2};
        else
          meeting.group = graph.groups[node.group];
      }
      take(graph, node, made[&meeting]++, g, meeting);
    }
    for (const auto& [meeting, calls] : made) {
      if (calls == meeting->seen.size()) continue;
      const RankGraph& first = graphs[*meeting->members.begin()];
      throw sim::UserError({graph.file, 1, 1}, meeting->group.name,
                           fmt::format("got {} calls of rank {}, expected the {} that rank {} makes", calls, graph.rank,
                                       meeting->seen.size(), first.rank));
    }
  }
  return meetings;
}

}  // namespace orrery::tools
