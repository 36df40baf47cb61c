// Graphs out of profilers' traces. See from_trace.h.
#include "tools/replay/from_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>

#include "tools/learn/kernel_names.h"
#include "workloads/groups/streams.h"

namespace orrery::tools {

using calibration::CollectiveOp;

namespace {

constexpr std::int64_t kPicosPerNano = 1000;
/// How long after the end of what it waited for a kernel, or a call that blocks, may begin or return at the latest: an
/// event between streams takes some microseconds, waking a thread some tens.
constexpr Nanoseconds kEventDelay = 20'000, kWakeUp = 200'000;
constexpr Nanoseconds kNoGap = 1'000;  // between two kernels one after the other

std::optional<CollectiveOp> op_of(OpClass what) {
  switch (what) {
    case OpClass::all_reduce:
      return CollectiveOp::all_reduce;
    case OpClass::all_gather:
      return CollectiveOp::all_gather;
    case OpClass::reduce_scatter:
      return CollectiveOp::reduce_scatter;
    case OpClass::all_to_all:
      return CollectiveOp::all_to_all;
    case OpClass::send_receive:
      return CollectiveOp::send_receive;
    case OpClass::broadcast:
      return CollectiveOp::broadcast;
    default:
      return {};
  }
}

/// "[0, 1, 2]"; nothing for a list that was cut short.
std::vector<std::int64_t> ranks_in(const std::string& text) {
  std::vector<std::int64_t> ranks;
  const char *at = text.data(), *end = at + text.size();
  while (at < end) {
    if (*at == '.') return {};
    std::int64_t rank = 0;
    const auto [behind, error] = std::from_chars(at, end, rank);
    if (error == std::errc{}) ranks.push_back(rank);
    at = error == std::errc{} ? behind : at + 1;
  }
  return ranks;
}

bool blocks(const std::string& name) {
  return name.find("Synchronize") != std::string::npos || name == "cudaMemcpy" || name == "hipMemcpy" ||
         name == "cudaFree" || name == "cudaMalloc" || name.find("WithStream") != std::string::npos;
}

class TraceGraph {
 public:
  TraceGraph(const Trace& trace, std::int64_t rank, const std::set<std::int64_t>& traced, const Members* members)
      : trace_(trace), rank_(rank), traced_(traced), members_(members), writer_(graph_) {
    graph_.file = trace.file;
    graph_.rank = rank;
    host_ = writer_.lane("host");
    if (members != nullptr && trace.own) slots_ = members->slots(rank);
    quickest_calls();
  }

  RankGraph run() {
    // Calls of the host and the device's work in the order of time, of one instant the call first, which launches.
    std::vector<const HostEvent*> calls;
    for (const HostEvent& call : trace_.host) {
      if (call.kind == HostKind::runtime || (trace_.own && call.kind == HostKind::operation)) calls.push_back(&call);
    }
    std::stable_sort(calls.begin(), calls.end(), [](const auto* a, const auto* b) { return a->end < b->end; });
    std::size_t next = 0;
    for (const DeviceEvent& event : trace_.device) {
      // The launch may return after its kernel has begun: that waits for the launch's beginning then.
      for (; next < calls.size() && (calls[next]->end <= event.start || launches(*calls[next], event)); ++next)
        add_call(*calls[next]);
      add_work(event);
    }
    for (; next < calls.size(); ++next) add_call(*calls[next]);
    graph_.traced = sim::Duration(last_ * kPicosPerNano);
    return std::move(graph_);
  }

 private:
  struct Done {
    std::uint32_t node = 0;
    Nanoseconds end = 0;
    bool any = false;
  };

  bool launches(const HostEvent& call, const DeviceEvent& event) const {
    return call.correlation != kNone && call.correlation == event.correlation;
  }

  /// The work of the device that ended last of what ended within [from, to], but for that of `stream`.
  const Done* ended_within(Nanoseconds from, Nanoseconds to, std::int64_t stream) const {
    const Done* latest = nullptr;
    for (auto at = recent_.rbegin(); at != recent_.rend(); ++at) {
      if (at->first == stream) continue;
      const Done& done = at->second;
      if (done.end >= from && done.end <= to && (latest == nullptr || done.end > latest->end)) latest = &done;
    }
    return latest;
  }

  void remember(std::int64_t stream, std::uint32_t node, Nanoseconds end) {
    recent_.emplace_back(stream, Done{node, end, true});
    if (recent_.size() > kRecent) recent_.erase(recent_.begin(), recent_.begin() + kRecent / 2);
  }

  void add_call(const HostEvent& call) {
    GraphNode node;
    node.kind = NodeKind::host;
    node.lane = host_;
    node.name = writer_.name(trace_.name(call.name));
    Nanoseconds begin = std::max(call.start, host_end_), known = host_end_;
    if (trace_.own) {
      // The host waits between its calls, to the nanosecond until what it waits for has ended.
      const Done* waited = begin > known ? ended_within(begin - 1, begin, kNone) : nullptr;
      if (waited != nullptr) node.waits.push_back(waited->node);
      if (waited != nullptr) known = std::max(known, waited->end);
    } else if (blocks(trace_.name(call.name))) {
      const Done* waited = ended_within(begin, call.end, kNone);
      if (waited != nullptr && call.end - waited->end < kWakeUp) {
        node.waits.push_back(waited->node);
        known = begin = waited->end;
      }
    }
    const Nanoseconds end = std::max(call.end, begin);
    node.gap = sim::Duration(std::max<Nanoseconds>(0, begin - known) * kPicosPerNano);
    node.duration = sim::Duration((end - begin) * kPicosPerNano);
    node.traced = begin * kPicosPerNano;
    const std::uint32_t id = writer_.add(std::move(node));
    host_end_ = std::max(host_end_, end);
    last_ = std::max(last_, end);
    if (call.correlation != kNone) launched_[call.correlation] = {id, end, true};
  }

  void add_work(const DeviceEvent& event) {
    GraphNode node;
    node.name = writer_.name(trace_.name(event.name));
    node.lane = writer_.lane(fmt::format("stream {}", event.stream));
    node.duration = sim::Duration((event.end - event.start) * kPicosPerNano);
    node.traced = event.start * kPicosPerNano;
    Done& before = streams_[event.stream];
    Nanoseconds known = before.any ? before.end : 0;
    const auto launch = launched_.find(event.correlation);
    if (launch != launched_.end()) {
      node.waits.push_back(launch->second.node);
      known = std::max(known, std::min(launch->second.end, event.start));
    }
    const bool call = describe(event, node);
    const CollectiveFacts* facts = event.collective == kNone ? nullptr : &facts_of(event);
    const bool waits_for_peers = call && facts->arrived != kNone;
    const Nanoseconds begin = waits_for_peers ? facts->arrived : event.start;
    const Nanoseconds slack = trace_.own ? 1 : kNoGap, reach = trace_.own ? 1 : kEventDelay;
    if (begin - known > slack) {
      const Done* waited = ended_within(std::max(known + 1, begin - reach), begin, event.stream);
      if (waited != nullptr) node.waits.push_back(waited->node);
      if (waited != nullptr) known = waited->end;
    }
    Nanoseconds gap = std::max<Nanoseconds>(0, begin - known);
    if (call && !peers_traced(node)) gap += event.start - begin + excess(event);
    node.gap = sim::Duration(gap * kPicosPerNano);
    std::erase_if(node.waits, [&](std::uint32_t wait) { return wait >= graph_.nodes.size(); });
    const std::uint32_t id = writer_.add(std::move(node));
    before = {id, event.end, true};
    remember(event.stream, id, event.end);
    last_ = std::max(last_, event.end);
  }

  const CollectiveFacts& facts_of(const DeviceEvent& event) const {
    return trace_.collectives[static_cast<std::size_t>(event.collective)];
  }

  /// Makes the node a call where the trace says enough of it.
  bool describe(const DeviceEvent& event, GraphNode& node) {
    const auto op = op_of(event.what);
    if (!op || event.collective == kNone) return false;
    const CollectiveFacts& facts = facts_of(event);
    if (facts.bytes <= 0) return false;
    node.op = *op;
    node.bytes = facts.bytes;
    if (*op == CollectiveOp::send_receive) return describe_message(event, node);
    const std::string& name = trace_.name(facts.group);
    RankGroup group{name.empty() ? "group" : name, ranks_in(trace_.name(facts.ranks)), facts.group_size};
    if (group.ranks.empty() && members_ != nullptr) {
      if (auto ranks = members_->named(rank_, name, facts.group_size)) group.ranks = std::move(*ranks);
    }
    if (group.size < 2) group.size = static_cast<std::int64_t>(group.ranks.size());
    node.kind = NodeKind::collective;
    node.group = writer_.group(group);
    return true;
  }

  /// This program's own traces tell direction and peer by the stream; others where the group is a pair.
  bool describe_message(const DeviceEvent& event, GraphNode& node) {
    const CollectiveFacts& facts = facts_of(event);
    for (const workloads::GroupSlot& slot : slots_) {
      if (slot.end == workloads::End::member || slot.stream.order + 1 != event.stream) continue;
      const std::vector<std::int64_t> ranks = members_->of_slot(rank_, slot);
      node.kind = slot.end == workloads::End::sends ? NodeKind::send : NodeKind::receive;
      node.peer = slot.end == workloads::End::sends ? ranks.back() : ranks.front();
      node.tag = slot.group.order;
      return true;
    }
    const std::string& operation = trace_.name(facts.operation);
    const std::vector<std::int64_t> ranks = ranks_in(trace_.name(facts.ranks));
    const bool sends = operation.find("send") != std::string::npos;
    const bool receives = operation.find("recv") != std::string::npos || operation.find("receive") != std::string::npos;
    node.kind = sends || !receives ? NodeKind::send : NodeKind::receive;
    if (ranks.size() == 2 && sends != receives) node.peer = ranks[0] == rank_ ? ranks[1] : ranks[0];
    return true;
  }

  bool peers_traced(const GraphNode& node) const {
    if (node.kind != NodeKind::collective) return node.peer != kNoPeer && traced_.contains(node.peer);
    const std::vector<std::int64_t>& ranks = graph_.groups[node.group].ranks;
    return std::any_of(ranks.begin(), ranks.end(),
                       [&](std::int64_t rank) { return rank != rank_ && traced_.contains(rank); });
  }

  using Kind = std::tuple<OpClass, NameId, double>;
  Kind kind_of(const DeviceEvent& event) const { return {event.what, facts_of(event).group, facts_of(event).bytes}; }
  void quickest_calls() {
    for (const DeviceEvent& event : trace_.device) {
      if (event.collective == kNone) continue;
      const Nanoseconds time = event.end - event.start;
      const auto [at, added] = quickest_.try_emplace(kind_of(event), time);
      at->second = std::min(at->second, time);
    }
  }
  /// This program's own traces begin a call when the last member is there.
  Nanoseconds excess(const DeviceEvent& event) const {
    return trace_.own ? 0 : event.end - event.start - quickest_.at(kind_of(event));
  }

  static constexpr std::size_t kRecent = 64;

  const Trace& trace_;
  std::int64_t rank_;
  const std::set<std::int64_t>& traced_;
  const Members* members_;
  RankGraph graph_;
  GraphWriter writer_;
  std::int32_t host_ = 0;
  Nanoseconds host_end_ = 0, last_ = 0;
  std::vector<std::pair<std::int64_t, Done>> recent_;  // stream, work: the last ones, in the order of their starts
  std::map<std::int32_t, Done> streams_;
  std::unordered_map<std::int64_t, Done> launched_;
  std::map<Kind, Nanoseconds> quickest_;
  std::vector<workloads::GroupSlot> slots_;
};

}  // namespace

RankGraph graph_of_trace(const Trace& trace, std::int64_t rank, const std::set<std::int64_t>& traced,
                         const Members* members) {
  return TraceGraph(trace, rank, traced, members).run();
}

}  // namespace orrery::tools
