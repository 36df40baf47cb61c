// The engine, for one part of a run; see engine_part.h.
#include "sim/engine_part.h"

#include <algorithm>
#include <bit>
#include <map>
#include <tuple>

#include "sim/error.h"
#include "sim/noise.h"

namespace orrery::sim {

namespace {
constexpr double kUnlimited = std::numeric_limits<double>::infinity();

/// Whether rows of signals are to be shared: that of every operation by itself, for each instance, would fill more than
/// caches, or much memory.
bool many_rows(const Plan& plan, const RunOptions& options) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 22;  // 64 MiB
  if (plan.instances.size() >= options.rows_shared_from) return true;
  std::uint64_t rows = 0;
  for (const Instance& instance : plan.instances) rows += plan.programs[instance.program].size();
  return rows > kMost;
}
}  // namespace

EngineTables::EngineTables(const Plan& planned, const Network& planned_network, const RunOptions& options,
                           const Threads& threads)
    : plan(planned),
      network(planned_network),
      contention(options.alone ? without_contention(network) : find_contention(plan, network)) {
  divide(threads);
  programs.reserve(plan.programs.size());
  const Rows rows = many_rows(plan, options) ? Rows::shared : Rows::of_their_own;
  for (const Program& program : plan.programs) programs.push_back(compile(program, plan.streams, rows));
  routes.reserve(network.routes());
  for (std::uint32_t r = 0; r < network.routes(); ++r) {
    routes.push_back({network.route_latency[r].value(), contention.route_rate[r], contention.route_begin[r],
                      contention.route_begin[r + 1]});
  }
  list_moved();
  if (!options.record.empty()) record.assign(plan.instances.size(), kNotRecorded);
  for (std::uint32_t r = 0; r < options.record.size(); ++r) record[index(options.record[r])] = r;
}

/// Islands run on one thread, at half of what their events cost at instants that all have in common: two threads gain
/// nothing over that.
void EngineTables::divide(const Threads& threads) {
  constexpr std::uint32_t kNoGain = 2;
  const bool stretches =
      std::any_of(plan.programs.begin(), plan.programs.end(), [](const Program& p) { return !p.stretches.empty(); });
  const auto share_out = [&] { partition = sim::partition(plan, contention, network.capacity.size(), threads.count); };
  if (threads.count > kNoGain) share_out();
  if (partition.parts == 1 && !stretches && plan.instances.size() >= threads.ahead_from)
    islands = find_islands(plan, network, contention, threads.ahead_from / 2);
  if (threads.count == kNoGain && islands.count == 0) share_out();
}

void EngineTables::list_moved() {
  using Kind = std::tuple<double, double, std::uint32_t, std::int64_t>;
  std::map<Kind, std::uint32_t> kinds;
  auto last = kinds.try_emplace(Kind{}, 0).first;
  for (std::size_t p = 0; p < programs.size(); ++p) {
    const Program& program = plan.programs.rows()[p];
    std::vector<Moved>& rows = moved.emplace_back();
    rows.reserve(program.size());
    for (const CompiledOp& op : programs[p].ops) {
      Moved& row = rows.emplace_back();
      if (op.slot == kNoSlot) continue;
      row = {program.work[op.op], program.rate_cap[op.op], program.pattern[op.op], 0};
      const Kind kind{row.work, row.cap, row.pattern, op.duration};
      if (kind != last->first)  // mostly what the transfer ahead moves
        last = kinds.try_emplace(kind, static_cast<std::uint32_t>(kinds.size())).first;
      row.kind = last->second;
    }
  }
}

EnginePart::EnginePart(const EngineTables& tables, std::uint32_t number, FairSharing& sharing,
                       std::vector<Record>& records)
    : tables_(tables),
      plan_(tables.plan),
      programs_(tables.programs),
      records_(records),
      transfers_(sharing, number, static_cast<std::uint32_t>(std::bit_width(tables.partition.parts - 1))) {
  post_.number = number;
  for (Mail& mail : post_.mail) mail.arrivals.resize(tables.partition.parts);
  meetings_.joint.assign(tables.partition.joints.size(), kNone);
  list_ranks();
  list_groups();
  list_stretches();
  ahead_.bounds.resize(tables_.islands.count);
  ahead_.bound.assign(tables_.islands.count, kNothing);
}

void EnginePart::list_ranks() {
  const std::vector<std::uint8_t>& part_of = tables_.partition.part_of;
  const auto count = part_of.empty() ? static_cast<std::ptrdiff_t>(plan_.instances.size())
                                     : std::count(part_of.begin(), part_of.end(), post_.number);
  ranks_.reserve(static_cast<std::size_t>(count));
  std::uint32_t signals = 0;
  for (std::uint32_t i = 0; i < plan_.instances.size(); ++i) {
    if (!part_of.empty() && part_of[i] != post_.number) continue;
    const Instance& instance = plan_.instances[InstanceId{i}];
    Rank& rank = ranks_.emplace_back();
    rank.program = index(instance.program);
    rank.slots = plan_.slots_begin[i];
    rank.signals = signals;
    rank.instance = i & kMostInstances;
    rank.scaled = instance.slowdown != 1.0 || plan_.noise.sigma > 0 || plan_.loads.any() ? 1 : 0;
    rank.noise = noise_stream(plan_.noise.seed, instance.noise_key);
    rank.slowdown = instance.slowdown;
    if (!tables_.record.empty()) rank.record = tables_.record[i];
    SIM_CHECK(programs_[rank.program].signals < kNone - signals, "{} instances", plan_.instances.size());
    signals += programs_[rank.program].signals;
  }
  signals_.resize(signals);
  cursors_.resize(ranks_.size() * plan_.streams);
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    const CompiledProgram& program = programs_[ranks_[r].program];
    for (std::uint32_t s = 0; s < plan_.streams; ++s) cursors_of(r)[s].next = program.stream_begin[s];
  }
}

void EnginePart::list_groups() {
  groups_.resize(plan_.communicators.size() + 1);
  for (const Rank& rank : ranks_) {
    for (const CommunicatorId c : plan_.slots_of(InstanceId{rank.instance})) ++groups_[index(c) + 1].members_begin;
  }
  std::vector<std::uint32_t> next;
  next.reserve(plan_.communicators.size());
  for (std::size_t c = 0; c < plan_.communicators.size(); ++c) {
    groups_[c].first_route = index(plan_.communicators.rows()[c].first_route);
    if (!tables_.islands.of_communicator.empty()) groups_[c].island = tables_.islands.of_communicator[c];
    groups_[c + 1].members_begin += groups_[c].members_begin;
    next.push_back(groups_[c].members_begin);
  }
  members_.resize(groups_.back().members_begin);
  for (std::uint32_t r = 0; r < ranks_.size(); ++r) {
    const auto slots = plan_.slots_of(InstanceId{ranks_[r].instance});
    for (std::uint32_t s = 0; s < slots.size(); ++s) members_[next[index(slots[s])]++] = {r, s};
  }
}

/// The rows of meetings that have a rank's number are its stretches'.
void EnginePart::list_stretches() {
  std::vector<InstanceId> instances;
  instances.reserve(ranks_.size());
  for (const Rank& rank : ranks_) instances.push_back(InstanceId{rank.instance});
  stretches_.emplace(plan_, tables_.network, tables_.contention, instances, transfers_);
  if (stretches_->any()) {
    SIM_CHECK(tables_.partition.parts == 1, "stretches in {} parts", tables_.partition.parts);
    meetings_.own = static_cast<std::uint32_t>(ranks_.size());
  }
  meetings_.rows.resize(meetings_.own + plan_.communicators.size());
}

void EnginePart::record(const Rank& rank, std::uint32_t op, std::int64_t ready, std::int64_t start,
                        std::int64_t finish) {
  Record& row = records_[rank.record];
  row.ready[op] = SimTime(ready);
  row.start[op] = SimTime(start);
  row.finish[op] = SimTime(finish);
}

[[gnu::always_inline]] inline void EnginePart::wake(std::uint32_t rank, std::uint32_t stream) {
  Rank& r = ranks_[rank];
  if (r.runnable == 0) ready_.push_back(rank);
  r.runnable |= std::uint32_t{1} << stream;
}

/// Whether all have passed who read what is kept in turn.
inline bool EnginePart::is_read(std::uint32_t rank, std::uint32_t turn) const {
  const CompiledProgram& program = programs_[ranks_[rank].program];
  const Cursor* cursors = cursors_of(rank);
  for (std::uint32_t r = program.turn_begin[turn]; r < program.turn_begin[turn + 1]; ++r) {
    if (cursors[program.readers[r].stream].next < program.readers[r].passed) return false;
  }
  return true;
}

[[gnu::noinline]] void EnginePart::put_by(std::uint32_t rank, const Signal& signal) {
  std::vector<Signal>& signals = put_by_[rank];
  if (signals.size() == signals.capacity())
    std::erase_if(signals, [&](const Signal& s) { return is_read(rank, s.turn); });
  signals.push_back(signal);
  ranks_[rank].put_by = static_cast<std::uint32_t>(signals.size());
}

const EnginePart::Signal* EnginePart::find_put_by(std::uint32_t rank, std::uint32_t op) const {
  for (const Signal& signal : put_by_.at(rank)) {
    if (signal.op == op) return &signal;
  }
  return nullptr;
}

/// The head of `cursor` has finished.
[[gnu::always_inline]] inline void EnginePart::note(Rank& rank, Cursor& cursor, const CompiledOp& op,
                                                    std::int64_t finish) {
  if (finish >= kLatest) [[unlikely]]
    refuse_time("a step");
  cursor.free = finish;
  cursor.blocked_on = kRunnable;
  ++cursor.next;
  ++events_;
  rank.last_finish = std::max(rank.last_finish, finish);
  if (op.signal == kNoSignal) return;
  Signal& signal = signals_[rank.signals + op.signal];
  const auto number = static_cast<std::uint32_t>(&rank - ranks_.data());
  if (op.turn != kNoTurn && signal.op != kNone && !is_read(number, signal.turn)) [[unlikely]]
    put_by(number, signal);
  signal = {finish, op.op, op.turn};
  const Cursor* cursors = cursors_of(number);
  for (std::uint32_t left = rank.waiting; left != 0; left &= left - 1) {
    const auto s = static_cast<std::uint32_t>(std::countr_zero(left));
    if (cursors[s].blocked_on == op.op) wake(number, s);
  }
}

/// Ranks by the thousand do not fit the nearest caches, and most of a run is waiting for their rows. Where many
/// transfers finish at an instant, which is the rule where replicas do the same, the rows of those to come are fetched
/// ahead, in steps, each of which reads what the one before has fetched.
void EnginePart::expect_meetings(std::span<const std::uint32_t> meetings, std::size_t at) const {
  constexpr std::size_t kStep = 3, kMany = 16;
  constexpr std::uint32_t kMost = 4;  // members
  if (meetings.size() < kMany) return;
  const auto meeting_in = [&](std::size_t steps) -> const Meeting* {
    return at + steps * kStep < meetings.size() ? &meetings_.rows[meetings[at + steps * kStep]] : nullptr;
  };
  if (const Meeting* m = meeting_in(5)) __builtin_prefetch(m);
  if (const Meeting* m = meeting_in(4)) __builtin_prefetch(&groups_[m->communicator]);
  if (const Meeting* m = meeting_in(3)) __builtin_prefetch(&members_[groups_[m->communicator].members_begin]);
  for (const std::size_t steps : {std::size_t{2}, std::size_t{1}}) {
    const Meeting* m = meeting_in(steps);
    if (m == nullptr) continue;
    const std::uint32_t begin = groups_[m->communicator].members_begin;
    const std::uint32_t end = std::min(groups_[m->communicator + 1].members_begin, begin + kMost);
    for (std::uint32_t at_member = begin; at_member < end; ++at_member) {
      if (steps == 2)
        expect_rank(members_[at_member].rank);
      else
        expect_finish(members_[at_member], m->occurrence);
    }
  }
}

void EnginePart::expect_rank(std::size_t number) const {
  __builtin_prefetch(&ranks_[number]);
  const auto* cursors = reinterpret_cast<const char*>(cursors_.data() + number * plan_.streams);
  for (std::size_t at = 0; at < sizeof(Cursor) * plan_.streams; at += 64) __builtin_prefetch(cursors + at);
}

/// Where the finish is kept, and what the next operation waits for.
inline void EnginePart::expect_finish(const Member& member, std::uint32_t occurrence) const {
  const Rank& rank = ranks_[member.rank];
  const CompiledProgram& program = programs_[rank.program];
  const std::uint32_t row = program.slot_ops[program.slot_begin[member.slot] + occurrence];
  const CompiledOp& op = program.ops[row];
  if (op.signal != kNoSignal) __builtin_prefetch(&signals_[rank.signals + op.signal], 1);
}

/// What the heads of its runnable streams wait for, and where their finishes are kept.
[[gnu::always_inline]] inline void EnginePart::expect_heads(std::size_t number) const {
  const Rank& rank = ranks_[number];
  const CompiledProgram& program = programs_[rank.program];
  const Signal* signals = signals_.data() + rank.signals;
  for (std::uint32_t left = rank.runnable; left != 0; left &= left - 1) {
    const std::uint32_t next = cursors_of(number)[std::countr_zero(left)].next;
    if (next >= program.ops.size()) continue;
    const CompiledOp& op = program.ops[next];
    for (std::uint32_t w = op.waits_begin; w < op.waits_end; ++w) __builtin_prefetch(signals + program.waits[w].signal);
    if (op.signal != kNoSignal) __builtin_prefetch(signals + op.signal, 1);
  }
}

[[gnu::always_inline]] inline std::uint32_t EnginePart::free_row_of(std::uint32_t communicator) {
  const std::uint32_t own = meetings_.own + communicator;
  if (meetings_.rows[own].arrived == 0) [[likely]]
    return own;
  if (meetings_.unused == kNone) {
    meetings_.unused = static_cast<std::uint32_t>(meetings_.rows.size());
    meetings_.rows.emplace_back();
  }
  const std::uint32_t number = meetings_.unused;
  meetings_.unused = meetings_.rows[number].next;
  return number;
}

/// The meeting of the k-th transfers on a communicator; made when the first member arrives.
[[gnu::always_inline]] inline std::uint32_t EnginePart::meeting_of(std::uint32_t& pending, std::uint32_t communicator,
                                                                   std::uint32_t occurrence, std::uint32_t program,
                                                                   std::uint32_t row) {
  for (std::uint32_t m = pending; m != kNone; m = meetings_.rows[m].next) {
    if (meetings_.rows[m].occurrence == occurrence) return m;
  }
  const std::uint32_t number = free_row_of(communicator);
  Meeting& m = meetings_.rows[number];
  m = Meeting{};
  m.communicator = communicator;
  m.occurrence = occurrence;
  m.program = program;
  m.row = row;
  m.next = pending;
  pending = number;
  return number;
}

[[gnu::always_inline]] inline void EnginePart::take_from(std::uint32_t& pending, std::uint32_t meeting) {
  std::uint32_t* link = &pending;
  while (*link != meeting) link = &meetings_.rows[*link].next;
  *link = meetings_.rows[meeting].next;
  meetings_.rows[meeting].next = kNone;
}

[[gnu::always_inline]] inline void EnginePart::free_meeting(std::uint32_t meeting) {
  meetings_.rows[meeting].arrived = 0;
  if (meeting - meetings_.own < plan_.communicators.size()) return;
  meetings_.rows[meeting].next = meetings_.unused;
  meetings_.unused = meeting;
}

[[gnu::always_inline]] inline void EnginePart::arrive(std::uint32_t number, const CompiledOp& op, std::uint32_t row,
                                                      std::int64_t arrival) {
  const Rank& rank = ranks_[number];
  if (arrival >= kLatest) [[unlikely]]
    refuse_time("a step");
  if (rank.record != kNone) record(rank, op.op, arrival, kNothing, kNothing);
  const std::uint32_t communicator = index(plan_.slots[rank.slots + op.slot]);
  Group& group = groups_[communicator];
  const std::uint32_t meeting = meeting_of(group.pending, communicator, op.occurrence, rank.program, row);
  Meeting& m = meetings_.rows[meeting];
  if (m.program != rank.program || m.row != row) check_agreement(m, rank.program, row);
  m.start = std::max(m.start, arrival);
  if (group.island == Islands::kJoint) [[unlikely]]
    bound_island(number, meeting, arrival);
  if (++m.arrived < members_of(communicator)) return;
  take_from(group.pending, meeting);
  complete(meeting);
}

/// When a compute operation finishes.
inline std::int64_t EnginePart::compute(const Rank& rank, const CompiledOp& op, std::int64_t ready,
                                        std::int64_t host) const {
  std::int64_t duration = op.duration;
  std::int64_t bound = op.host_bound;
  if (rank.scaled) {
    const Program& whole = plan_.programs.rows()[rank.program];
    double factor = rank.slowdown * noise_factor_of(plan_.noise, rank.noise, op.op);
    if (const double share = whole.loaded[op.op]; share > 0) {
      const Instance& instance = plan_.instances[InstanceId{rank.instance}];
      factor *= 1 + share * (load_factor(plan_.loads, instance.load_group, instance.load_place, op.op) - 1);
    }
    const std::int64_t issue = whole.issue[op.op];
    const ScaledCompute scaled = scale_compute(duration, bound, issue, factor);
    duration = scaled.duration;
    bound = scaled.issue_bound;
  }
  return std::max(ready + duration, host + bound);
}

/// Runs one stream ahead until its head waits for something that is not known yet.
[[gnu::always_inline]] inline void EnginePart::run_stream(std::uint32_t number, std::uint32_t stream) {
  Rank& rank = ranks_[number];
  Cursor& cursor = cursors_of(number)[stream];
  rank.waiting &= ~(std::uint32_t{1} << stream);
  if (cursor.blocked_on == kOnTransfer) return;
  const auto wait_for = [&](const Wait& wait) {
    cursor.blocked_on = wait.op;
    rank.waiting |= std::uint32_t{1} << stream;
  };
  const CompiledProgram& program = programs_[rank.program];
  const std::uint32_t end = program.stream_begin[stream + 1];
  const Signal* signals = signals_.data() + rank.signals;
  const auto signal_of = [&](const Wait& wait) -> const Signal* {
    const Signal* signal = signals + wait.signal;
    if (signal->op == wait.op) return signal;
    return rank.put_by > 0 ? find_put_by(number, wait.op) : nullptr;
  };
  while (cursor.next < end) {
    const CompiledOp& op = program.ops[cursor.next];
    std::int64_t ready = cursor.free;
    for (std::uint32_t w = op.waits_begin; w < op.waits_end; ++w) {
      const Wait wait = program.waits[w];
      const Signal* signal = signal_of(wait);
      if (signal == nullptr) return wait_for(wait);
      ready = std::max(ready, signal->at);
    }
    std::int64_t host = op.host_start;
    if (op.segment.signal != kNoSignal) {
      const Signal* signal = signal_of(op.segment);
      if (signal == nullptr) return wait_for(op.segment);
      host += signal->at;
    }
    if (op.kind >= OpKind::stretch) [[unlikely]] {
      cursor.blocked_on = kOnTransfer;
      arrive_at_stretch(number, op, ready, host);
      if (cursor.blocked_on == kOnTransfer) return;
      continue;
    }
    if (op.slot != kNoSlot) {
      cursor.blocked_on = kOnTransfer;
      arrive(number, op, cursor.next, std::max(ready, host + op.host_bound));
      if (cursor.blocked_on == kOnTransfer) return;
      continue;
    }
    const std::int64_t finish = compute(rank, op, ready, host);
    if (rank.record != kNone) record(rank, op.op, std::max(ready, host), std::max(ready, host), finish);
    note(rank, cursor, op, finish);
  }
}

void EnginePart::run_ready() {
  constexpr std::size_t kAhead = 4, kMany = 64;
  const bool many = ready_.size() >= kMany;  // few fit the nearest caches
  while (!ready_.empty()) {
    const std::uint32_t rank = ready_.back();
    ready_.pop_back();
    if (many && ready_.size() >= kAhead) expect_heads(ready_[ready_.size() - kAhead]);
    while (ranks_[rank].runnable != 0) {
      const auto stream = static_cast<std::uint32_t>(std::countr_zero(ranks_[rank].runnable));
      run_stream(rank, stream);
      ranks_[rank].runnable &= ~(std::uint32_t{1} << stream);
    }
  }
}

[[gnu::noinline]] void EnginePart::arrive_at_stretch(std::uint32_t number, const CompiledOp& op, std::int64_t ready,
                                                     std::int64_t host) {
  const Program& program = plan_.programs.rows()[ranks_[number].program];
  const auto end =
      stretches_->arrive(number, {op.kind, op.stream, program.slot[op.op], program.pattern[op.op], ready, host});
  if (end) finish_stretch(number, *end);
}

void EnginePart::finish_stretch(std::uint32_t number, const StretchEnd& end) {
  Rank& rank = ranks_[number];
  const Stretches::Begin& begin = stretches_->begin_of(number);
  const auto finish = [&](std::uint8_t stream, std::int64_t from, std::int64_t to) {
    Cursor& cursor = cursors_of(number)[stream];
    const CompiledOp& op = programs_[rank.program].ops[cursor.next];
    if (rank.record != kNone) record(rank, op.op, from, from, to);
    note(rank, cursor, op, to);
    wake(number, stream);
  };
  finish(begin.transfer_stream, begin.transfers, end.transfers);
  finish(begin.compute_stream, begin.compute, end.compute);
}

inline void EnginePart::check_agreement(const Meeting& meeting, std::uint32_t program, std::uint32_t row) const {
  if (tables_.moved[meeting.program][meeting.row].kind == tables_.moved[program][row].kind) [[likely]]
    return;
  const std::uint32_t op = programs_[program].ops[row].op;
  const Program& first = plan_.programs.rows()[meeting.program];
  const std::uint32_t a = programs_[meeting.program].ops[meeting.row].op;
  const Program& other = plan_.programs.rows()[program];
  SIM_CHECK(first.work[a] == other.work[op] && first.duration[a] == other.duration[op] &&
                first.pattern[a] == other.pattern[op] && first.rate_cap[a] == other.rate_cap[op],
            "transfer {} on communicator {}: operation {} of program {} ({} bytes, {} ps, pattern {}, cap {}) meets "
            "operation {} of program {} ({} bytes, {} ps, pattern {}, cap {})",
            meeting.occurrence, meeting.communicator, a, meeting.program, first.work[a], first.duration[a],
            first.pattern[a], first.rate_cap[a], op, program, other.work[op], other.duration[op], other.pattern[op],
            other.rate_cap[op]);
}

/// All members of this part have arrived.
void EnginePart::complete(std::uint32_t meeting) {
  const Meeting& m = meetings_.rows[meeting];
  const std::uint32_t joint = joint_of(m.communicator);
  if (joint == kNotJoint) return begin(meeting);
  const std::uint32_t owner = tables_.partition.joints[joint].owner;
  post_.mail[post_.writing].arrivals[owner].push_back({m.communicator, m.occurrence, m.program, m.row, m.start});
  free_meeting(meeting);
}

/// All members of a part have arrived, where this part sees to the transfer.
void EnginePart::arrive_jointly(const Arrival& arrival) {
  const std::uint32_t joint = joint_of(arrival.communicator);
  std::uint32_t& pending = meetings_.joint[joint];
  const std::uint32_t meeting =
      meeting_of(pending, arrival.communicator, arrival.occurrence, arrival.program, arrival.row);
  Meeting& m = meetings_.rows[meeting];
  if (m.program != arrival.program || m.row != arrival.row) check_agreement(m, arrival.program, arrival.row);
  m.start = std::max(m.start, arrival.start);
  if (++m.arrived < tables_.partition.joints[joint].parts) return;
  take_from(pending, meeting);
  begin(meeting);
}

/// From the last arrival until bytes begin to move.
inline std::int64_t EnginePart::latency_of(const Meeting& m, const CompiledOp& op, std::int64_t route) const {
  if (plan_.message_noise.sigma == 0) return op.duration + route;
  const std::uint64_t key = plan_.communicators.rows()[m.communicator].noise_key;
  return noisy_latency(plan_.message_noise, key, m.occurrence, op.duration + route);
}

/// All members have arrived.
void EnginePart::begin(std::uint32_t meeting) {
  const Meeting& m = meetings_.rows[meeting];
  const CompiledOp& op = programs_[m.program].ops[m.row];
  const Moved& moved = tables_.moved[m.program][m.row];
  const EngineRoute& route = tables_.routes[groups_[m.communicator].first_route + moved.pattern];
  const std::int64_t fluid = m.start + latency_of(m, op, route.latency);
  if (fluid >= kLatest) [[unlikely]]
    refuse_time("a step");
  const double rate = moved.cap > 0 ? std::min(moved.cap, route.alone) : route.alone;
  if (moved.work > 0 && route.links_begin < route.links_end) {
    const std::span<const WeightedLink> links(tables_.contention.route_links.data() + route.links_begin,
                                              route.links_end - route.links_begin);
    const std::uint32_t island = groups_[m.communicator].island;
    if (island == Islands::kJoint) ++ahead_.under_way;
    transfers_.begin(meeting, fluid, moved.work, links, rate, island == Islands::kJoint ? ahead_joint() : island);
  } else if (moved.work > 0 && route.alone < kUnlimited) {
    finish_meeting(meeting, fluid + fluid_time(moved.work, FairSharing::round_rate(rate)));
  } else {
    finish_meeting(meeting, fluid + unlimited_transfer(moved.work, moved.cap).value());
  }
}

void EnginePart::finish_meeting(std::uint32_t meeting, std::int64_t finish) {
  const Meeting m = meetings_.rows[meeting];
  if (joint_of(m.communicator) == kNotJoint) {
    finish_members(m.communicator, m.occurrence, m.start, finish);
  } else {
    post_.mail[post_.writing].finishes.push_back({m.communicator, m.occurrence, m.start, finish});
  }
  free_meeting(meeting);
}

/// Those of this part.
void EnginePart::finish_members(std::uint32_t communicator, std::uint32_t occurrence, std::int64_t start,
                                std::int64_t finish) {
  const std::uint32_t end = groups_[communicator + 1].members_begin;
  for (std::uint32_t at = groups_[communicator].members_begin; at < end; ++at) {
    const Member member = members_[at];
    Rank& rank = ranks_[member.rank];
    const CompiledProgram& program = programs_[rank.program];
    const CompiledOp& op = program.ops[program.slot_ops[program.slot_begin[member.slot] + occurrence]];
    Cursor& cursor = cursors_of(member.rank)[op.stream];
    if (rank.record != kNone) record(rank, op.op, records_[rank.record].ready[op.op].value(), start, finish);
    note(rank, cursor, op, finish);
    wake(member.rank, op.stream);
  }
}

void EnginePart::start() {
  for (std::size_t rank = ranks_.size(); rank-- > 0;) {
    for (std::uint32_t s = 0; s < plan_.streams; ++s) wake(static_cast<std::uint32_t>(rank), s);
  }
  run_all();
}

void EnginePart::take(std::int64_t now) {
  if (next() != now) return;
  const std::span<const std::uint32_t> meetings = transfers_.take();
  for (std::size_t i = 0; i < meetings.size(); ++i) {
    expect_meetings(meetings, i);
    if (!stretches_->is_stretch(meetings[i])) {
      if (groups_[meetings_.rows[meetings[i]].communicator].island == Islands::kJoint) --ahead_.under_way;
      finish_meeting(meetings[i], now);
    } else if (const auto end = stretches_->go_on(meetings[i])) {
      finish_stretch(meetings[i], *end);
    }
  }
  run_all();
}

void EnginePart::run_all() {
  run_ready();
  while (!transfers_.disturbed().empty()) {
    const std::uint32_t number = transfers_.disturbed().back();
    transfers_.disturbed().pop_back();
    if (const auto end = stretches_->disturb(number)) finish_stretch(number, *end);
    run_ready();
  }
}

/// The island of `rank` has arrived at a joint transfer.
void EnginePart::bound_island(std::uint32_t rank, std::uint32_t meeting, std::int64_t arrival) {
  const Meeting& m = meetings_.rows[meeting];
  const EngineRoute& route =
      tables_.routes[groups_[m.communicator].first_route + tables_.moved[m.program][m.row].pattern];
  const std::int64_t at = arrival + latency_of(m, programs_[m.program].ops[m.row], route.latency);
  const std::uint32_t island = tables_.islands.of_instance[ranks_[rank].instance];
  ahead_.bounds[island].push_back({m.communicator, m.occurrence, meeting, at});
  ahead_.bound[island] = std::min(ahead_.bound[island], at);
}

/// From what has not ended yet.
std::int64_t EnginePart::find_bound(std::uint32_t island) {
  std::vector<Bound>& bounds = ahead_.bounds[island];
  std::erase_if(bounds, [&](const Bound& b) {
    const Meeting& m = meetings_.rows[b.meeting];
    return m.arrived == 0 || m.communicator != b.communicator || m.occurrence != b.occurrence;
  });
  std::int64_t bound = kNothing;
  for (const Bound& b : bounds) bound = std::min(bound, b.at);
  return ahead_.bound[island] = bound;
}

void EnginePart::run_island(std::uint32_t island, FairSharing& sharing) {
  transfers_.enter(island);
  while (!transfers_.empty() && transfers_.next() < ahead_.bound[island]) {
    const std::int64_t now = transfers_.next();
    do {
      sharing.make_room(transfers_.flows());
      take(now);
    } while (next() == now);
    for (const std::uint32_t flow : sharing.solve()) transfers_.predict(flow, now);
  }
  transfers_.leave();
}

/// Dividing events among islands costs something for each of them; where it has led to little more than as many,
/// islands wait longer before they try again.
void EnginePart::run_ahead(FairSharing& sharing) {
  constexpr std::uint32_t kMostPatience = 64;
  const std::uint32_t islands = tables_.islands.count;
  if (islands == 0 || ahead_.under_way > 0 || --ahead_.wait > 0) return;
  const std::uint64_t before = events();
  transfers_.divide(islands + 1);
  for (bool on = true; on && ahead_.under_way == 0;) {
    on = false;
    for (std::uint32_t island = 0; island < islands; ++island) {
      if (transfers_.next_of(island) >= find_bound(island)) continue;
      run_island(island, sharing);
      on = true;
    }
  }
  transfers_.unite();
  const bool paid = events() - before > 4 * ranks_.size();
  ahead_.patience = paid ? 1 : std::min(2 * ahead_.patience, kMostPatience);
  ahead_.wait = ahead_.patience;
}

bool EnginePart::has_posted() const {
  const Mail& mail = post_.mail[post_.writing];
  return !mail.finishes.empty() || std::any_of(mail.arrivals.begin(), mail.arrivals.end(),
                                               [](const auto& arrivals) { return !arrivals.empty(); });
}

void EnginePart::turn_mail() {
  post_.writing ^= 1;
  Mail& mail = post_.mail[post_.writing];
  mail.finishes.clear();
  for (auto& arrivals : mail.arrivals) arrivals.clear();
}

void EnginePart::read_mail(std::span<const std::unique_ptr<EnginePart>> parts) {
  for (const auto& from : parts) {
    const Mail& mail = from->post_.mail[from->post_.writing ^ 1];
    for (const Arrival& arrival : mail.arrivals[post_.number]) arrive_jointly(arrival);
    for (const Finish& f : mail.finishes) finish_members(f.communicator, f.occurrence, f.start, f.finish);
  }
  run_ready();
}

bool EnginePart::finished() const {
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    const CompiledProgram& program = programs_[ranks_[rank].program];
    for (std::uint32_t s = 0; s < plan_.streams; ++s) {
      if (cursors_of(rank)[s].next != program.stream_begin[s + 1]) return false;
    }
  }
  return true;
}

/// By cursor: the meeting at which its head has arrived.
std::vector<std::uint32_t> EnginePart::meetings_by_stream() const {
  std::vector<std::uint32_t> meetings(cursors_.size(), kNone);
  for (std::uint32_t c = 0; c + 1 < groups_.size(); ++c) {
    for (std::uint32_t m = groups_[c].pending; m != kNone; m = meetings_.rows[m].next) {
      for (std::uint32_t at = groups_[c].members_begin; at < groups_[c + 1].members_begin; ++at) {
        const Rank& rank = ranks_[members_[at].rank];
        const CompiledProgram& program = programs_[rank.program];
        const std::uint32_t slot = members_[at].slot;
        if (slot + 1 >= program.slot_begin.size()) continue;
        const std::uint32_t k = program.slot_begin[slot] + meetings_.rows[m].occurrence;
        if (k >= program.slot_begin[slot + 1]) continue;
        const std::uint32_t row = program.slot_ops[k];
        const std::uint32_t cursor = members_[at].rank * plan_.streams + program.ops[row].stream;
        if (cursors_[cursor].next == row && cursors_[cursor].blocked_on == kOnTransfer) meetings[cursor] = m;
      }
    }
  }
  return meetings;
}

std::vector<Stuck> EnginePart::stuck() const {
  constexpr std::size_t kMostStuck = 64;
  std::vector<Stuck> all;
  const std::vector<std::uint32_t> meetings = meetings_by_stream();
  // Transfers first: they name the cause, streams that wait for other streams only follow.
  for (const bool transfers : {true, false}) {
    for (std::uint32_t i = 0; i < ranks_.size(); ++i) {
      const CompiledProgram& program = programs_[ranks_[i].program];
      for (std::uint32_t s = 0; s < plan_.streams; ++s) {
        const std::uint32_t stream = i * plan_.streams + s;
        const Cursor& cursor = cursors_[stream];
        const std::uint32_t m = meetings[stream];
        if (cursor.next == program.stream_begin[s + 1] || (m != kNone) != transfers) continue;
        if (all.size() == kMostStuck) return all;
        Stuck stuck{instance_of(i), program.ops[cursor.next].op, CommunicatorId{}, 0, 0};
        if (m != kNone) {
          stuck.communicator = CommunicatorId{meetings_.rows[m].communicator};
          stuck.arrived = meetings_.rows[m].arrived;
          stuck.members = plan_.communicators[stuck.communicator].members;
        }
        all.push_back(stuck);
      }
    }
  }
  return all;
}

}  // namespace orrery::sim
