// The engine. Two clocks run in it:
//  - What needs no network runs ahead. The finish of a compute operation is known as soon as the times that it
//    depends on are, and so is that of a transfer that no link limits; each instance is therefore run forward without
//    events until all its streams wait for something that is not known yet.
//  - What shares links needs one order of time: sim/fluid.h, from the instant at which the last member of a
//    communicator has arrived and the latency has passed. Which links are shared sim/contention.h says beforehand.
// Running ahead is safe because everything that an event at `now` makes known lies at or after `now`.
//
// A row of `meetings_` is one transfer: the k-th on its communicator. Left out: links that change their capacity while
// the step runs.
#include "sim/engine.h"

#include <algorithm>
#include <bit>

#include "sim/compiled.h"
#include "sim/contention.h"
#include "sim/error.h"
#include "sim/fluid.h"
#include "sim/large_pages.h"
#include "sim/noise.h"

namespace orrery::sim {

namespace {

constexpr std::int64_t kUnknown = std::numeric_limits<std::int64_t>::max();
constexpr double kUnlimited = std::numeric_limits<double>::infinity();
constexpr std::uint32_t kNone = 0xffffffff;
constexpr std::uint32_t kRunnable = 0xfffffffe;    // Cursor::blocked_on when nothing is known to block it
constexpr std::uint32_t kOnTransfer = 0xfffffffd;  // its head has arrived at a meeting

/// When operation `op` of the instance finished; another operation before that.
struct Signal {
  std::int64_t at = kUnknown;
  std::uint32_t op = kNone;
};

struct Rank {
  std::uint32_t program = 0;
  std::uint32_t slots = 0;     // first row of its slots
  std::uint32_t runnable = 0;  // bit per stream
  std::uint32_t waiting = 0;   // likewise: its head waits for a signal, or did until it was made runnable
  std::uint64_t signals = 0;   // first row of its signals
  std::int64_t last_finish = 0;
  std::uint32_t record = kNone;
  bool scaled = false;  // slowdown, noise or loads apply
};

struct Cursor {
  std::int64_t free = 0;  // the stream's last operation has finished
  std::uint32_t next = 0;
  std::uint32_t blocked_on = kRunnable;  // a signal, or one of the above
};

struct Member {
  std::uint32_t rank = 0;
  std::uint32_t slot = 0;
};

struct Meeting {
  std::uint32_t communicator = 0;
  std::uint32_t occurrence = 0;
  std::uint32_t arrived = 0;
  std::uint32_t next = kNone;  // of the same communicator, not yet complete; or the next unused row
  std::uint32_t program = 0;   // of the first member to arrive; what it says all must say
  std::uint32_t row = 0;
  std::int64_t start = 0;  // the last arrival so far
};

/// A communicator, with all that a meeting on it asks for in one place.
struct Group {
  std::uint32_t members = 0;        // arrivals that a transfer waits for
  std::uint32_t first_route = 0;    // of its patterns
  std::uint32_t members_begin = 0;  // rows of `members_`, up to those of the next
  std::uint32_t pending = kNone;    // its first incomplete meeting
};

/// A route likewise: latency, what it moves alone, and the rows of Contention::route_links that can stop it.
struct Route {
  std::int64_t latency = 0;  // ps
  double alone = 0;          // bytes/s; infinity without links
  std::uint32_t links_begin = 0, links_end = 0;
};

/// What a transfer of a program moves, by row of its operations; compute operations have rows of nothing.
struct Moved {
  double work = 0;  // bytes
  double cap = 0;   // bytes/s; 0: none
  std::uint32_t pattern = 0;
};

/// Whether rows of signals are to be shared: that of every operation by itself, for each instance, would fill more than
/// caches, or much memory.
bool many_rows(const Plan& plan, const RunOptions& options) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 22;  // 64 MiB
  if (plan.instances.size() >= options.rows_shared_from) return true;
  std::uint64_t rows = 0;
  for (const Instance& instance : plan.instances) rows += plan.programs[instance.program].size();
  return rows > kMost;
}

class Engine {
 public:
  Engine(const Plan& plan, const Network& network, const RunOptions& options);
  Result run();

 private:
  void list_groups();
  void list_routes(const Network& network);
  void list_moved();
  void prepare_records(const RunOptions& options);
  void expect_meeting(std::span<const std::uint32_t> meetings, std::size_t at) const;
  void expect_rank(std::size_t number) const;
  Cursor* cursors_of(std::size_t rank) { return cursors_.data() + rank * plan_.streams; }
  void run_ready();
  void run_stream(std::uint32_t rank, std::uint32_t stream);
  void note(Rank& rank, Cursor& cursor, const CompiledOp& op, std::int64_t finish);
  void arrive(std::uint32_t rank, const CompiledOp& op, std::uint32_t row, std::int64_t arrival);
  std::uint32_t meeting_of(std::uint32_t communicator, std::uint32_t occurrence, std::uint32_t program,
                           std::uint32_t row);
  void check_agreement(const Meeting& meeting, std::uint32_t program, std::uint32_t op) const;
  void begin(std::uint32_t meeting);
  void finish_meeting(std::uint32_t meeting, std::int64_t finish);
  void wake(std::uint32_t rank, std::uint32_t stream);
  void record(const Rank& rank, std::uint32_t op, std::int64_t ready, std::int64_t start, std::int64_t finish);
  void explain_deadlock();
  const Program& program_of(const Meeting& m) const { return plan_.programs.rows()[m.program]; }

  const Plan& plan_;
  std::vector<CompiledProgram> programs_;
  std::vector<std::vector<Moved>> moved_;  // by program
  LargeTable<Rank> ranks_;
  LargeTable<Cursor> cursors_;
  LargeTable<Signal> signals_;
  LargeTable<Group> groups_;  // by communicator, and one more
  LargeTable<Route> routes_;
  LargeTable<Member> members_;
  LargeTable<Meeting> meetings_;
  std::uint32_t unused_meeting_ = kNone;
  std::vector<std::uint32_t> ready_;  // ranks with a runnable stream
  Contention contention_;
  Fluid fluid_;
  Result result_;
};

Engine::Engine(const Plan& plan, const Network& network, const RunOptions& options)
    : plan_(plan),
      contention_(options.alone ? without_contention(network) : find_contention(plan, network)),
      fluid_(network.capacity) {
  programs_.reserve(plan.programs.size());
  const Rows rows = many_rows(plan, options) ? Rows::shared : Rows::of_their_own;
  for (const Program& program : plan.programs) programs_.push_back(compile(program, plan.streams, rows));

  const std::size_t ranks = plan.instances.size();
  ranks_.resize(ranks);
  cursors_.resize(ranks * plan.streams);
  std::uint64_t signals = 0;
  for (std::uint32_t i = 0; i < ranks; ++i) {
    const Instance& instance = plan.instances[InstanceId{i}];
    const CompiledProgram& program = programs_[index(instance.program)];
    Rank& rank = ranks_[i];
    rank.program = index(instance.program);
    rank.slots = plan.slots_begin[i];
    rank.signals = signals;
    rank.scaled = instance.slowdown != 1.0 || plan.noise.sigma > 0 || plan.loads.any();
    signals += program.signals;
    for (std::uint32_t s = 0; s < plan.streams; ++s) cursors_of(i)[s].next = program.stream_begin[s];
  }
  signals_.resize(signals);
  list_groups();
  list_routes(network);
  list_moved();
  prepare_records(options);
}

void Engine::list_groups() {
  groups_.resize(plan_.communicators.size() + 1);
  for (const CommunicatorId c : plan_.slots) ++groups_[index(c) + 1].members_begin;
  std::vector<std::uint32_t> next;
  for (std::size_t c = 0; c < plan_.communicators.size(); ++c) {
    const Communicator& communicator = plan_.communicators.rows()[c];
    groups_[c].members = communicator.members;
    groups_[c].first_route = index(communicator.first_route);
    groups_[c + 1].members_begin += groups_[c].members_begin;
    next.push_back(groups_[c].members_begin);
  }
  members_.resize(plan_.slots.size());
  for (std::uint32_t i = 0; i < ranks_.size(); ++i) {
    const auto slots = plan_.slots_of(InstanceId{i});
    for (std::uint32_t s = 0; s < slots.size(); ++s) members_[next[index(slots[s])]++] = {i, s};
  }
}

void Engine::list_routes(const Network& network) {
  routes_.reserve(network.routes());
  for (std::uint32_t r = 0; r < network.routes(); ++r) {
    routes_.push_back({network.route_latency[r].value(), contention_.route_rate[r], contention_.route_begin[r],
                       contention_.route_begin[r + 1]});
  }
}

void Engine::list_moved() {
  for (std::size_t p = 0; p < programs_.size(); ++p) {
    const Program& program = plan_.programs.rows()[p];
    std::vector<Moved>& moved = moved_.emplace_back();
    moved.reserve(program.size());
    for (const CompiledOp& op : programs_[p].ops)
      moved.push_back({program.work[op.op], program.rate_cap[op.op], program.pattern[op.op]});
  }
}

void Engine::prepare_records(const RunOptions& options) {
  for (const InstanceId instance : options.record) {
    SIM_CHECK(index(instance) < ranks_.size(), "cannot record the unknown instance {}", index(instance));
    const std::uint32_t size = plan_.programs[plan_.instances[instance].program].size();
    ranks_[index(instance)].record = static_cast<std::uint32_t>(result_.records.size());
    const std::vector<SimTime> never(size, kNever);
    result_.records.push_back({instance, never, never, never});
  }
}

void Engine::record(const Rank& rank, std::uint32_t op, std::int64_t ready, std::int64_t start, std::int64_t finish) {
  Record& row = result_.records[rank.record];
  row.ready[op] = SimTime(ready);
  row.start[op] = SimTime(start);
  row.finish[op] = SimTime(finish);
}

void Engine::wake(std::uint32_t rank, std::uint32_t stream) {
  Rank& r = ranks_[rank];
  if (r.runnable == 0) ready_.push_back(rank);
  r.runnable |= std::uint32_t{1} << stream;
}

/// The head of `cursor` has finished.
void Engine::note(Rank& rank, Cursor& cursor, const CompiledOp& op, std::int64_t finish) {
  if (finish >= kLatest) [[unlikely]]
    refuse_time("a step");
  cursor.free = finish;
  cursor.blocked_on = kRunnable;
  ++cursor.next;
  ++result_.events;
  rank.last_finish = std::max(rank.last_finish, finish);
  if (op.signal == kNoSignal) return;
  signals_[rank.signals + op.signal] = {finish, op.op};
  const auto number = static_cast<std::uint32_t>(&rank - ranks_.data());
  const Cursor* cursors = cursors_of(number);
  for (std::uint32_t left = rank.waiting; left != 0; left &= left - 1) {
    const auto s = static_cast<std::uint32_t>(std::countr_zero(left));
    if (cursors[s].blocked_on == op.signal) wake(number, s);
  }
}

/// Ranks by the thousand do not fit the nearest caches, and most of a run is waiting for their rows. Where many
/// transfers finish at an instant, which is the rule where replicas do the same, the rows of those to come are fetched
/// ahead, in two steps: first what says where the rows of their members lie.
void Engine::expect_meeting(std::span<const std::uint32_t> meetings, std::size_t at) const {
  constexpr std::size_t kNear = 4, kFar = 8;
  constexpr std::uint32_t kMost = 4;
  if (at + kFar < meetings.size()) {
    const std::uint32_t communicator = meetings_[meetings[at + kFar]].communicator;
    __builtin_prefetch(&groups_[communicator]);
  }
  if (at + kNear >= meetings.size()) return;
  const std::uint32_t communicator = meetings_[meetings[at + kNear]].communicator;
  const std::uint32_t begin = groups_[communicator].members_begin;
  const std::uint32_t end = std::min(groups_[communicator + 1].members_begin, begin + kMost);
  for (std::uint32_t m = begin; m < end; ++m) expect_rank(members_[m].rank);
}

void Engine::expect_rank(std::size_t number) const {
  __builtin_prefetch(&ranks_[number]);
  const auto* cursors = reinterpret_cast<const char*>(cursors_.data() + number * plan_.streams);
  for (std::size_t at = 0; at < sizeof(Cursor) * plan_.streams; at += 64) __builtin_prefetch(cursors + at);
}

void Engine::run_ready() {
  constexpr std::size_t kAhead = 4;
  while (!ready_.empty()) {
    const std::uint32_t rank = ready_.back();
    ready_.pop_back();
    if (ready_.size() >= kAhead) {
      const std::uint32_t number = ready_[ready_.size() - kAhead];
      const Rank& later = ranks_[number];
      const auto stream = static_cast<std::uint32_t>(std::countr_zero(later.runnable));
      const CompiledProgram& program = programs_[later.program];
      const std::uint32_t next = cursors_of(number)[stream].next;
      if (next < program.ops.size() && program.ops[next].waits_begin < program.ops[next].waits_end)
        __builtin_prefetch(&signals_[later.signals + program.waits[program.ops[next].waits_begin].signal]);
    }
    while (ranks_[rank].runnable != 0) {
      const auto stream = static_cast<std::uint32_t>(std::countr_zero(ranks_[rank].runnable));
      run_stream(rank, stream);
      ranks_[rank].runnable &= ~(std::uint32_t{1} << stream);
    }
  }
}

/// Runs one stream ahead until its head waits for something that is not known yet.
void Engine::run_stream(std::uint32_t number, std::uint32_t stream) {
  Rank& rank = ranks_[number];
  Cursor& cursor = cursors_of(number)[stream];
  rank.waiting &= ~(std::uint32_t{1} << stream);
  if (cursor.blocked_on == kOnTransfer) return;
  const auto wait_for = [&](std::uint32_t signal) {
    cursor.blocked_on = signal;
    rank.waiting |= std::uint32_t{1} << stream;
  };
  const CompiledProgram& program = programs_[rank.program];
  const std::uint32_t end = program.stream_begin[stream + 1];
  const Signal* signals = signals_.data() + rank.signals;
  while (cursor.next < end) {
    const CompiledOp& op = program.ops[cursor.next];
    std::int64_t ready = cursor.free;
    for (std::uint32_t w = op.waits_begin; w < op.waits_end; ++w) {
      const Wait wait = program.waits[w];
      if (signals[wait.signal].op != wait.op) return wait_for(wait.signal);
      ready = std::max(ready, signals[wait.signal].at);
    }
    std::int64_t host = op.host_start;
    if (op.segment.signal != kNoSignal) {
      if (signals[op.segment.signal].op != op.segment.op) return wait_for(op.segment.signal);
      host += signals[op.segment.signal].at;
    }
    if (op.slot != kNoSlot) {
      cursor.blocked_on = kOnTransfer;
      arrive(number, op, cursor.next, std::max(ready, host + op.host_bound));
      if (cursor.blocked_on == kOnTransfer) return;
      continue;
    }
    std::int64_t duration = op.duration;
    std::int64_t bound = op.host_bound;
    if (rank.scaled) {
      const Program& whole = plan_.programs.rows()[rank.program];
      const Instance& instance = plan_.instances[InstanceId{number}];
      double factor = instance.slowdown * noise_factor(plan_.noise, instance.noise_key, op.op);
      if (const double share = whole.loaded[op.op]; share > 0)
        factor *= 1 + share * (load_factor(plan_.loads, instance.load_group, instance.load_place, op.op) - 1);
      const std::int64_t issue = whole.issue[op.op];
      const ScaledCompute scaled = scale_compute(duration, bound, issue, factor);
      duration = scaled.duration;
      bound = scaled.issue_bound;
    }
    const std::int64_t finish = std::max(ready + duration, host + bound);
    if (rank.record != kNone) record(rank, op.op, std::max(ready, host), std::max(ready, host), finish);
    note(rank, cursor, op, finish);
  }
}

/// The meeting of the k-th transfers on a communicator; made when the first member arrives.
std::uint32_t Engine::meeting_of(std::uint32_t communicator, std::uint32_t occurrence, std::uint32_t program,
                                 std::uint32_t row) {
  for (std::uint32_t m = groups_[communicator].pending; m != kNone; m = meetings_[m].next) {
    if (meetings_[m].occurrence == occurrence) return m;
  }
  if (unused_meeting_ == kNone) {
    unused_meeting_ = static_cast<std::uint32_t>(meetings_.size());
    meetings_.emplace_back();
  }
  const std::uint32_t number = unused_meeting_;
  unused_meeting_ = meetings_[number].next;
  Meeting& m = meetings_[number];
  m = Meeting{};
  m.communicator = communicator;
  m.occurrence = occurrence;
  m.program = program;
  m.row = row;
  m.next = groups_[communicator].pending;
  groups_[communicator].pending = number;
  return number;
}

void Engine::check_agreement(const Meeting& meeting, std::uint32_t program, std::uint32_t op) const {
  const Program& first = program_of(meeting);
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

void Engine::arrive(std::uint32_t number, const CompiledOp& op, std::uint32_t row, std::int64_t arrival) {
  const Rank& rank = ranks_[number];
  if (arrival >= kLatest) [[unlikely]]
    refuse_time("a step");
  if (rank.record != kNone) record(rank, op.op, arrival, kUnknown, kUnknown);
  const std::uint32_t communicator = index(plan_.slots[rank.slots + op.slot]);
  const std::uint32_t meeting = meeting_of(communicator, op.occurrence, rank.program, row);
  Meeting& m = meetings_[meeting];
  if (m.program != rank.program || m.row != row) check_agreement(m, rank.program, op.op);
  m.start = std::max(m.start, arrival);
  if (++m.arrived == groups_[communicator].members) begin(meeting);
}

/// All members have arrived.
void Engine::begin(std::uint32_t meeting) {
  Meeting& m = meetings_[meeting];
  Group& group = groups_[m.communicator];
  std::uint32_t* link = &group.pending;
  while (*link != meeting) link = &meetings_[*link].next;
  *link = m.next;
  m.next = kNone;

  const CompiledOp& op = programs_[m.program].ops[m.row];
  const Moved& moved = moved_[m.program][m.row];
  const Route& route = routes_[group.first_route + moved.pattern];
  std::int64_t fluid = m.start + op.duration + route.latency;
  if (plan_.message_noise.sigma > 0) {
    const std::uint64_t key = plan_.communicators.rows()[m.communicator].noise_key;
    fluid = m.start + noisy_latency(plan_.message_noise, key, m.occurrence, op.duration + route.latency);
  }
  if (fluid >= kLatest) [[unlikely]]
    refuse_time("a step");
  const double rate = moved.cap > 0 ? std::min(moved.cap, route.alone) : route.alone;
  if (moved.work > 0 && route.links_begin < route.links_end) {
    const std::span<const WeightedLink> links(contention_.route_links.data() + route.links_begin,
                                              route.links_end - route.links_begin);
    fluid_.begin(meeting, fluid, moved.work, links, rate);
  } else if (moved.work > 0 && route.alone < kUnlimited) {
    finish_meeting(meeting, fluid + fluid_time(moved.work, FairSharing::round_rate(rate)));
  } else {
    finish_meeting(meeting, fluid + unlimited_transfer(moved.work, moved.cap).value());
  }
}

void Engine::finish_meeting(std::uint32_t meeting, std::int64_t finish) {
  const Meeting m = meetings_[meeting];
  const std::uint32_t end = groups_[m.communicator + 1].members_begin;
  for (std::uint32_t at = groups_[m.communicator].members_begin; at < end; ++at) {
    const Member member = members_[at];
    Rank& rank = ranks_[member.rank];
    const CompiledProgram& program = programs_[rank.program];
    const CompiledOp& op = program.ops[program.slot_ops[program.slot_begin[member.slot] + m.occurrence]];
    Cursor& cursor = cursors_of(member.rank)[op.stream];
    if (rank.record != kNone) {
      record(rank, op.op, result_.records[rank.record].ready[op.op].value(), m.start, finish);
    }
    note(rank, cursor, op, finish);
    wake(member.rank, op.stream);
  }
  meetings_[meeting].next = unused_meeting_;
  unused_meeting_ = meeting;
}

void Engine::explain_deadlock() {
  constexpr std::size_t kMostStuck = 64;
  std::vector<std::uint32_t> transfers_at(cursors_.size(), kNone);
  for (std::uint32_t c = 0; c + 1 < groups_.size(); ++c) {
    for (std::uint32_t m = groups_[c].pending; m != kNone; m = meetings_[m].next) {
      for (std::uint32_t at = groups_[c].members_begin; at < groups_[c + 1].members_begin; ++at) {
        const Rank& rank = ranks_[members_[at].rank];
        const CompiledProgram& program = programs_[rank.program];
        const std::uint32_t slot = members_[at].slot;
        if (slot + 1 >= program.slot_begin.size()) continue;
        const std::uint32_t k = program.slot_begin[slot] + meetings_[m].occurrence;
        if (k >= program.slot_begin[slot + 1]) continue;
        const std::uint32_t row = program.slot_ops[k];
        const std::uint32_t cursor = members_[at].rank * plan_.streams + program.ops[row].stream;
        if (cursors_[cursor].next == row && cursors_[cursor].blocked_on == kOnTransfer) transfers_at[cursor] = m;
      }
    }
  }
  // Transfers first: they name the cause, streams that wait for other streams only follow.
  for (const bool transfers : {true, false}) {
    for (std::uint32_t i = 0; i < ranks_.size(); ++i) {
      const CompiledProgram& program = programs_[ranks_[i].program];
      for (std::uint32_t s = 0; s < plan_.streams; ++s) {
        const std::uint32_t stream = i * plan_.streams + s;
        const Cursor& cursor = cursors_[stream];
        const std::uint32_t m = transfers_at[stream];
        if (cursor.next == program.stream_begin[s + 1] || (m != kNone) != transfers) continue;
        if (result_.stuck.size() == kMostStuck) return;
        Stuck stuck{InstanceId{i}, program.ops[cursor.next].op, CommunicatorId{}, 0, 0};
        if (m != kNone) {
          stuck.communicator = CommunicatorId{meetings_[m].communicator};
          stuck.arrived = meetings_[m].arrived;
          stuck.members = plan_.communicators[stuck.communicator].members;
        }
        result_.stuck.push_back(stuck);
      }
    }
  }
}

Result Engine::run() {
  for (std::uint32_t i = static_cast<std::uint32_t>(ranks_.size()); i-- > 0;) {
    for (std::uint32_t s = 0; s < plan_.streams; ++s) wake(i, s);
  }
  run_ready();
  fluid_.run_together([this](std::span<const std::uint32_t> meetings, std::int64_t now) {
    for (std::size_t i = 0; i < meetings.size(); ++i) {
      expect_meeting(meetings, i);
      finish_meeting(meetings[i], now);
    }
    run_ready();
  });
  result_.events += fluid_.events();
  result_.solves = fluid_.solves();
  result_.last_finish.reserve(ranks_.size());
  bool finished = true;
  for (std::uint32_t i = 0; i < ranks_.size(); ++i) {
    result_.last_finish.push_back(SimTime(ranks_[i].last_finish));
    result_.makespan = std::max(result_.makespan, SimTime(ranks_[i].last_finish));
    const CompiledProgram& program = programs_[ranks_[i].program];
    for (std::uint32_t s = 0; s < plan_.streams; ++s) {
      finished = finished && cursors_of(i)[s].next == program.stream_begin[s + 1];
    }
  }
  if (!finished) {
    result_.outcome = Outcome::deadlock;
    explain_deadlock();
  }
  return std::move(result_);
}

}  // namespace

Duration unlimited_transfer(double work, double rate_cap) {
  return Duration(work > 0 && rate_cap > 0 ? fluid_time(work, rate_cap) : 0);
}

Result run(const Plan& plan, const Network& network, const RunOptions& options) {
  check(plan, network);
  return Engine(plan, network, options).run();
}

}  // namespace orrery::sim
