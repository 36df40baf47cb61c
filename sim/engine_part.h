// What the engine (sim/engine.cc) does for one part of a run: its ranks, the transfers that it sees to, and what it
// tells other parts. Two clocks run in it:
//  - What needs no network runs ahead. The finish of a compute operation is known as soon as the times that it
//    depends on are, and so is that of a transfer that no link limits; each rank is therefore run forward without
//    events until all its streams wait for something that is not known yet.
//  - What shares links needs one order of time: sim/fluid.h, from the instant at which the last member of a
//    communicator has arrived and the latency has passed. Which links are shared sim/contention.h says beforehand.
// Running ahead is safe because everything that an event at `now` makes known lies at or after `now`.
//
// Islands (sim/islands.h) run ahead of each other: while no joint transfer is on its way or waits to begin, the part
// goes through them one by one, each up to the earliest end that what it has arrived at jointly can have, which is its
// bound; then through instants that all have in common, until that is so again.
//
// A row of `meetings_` is one transfer: the k-th on its communicator. That is the communicator's own row, unless a
// transfer before it still has it: so an instant is gone through in the order of communicators, which is that of memory
// where ranks do the same. A communicator with members in several parts is seen to by one of them: each part tells it
// when its own members have all arrived, and is told when they have finished.
#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "sim/compiled.h"
#include "sim/contention.h"
#include "sim/engine.h"
#include "sim/engine_threads.h"
#include "sim/fluid.h"
#include "sim/islands.h"
#include "sim/large_pages.h"
#include "sim/partition.h"
#include "sim/stretches.h"

namespace orrery::sim {

/// A route: latency, what it moves alone, and the rows of Contention::route_links that can stop it.
struct EngineRoute {
  std::int64_t latency = 0;  // ps
  double alone = 0;          // bytes/s; infinity without links
  std::uint32_t links_begin = 0, links_end = 0;
};

/// What a transfer of a program moves, by row of its operations; compute operations have rows of nothing.
struct Moved {
  double work = 0;  // bytes
  double cap = 0;   // bytes/s; 0: none
  std::uint32_t pattern = 0;
  std::uint32_t kind = 0;  // the same number for two that move the same, with the same latency
};

inline constexpr std::uint32_t kNotRecorded = 0xffffffff;

/// What all parts read.
struct EngineTables {
  EngineTables(const Plan& plan, const Network& network, const RunOptions& options, const Threads& threads);

  const Plan& plan;
  const Network& network;
  Contention contention;
  Partition partition;
  Islands islands;
  std::vector<CompiledProgram> programs;
  std::vector<std::vector<Moved>> moved;  // by program
  LargeTable<EngineRoute> routes;
  std::vector<std::uint32_t> record;  // by instance: its row of Result::records; empty where none is recorded

 private:
  void divide(const Threads& threads);
  void list_moved();
};

class EnginePart {
 public:
  /// Of `number`; `records` has a row for each recorded instance.
  EnginePart(const EngineTables& tables, std::uint32_t number, FairSharing& sharing, std::vector<Record>& records);

  /// Runs all ranks as far ahead as they can.
  void start();
  /// The earliest instant at which a transfer may begin or finish.
  std::int64_t next() const { return transfers_.empty() ? kNothing : transfers_.next(); }
  std::size_t flows() const { return transfers_.flows(); }
  /// All that happens to this part's transfers at `now`, and what ranks do then.
  void take(std::int64_t now);
  /// Of the only part: where its islands can run ahead of each other, they do so, as far as they can.
  void run_ahead(FairSharing& sharing);
  /// Whether there is word for any part.
  bool has_posted() const;
  /// Swaps what was written for what is to be read; no part is at work meanwhile.
  void turn_mail();
  /// What other parts had for this one, and what ranks do then.
  void read_mail(std::span<const std::unique_ptr<EnginePart>> parts);
  /// The rate of this part's transfer has changed.
  void predict(std::uint32_t transfer, std::int64_t now) { transfers_.predict(transfer, now); }

  /// Operations and transfers handled so far.
  std::uint64_t events() const { return events_ + transfers_.events(); }
  std::size_t ranks() const { return ranks_.size(); }
  InstanceId instance_of(std::size_t rank) const { return InstanceId{ranks_[rank].instance}; }
  SimTime last_finish(std::size_t rank) const { return SimTime(ranks_[rank].last_finish); }
  bool finished() const;
  /// Of the only part: heads of blocked streams.
  std::vector<Stuck> stuck() const;

  static constexpr std::int64_t kNothing = std::numeric_limits<std::int64_t>::max();

 private:
  static constexpr std::uint32_t kNone = 0xffffffff;
  static constexpr std::uint32_t kMostInstances = 0x7fffffff;
  static constexpr std::uint32_t kRunnable = 0xfffffffe;    // Cursor::blocked_on when nothing is known to block it
  static constexpr std::uint32_t kOnTransfer = 0xfffffffd;  // its head has arrived at a meeting

  /// When operation `op` of the rank finished; another operation before that.
  struct Signal {
    std::int64_t at = kNothing;
    std::uint32_t op = kNone;
    std::uint32_t turn = kNoTurn;  // as CompiledOp
  };

  struct alignas(64) Rank {
    std::uint32_t program = 0;
    std::uint32_t slots = 0;     // first row of its slots
    std::uint32_t runnable = 0;  // bit per stream
    std::uint32_t waiting = 0;   // likewise: its head waits for a signal, or did until it was made runnable
    std::uint32_t signals = 0;   // first row of its signals
    std::uint32_t put_by = 0;    // signals in put_by_
    std::int64_t last_finish = 0;
    std::uint32_t record = kNotRecorded;
    std::uint32_t instance : 31 = 0;
    std::uint32_t scaled : 1 = 0;  // slowdown, noise or loads apply
    std::uint64_t noise = 0;       // noise_stream() of the instance
    double slowdown = 1;
  };

  struct Cursor {
    std::int64_t free = 0;  // the stream's last operation has finished
    std::uint32_t next = 0;
    std::uint32_t blocked_on = kRunnable;  // an operation that has not finished yet, or one of the above
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

  /// An island has arrived at a joint transfer that does not end before `at`.
  struct Bound {
    std::uint32_t communicator = 0, occurrence = 0;
    std::uint32_t meeting = 0;
    std::int64_t at = 0;
  };
  struct Ahead {
    std::vector<std::vector<Bound>> bounds;  // by island
    std::vector<std::int64_t> bound;         // by island: the least of these
    std::uint32_t under_way = 0;             // joint transfers that move bytes, or will
    std::uint32_t wait = 1, patience = 1;    // instants until islands try again to run ahead
  };

  /// A communicator, with all that a meeting on it asks for in one place.
  struct Group {
    std::uint32_t island = 0;         // kJoint: of several
    std::uint32_t first_route = 0;    // of its patterns
    std::uint32_t members_begin = 0;  // rows of `members_`, up to those of the next
    std::uint32_t pending = kNone;    // its first incomplete meeting
  };

  /// The members of another part have all arrived at a transfer, the last at `start`.
  struct Arrival {
    std::uint32_t communicator = 0, occurrence = 0;
    std::uint32_t program = 0, row = 0;
    std::int64_t start = 0;
  };
  /// A transfer with members of several parts has finished.
  struct Finish {
    std::uint32_t communicator = 0, occurrence = 0;
    std::int64_t start = 0, finish = 0;
  };
  struct Mail {
    std::vector<std::vector<Arrival>> arrivals;  // by part
    std::vector<Finish> finishes;                // for all
  };

  void list_ranks();
  void list_groups();
  void list_stretches();
  std::uint32_t members_of(std::uint32_t communicator) const {
    return groups_[communicator + 1].members_begin - groups_[communicator].members_begin;
  }
  std::int64_t latency_of(const Meeting& meeting, const CompiledOp& op, std::int64_t route) const;
  /// Joint transfers are, for transfers_, on an island behind the last.
  std::uint32_t ahead_joint() const { return tables_.islands.count; }
  void bound_island(std::uint32_t rank, std::uint32_t meeting, std::int64_t arrival);
  std::int64_t find_bound(std::uint32_t island);
  void run_island(std::uint32_t island, FairSharing& sharing);
  std::uint32_t joint_of(std::uint32_t communicator) const {
    return tables_.partition.joint_of.empty() ? kNotJoint : tables_.partition.joint_of[communicator];
  }
  void expect_meetings(std::span<const std::uint32_t> meetings, std::size_t at) const;
  void expect_rank(std::size_t number) const;
  void expect_finish(const Member& member, std::uint32_t occurrence) const;
  void expect_heads(std::size_t number) const;
  Cursor* cursors_of(std::size_t rank) { return cursors_.data() + rank * plan_.streams; }
  const Cursor* cursors_of(std::size_t rank) const { return cursors_.data() + rank * plan_.streams; }
  void run_ready();
  void run_all();
  void run_stream(std::uint32_t rank, std::uint32_t stream);
  std::int64_t compute(const Rank& rank, const CompiledOp& op, std::int64_t ready, std::int64_t host) const;
  bool is_read(std::uint32_t rank, std::uint32_t turn) const;
  void put_by(std::uint32_t rank, const Signal& signal);
  const Signal* find_put_by(std::uint32_t rank, std::uint32_t op) const;
  void note(Rank& rank, Cursor& cursor, const CompiledOp& op, std::int64_t finish);
  void arrive(std::uint32_t rank, const CompiledOp& op, std::uint32_t row, std::int64_t arrival);
  void arrive_jointly(const Arrival& arrival);
  std::uint32_t meeting_of(std::uint32_t& pending, std::uint32_t communicator, std::uint32_t occurrence,
                           std::uint32_t program, std::uint32_t row);
  std::uint32_t free_row_of(std::uint32_t communicator);
  void take_from(std::uint32_t& pending, std::uint32_t meeting);
  void check_agreement(const Meeting& meeting, std::uint32_t program, std::uint32_t row) const;
  void arrive_at_stretch(std::uint32_t rank, const CompiledOp& op, std::int64_t ready, std::int64_t host);
  void finish_stretch(std::uint32_t rank, const StretchEnd& end);
  void complete(std::uint32_t meeting);
  void begin(std::uint32_t meeting);
  void finish_meeting(std::uint32_t meeting, std::int64_t finish);
  void finish_members(std::uint32_t communicator, std::uint32_t occurrence, std::int64_t start, std::int64_t finish);
  void free_meeting(std::uint32_t meeting);
  void wake(std::uint32_t rank, std::uint32_t stream);
  void record(const Rank& rank, std::uint32_t op, std::int64_t ready, std::int64_t start, std::int64_t finish);
  std::vector<std::uint32_t> meetings_by_stream() const;

  const EngineTables& tables_;
  const Plan& plan_;
  const std::vector<CompiledProgram>& programs_;
  std::vector<Record>& records_;
  Transfers transfers_;
  std::optional<Stretches> stretches_;
  LargeTable<Rank> ranks_;
  LargeTable<Cursor> cursors_;
  LargeTable<Signal> signals_;
  std::unordered_map<std::uint32_t, std::vector<Signal>> put_by_;  // by rank: those whose rows others have taken
  LargeTable<Group> groups_;                                       // by communicator, and one more
  LargeTable<Member> members_;
  struct Meetings {
    LargeTable<Meeting> rows;
    std::uint32_t own = 0;  // that of the first communicator
    std::uint32_t unused = kNone;
    std::vector<std::uint32_t>
        joint;  // by joint communicator, its first incomplete meeting, where this part sees to it
  } meetings_;
  std::vector<std::uint32_t> ready_;  // ranks with a runnable stream
  struct Post {
    std::uint32_t number = 0;  // of this part
    std::array<Mail, 2> mail;
    std::uint32_t writing = 0;  // which of these; the other is read
  } post_;
  Ahead ahead_;
  std::uint64_t events_ = 0;
};

}  // namespace orrery::sim
