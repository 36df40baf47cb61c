// Each rank becomes a program, each of its lanes a stream, each group or direction of a pair a communicator. A node's
// idle time belongs to computing where it has some, and is an operation before a call.
#include "tools/replay/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <tuple>

#include "sim/engine.h"
#include "sim/error.h"
#include "tools/replay/meetings.h"
#include "workloads/collectives/collective.h"

namespace orrery::tools {

using calibration::CollectiveOp;

namespace {

/// A meeting on the network.
struct Placed {
  workloads::GroupShape shape;
  sim::CommunicatorId id{}, exchange{};  // exchange: of all-to-alls, which load other links; each where it is called
};

/// Whether the cluster has the rank.
void check_rank(const RankGraph& graph, std::int64_t rank, const std::string& what, const ReplayNetwork* on) {
  if (on == nullptr) return;
  if (rank >= 0 && rank < on->cluster.gpus()) return;
  throw sim::UserError(
      {graph.file, 1, 1}, what,
      fmt::format("got rank {}, expected 0 to {}, the GPUs of the cluster", rank, on->cluster.gpus() - 1));
}

void check_ranks(const std::vector<RankGraph>& graphs, const ReplayNetwork* on) {
  std::set<std::int64_t> seen;
  for (const RankGraph& graph : graphs) {
    if (!seen.insert(graph.rank).second)
      throw sim::UserError({graph.file, 1, 1}, "rank", fmt::format("got {} twice, expected a rank once", graph.rank));
    check_rank(graph, graph.rank, "rank", on);
    if (graph.lanes.size() > kMostLanes)
      throw sim::UserError(
          {graph.file, 1, 1}, "streams",
          fmt::format("got {} streams and threads, expected at most {}", graph.lanes.size(), kMostLanes));
    for (const RankGroup& group : graph.groups) {
      std::set<std::int64_t> members;
      for (const std::int64_t rank : group.ranks) {
        check_rank(graph, rank, "group " + group.name, on);
        members.insert(rank);
      }
      if (group.ranks.empty() || (members.size() == group.ranks.size() && members.contains(graph.rank))) continue;
      throw sim::UserError({graph.file, 1, 1}, "group " + group.name,
                           fmt::format("got a list of {} ranks, expected rank {} and others, each once",
                                       group.ranks.size(), graph.rank));
    }
    for (const GraphNode& node : graph.nodes) {
      if (node.peer == kNoPeer) continue;
      check_rank(graph, node.peer, "peer of " + graph.names[node.name], on);
      if (node.peer == graph.rank)
        throw sim::UserError({graph.file, 1, 1}, "peer of " + graph.names[node.name],
                             fmt::format("got rank {} itself, expected another", graph.rank));
    }
  }
}

/// A message has two ends. Where several ranks were traced, one that names a rank without a trace has lost it; members
/// of a collective do alike, so that some may stand for all, and one rank alone is replayed with what it waited.
void check_ends(const std::vector<RankGraph>& graphs) {
  if (graphs.size() < 2) return;
  std::set<std::int64_t> traced;
  for (const RankGraph& graph : graphs) traced.insert(graph.rank);
  for (const RankGraph& graph : graphs) {
    for (const GraphNode& node : graph.nodes) {
      if (node.peer == kNoPeer || traced.contains(node.peer)) continue;
      throw sim::UserError({graph.file, 1, 1}, "peer of " + graph.names[node.name],
                           fmt::format("got rank {}, which has no trace, expected traces of both ends of a message, or "
                                       "of one rank alone",
                                       node.peer));
    }
  }
}

/// What was taken for granted.
std::vector<std::string> assumptions_of(const std::vector<RankGraph>& graphs,
                                        const std::map<MeetingKey, Meeting>& meetings, bool network,
                                        std::size_t unknown_groups) {
  std::vector<std::string> out;
  if (!network) out.emplace_back("no network given: every call takes the shortest time that a member traced");
  if (unknown_groups > 0)
    out.push_back(
        fmt::format("{} groups do not say their ranks: their calls take the time that was traced", unknown_groups));
  std::set<std::int64_t> traced, named;
  for (const RankGraph& graph : graphs) traced.insert(graph.rank);
  for (const auto& [key, meeting] : meetings) named.insert(meeting.group.ranks.begin(), meeting.group.ranks.end());
  std::erase_if(named, [&](std::int64_t rank) { return traced.contains(rank); });
  if (!named.empty())
    out.push_back(
        fmt::format("{} ranks of the groups have no trace: they arrive when those with one do", named.size()));
  for (const RankGraph& graph : graphs) out.insert(out.end(), graph.notes.begin(), graph.notes.end());
  return out;
}

/// `ops`: by graph and node.
Replayed report_of(const std::vector<RankGraph>& graphs, const std::map<MeetingKey, Meeting>& meetings,
                   const std::vector<std::vector<std::uint32_t>>& ops, const sim::Result& result) {
  Replayed out;
  out.replayed_s = sim::to_seconds(sim::Duration(result.makespan.value()));
  std::map<std::tuple<std::string, std::string, std::int64_t, double>, ReplayedCalls> calls;
  for (std::size_t g = 0; g < graphs.size(); ++g) {
    const RankGraph& graph = graphs[g];
    ReplayedRank rank{graph.rank, sim::to_seconds(graph.traced), 0, 0};
    for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
      const GraphNode& node = graph.nodes[n];
      const sim::Record& record = result.records[g];
      const std::uint32_t op = ops[g][n];
      rank.replayed_s = std::max(rank.replayed_s, sim::to_seconds(sim::Duration(record.finish[op].value())));
      if (node.kind == NodeKind::compute) rank.compute_s += sim::to_seconds(node.duration);
      if (!node.communicates()) continue;
      const Meeting& meeting = meetings.at(key_of(graph, node));
      const std::string operation(name_of(node.op));
      ReplayedCalls& row = calls[{operation, meeting.group.name, meeting.group.size, node.bytes}];
      row.operation = operation;
      row.group = meeting.group.name;
      row.ranks = meeting.group.size;
      row.bytes = node.bytes;
      ++row.calls;
      row.traced_s += sim::to_seconds(node.duration);
      row.replayed_s += sim::to_seconds(record.finish[op] - record.start[op]);
    }
    out.nodes += graph.nodes.size();
    out.traced_s = std::max(out.traced_s, rank.traced_s);
    out.ranks.push_back(rank);
  }
  for (auto& [key, row] : calls) out.calls.push_back(std::move(row));
  std::stable_sort(out.calls.begin(), out.calls.end(),
                   [](const ReplayedCalls& a, const ReplayedCalls& b) { return a.replayed_s > b.replayed_s; });
  for (ReplayedCalls& row : out.calls) {
    row.traced_s /= static_cast<double>(row.calls);
    row.replayed_s /= static_cast<double>(row.calls);
  }
  return out;
}

class Replay {
 public:
  Replay(const std::vector<RankGraph>& graphs, const ReplayNetwork* on) : graphs_(graphs), on_(on) {}

  Replayed run() {
    check_ranks(graphs_, on_);
    check_ends(graphs_);
    meetings_ = meetings_of(graphs_);
    lay_network();
    std::vector<sim::InstanceId> instances;
    for (std::size_t g = 0; g < graphs_.size(); ++g) instances.push_back(compile(g));
    const sim::Result result = sim::run(plan_, network_, {instances});
    if (result.outcome != sim::Outcome::finished) refuse_stuck(result);
    Replayed out = report_of(graphs_, meetings_, ops_, result);
    out.assumptions = assumptions_of(graphs_, meetings_, on_ != nullptr, unknown_groups_);
    return out;
  }

 private:
  std::int64_t gpu_of(std::int64_t rank) const {
    return on_->gpus.empty() ? rank : on_->gpus[static_cast<std::size_t>(rank)];
  }

  void lay_network() {
    if (on_ != nullptr) {
      for (const auto& link : on_->cluster.links()) network_.add_link(link.capacity);
    }
    const sim::RouteId nowhere = network_.add_route({}, {});
    for (auto& [key, meeting] : meetings_) {
      const auto members = static_cast<std::uint32_t>(meeting.members.size());
      const bool known = on_ != nullptr && meeting.group.ranks.size() > 1;
      if (on_ != nullptr && !known && meeting.group.size > 1) ++unknown_groups_;
      const auto add = [&](sim::RouteId first, std::uint32_t patterns) {
        return plan_.communicators.push_back({members, first, patterns, plan_.communicators.size()});
      };
      Placed& placed = placed_[&meeting];
      if (!known) {
        placed.id = placed.exchange = add(nowhere, 1);
        continue;
      }
      std::vector<std::int64_t> gpus;
      for (const std::int64_t rank : meeting.group.ranks) gpus.push_back(gpu_of(rank));
      const topology::Cluster& cluster = on_->cluster;
      placed.shape = workloads::shape_of(gpus, cluster);
      if (meeting.message) {
        placed.id = add(workloads::add_pair_route(network_, gpus[0], gpus[1], cluster), 1);
        continue;
      }
      const workloads::GroupCalls calls{meeting.all_reduces,
                                        workloads::with_own_routes(on_->software.library.collective_algorithms)};
      if (meeting.collects) {
        placed.id = add(workloads::add_group_routes(network_, gpus, placed.shape, calls, cluster),
                        workloads::patterns_of(placed.shape, calls));
      }
      if (meeting.exchanges)
        placed.exchange = add(workloads::add_exchange_route(network_, gpus, cluster, placed.shape.exchange), 1);
    }
  }

  /// Communicators of a rank by slot; a meeting has two, its own and that of its all-to-alls.
  struct Slots {
    std::map<std::uint32_t, std::uint32_t> of;  // communicator -> slot
    std::vector<sim::CommunicatorId> ids;
    std::uint32_t slot(sim::CommunicatorId id) {
      const auto [at, added] = of.try_emplace(sim::index(id), static_cast<std::uint32_t>(ids.size()));
      if (added) ids.push_back(id);
      return at->second;
    }
  };

  /// A call as the network has it.
  sim::Op call_op(const Meeting& meeting, const Meeting::Call& call, Slots& slots) const {
    sim::Op op;
    op.kind = sim::OpKind::transfer;
    const bool exchange = call.op == CollectiveOp::all_to_all;
    const Placed& placed = placed_.at(&meeting);
    op.slot = slots.slot(exchange ? placed.exchange : placed.id);
    if (on_ == nullptr || meeting.group.ranks.size() < 2) {
      op.duration = sim::Duration(call.shortest);
      return op;
    }
    const workloads::CollectiveCost cost =
        meeting.message
            ? workloads::send_cost(call.bytes, placed.shape.nodes == 1, on_->device, on_->software)
            : workloads::collective_cost(call.op, call.bytes, placed.shape, on_->device, on_->software, on_->cluster);
    op.duration = cost.latency;
    op.work = cost.work;
    op.rate_cap = cost.rate_cap;
    op.pattern = exchange ? 0 : static_cast<std::uint32_t>(cost.pattern);
    return op;
  }

  sim::InstanceId compile(std::size_t g) {
    const RankGraph& graph = graphs_[g];
    sim::Program program;
    Slots slots;
    std::map<const Meeting*, std::size_t> turns;
    std::vector<std::uint32_t> op_of, waits;
    plan_.streams = std::max<std::uint8_t>(plan_.streams, static_cast<std::uint8_t>(graph.lanes.size()));
    for (const GraphNode& node : graph.nodes) {
      waits.clear();
      for (const std::uint32_t wait : node.waits) waits.push_back(op_of[wait]);
      std::sort(waits.begin(), waits.end());
      waits.erase(std::unique(waits.begin(), waits.end()), waits.end());
      sim::Op own;
      own.stream = static_cast<std::uint8_t>(node.lane);
      own.duration = node.gap + (node.communicates() ? sim::Duration{} : node.duration);
      if (!node.communicates()) {
        op_of.push_back(program.add(own, waits));
        continue;
      }
      if (node.gap.value() > 0) {
        waits = {program.add(own, waits)};
      }
      const Meeting& meeting = meetings_.at(key_of(graph, node));
      sim::Op call = call_op(meeting, meeting.seen[turns[&meeting]++], slots);
      call.stream = own.stream;
      op_of.push_back(program.add(call, waits));
    }
    ops_.push_back(std::move(op_of));
    return plan_.add_instance({plan_.programs.push_back(std::move(program)), 1.0, g}, slots.ids);
  }

  [[noreturn]] void refuse_stuck(const sim::Result& result) const {
    const sim::Stuck& stuck = result.stuck.front();
    const RankGraph& graph = graphs_[sim::index(stuck.instance)];
    throw sim::UserError({graph.file, 1, 1}, "order",
                         fmt::format("got calls for which ranks wait for each other (rank {}, {} of {} arrived), "
                                     "expected traces of one run, all ranks in the same order",
                                     graph.rank, stuck.arrived, stuck.members));
  }

  const std::vector<RankGraph>& graphs_;
  const ReplayNetwork* on_;
  std::map<MeetingKey, Meeting> meetings_;
  std::map<const Meeting*, Placed> placed_;
  sim::Plan plan_;
  sim::Network network_;
  std::vector<std::vector<std::uint32_t>> ops_;  // by graph and node
  std::size_t unknown_groups_ = 0;
};

}  // namespace

Replayed replay(const std::vector<RankGraph>& graphs, const ReplayNetwork* network) {
  return Replay(graphs, network).run();
}

}  // namespace orrery::tools
