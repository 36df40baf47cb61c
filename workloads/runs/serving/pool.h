// Replicas of a pool that come and go while they serve: they are added and given back as the load asks for, and fail.
//
// The scaler is Kubernetes' (HorizontalPodAutoscaler: kubernetes/pkg/controller/podautoscaler): every so often it reads
// a figure that may be late, asks for ceil(sum over replicas / target) of them unless that is within a tolerance of
// what is there, and gives replicas back only down to the most that it asked for within a window. A figure that is a
// mean (of times to the first token, of times between tokens) asks for as many times the replicas as it is the target.
// A replica that is asked for holds its GPUs from then on and serves once it has started; one that is given back takes
// no more requests and holds its GPUs until its last is through, and the last cache that it keeps for others is handed
// over. One that fails still gets requests until it is noticed, and starts anew with an empty cache. Left out: HPA's
// limits on how many come at once, spares that are warm, failures behind the last arrival of an open loop, what a
// failed iteration computed in vain. An iteration with prompts in it that a failure meets is counted as done.
#pragma once

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <queue>
#include <vector>

#include "workloads/runs/serving/replica.h"
#include "workloads/runs/serving/serve.h"

namespace orrery::serving {

class Pool {
 public:
  /// Where replicas tell of those that they have finished (Replica::leave_behind, Replica::tell); null: nowhere.
  struct Tells {
    std::vector<Replica::Finished>*left = nullptr, *told = nullptr;
  };
  /// All that it refers to must outlive it. Behind `last` nobody is added or given back, and nothing fails. `salt`:
  /// tells apart the failures of several pools.
  Pool(const Trace& trace, const Fleet& fleet, StepTimes& times, Time last, const Tells& tells, std::uint64_t salt);
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  std::int64_t slots() const { return std::ssize(slots_); }
  /// Those that requests go to, by number: that serve, or have failed and nobody has noticed.
  const std::vector<std::int64_t>& open() const { return open_; }
  bool is_open(std::int64_t i) const { return std::binary_search(open_.begin(), open_.end(), i); }
  Replica& at(std::int64_t i) { return *slot(i).replica; }
  Sequence& sequence(std::int32_t id) { return sequences_[static_cast<std::size_t>(id)]; }
  /// Whether it has failed and stands still, noticed or not.
  bool failed(std::int64_t i) const { return slots_[static_cast<std::size_t>(i)].state == State::failed; }
  /// Caches that it keeps for others: so many more, or fewer at `now`.
  void keep(std::int64_t i, std::int64_t more, Time now) {
    slot(i).kept += more;
    slot(i).gave = std::max(slot(i).gave, now);
  }

  // Acts of replicas in order of time; events are hints, and the replica is the truth.
  /// The replica's next act may have changed.
  void changed(std::int64_t i) {
    if (const Time next = at(i).next(); next != kNever) acts_.push({next, at(i).in_stretch() ? 0 : 1, i});
  }
  /// The first act of all: when, whether a stretch ends then (0) or an iteration begins (1), and whose.
  struct Act {
    Time at = 0;
    int rank = 0;
    std::int64_t replica = 0;
    bool operator<(const Act& other) const {
      if (at != other.at) return at > other.at;
      return rank != other.rank ? rank > other.rank : replica > other.replica;
    }
  };
  std::optional<Act> first();

  // What happens to it of itself, in order of time.
  bool changes() const { return fleet_.autoscale || fleet_.failures; }
  Time next_change() const { return events_.empty() ? kNever : events_.top().at; }
  struct Change {
    /// Of fails and noticed the replica is `replica`; at the other two those that are open may be others.
    enum class What : std::uint8_t { nothing, opens, closes, fails, noticed };
    What what = What::nothing;
    Time at = 0;
    std::int64_t replica = 0;
    std::vector<std::int32_t> requests;  // that one which has failed had, by the time that is noticed
  };
  /// `outside`: requests that wait for a replica. Acts up to then are done, or are up to run().
  Change happen(std::int64_t outside);

  /// Runs all that serve up to then, those that are being given back among them.
  void run(Time until) {
    for (Slot& s : slots_)
      if (s.replica) s.replica->run(until);
  }
  /// What is summed over replicas, once all is over; `end`: of the last request, or of the loop.
  void finish(Time end);
  Outcome outcome;

 private:
  enum class State : std::uint8_t { away, starting, ready, draining, failed };
  struct Slot {
    State state = State::away;
    std::unique_ptr<Replica> replica;
    std::int64_t life = 0;  // that events ahead are of
    std::size_t held = 0;   // where Outcome::held has it
    Time drains = 0, gave = 0;
    std::int64_t kept = 0;
    bool leaves = false;  // is given back once its failure is over
  };
  /// In the order in which they happen at one instant.
  enum class What : std::uint8_t { ready, noticed, fails, measure, scale };
  struct Event {
    Time at = 0;
    What what = What::ready;
    std::int64_t slot = 0, life = 0;  // of scale: the measured figure's place
    bool operator<(const Event& other) const {
      if (at != other.at) return at > other.at;  // the earliest on top
      if (what != other.what) return what > other.what;
      return slot > other.slot;
    }
  };

  Slot& slot(std::int64_t i) { return slots_[static_cast<std::size_t>(i)]; }
  void note(Time at, FleetEvent::What what, std::int64_t i) {
    outcome.events.push_back({at, what, static_cast<std::int32_t>(i)});
  }
  void hold(std::int64_t i, Time now);
  void release(std::int64_t i, Time now);
  void begin(std::int64_t i, Time now);
  void open_anew();
  Change ready(const Event& event);
  void draw_failures();
  void next_failure(std::int64_t i, Time from, std::int64_t count);
  Change fails(const Event& event);
  Change noticed(const Event& event);
  void measure(Time now, std::int64_t outside);
  double measured(Time now, std::int64_t outside);
  /// Times the target, which says what is wanted of a figure that is a mean.
  double mean_first(std::int64_t outside);
  double mean_between();
  Change scale(Time now, double figure);
  void grow(std::int64_t more, Time now);
  void shrink(std::int64_t fewer, Time now);
  void drained(std::int64_t i, Time now);
  std::int64_t count(State state) const;

  const Trace& trace_;
  const Fleet& fleet_;
  StepTimes& times_;
  SlowTimes slow_;
  Time last_;
  Tells tells_;
  std::uint64_t salt_;
  std::vector<Sequence> sequences_;
  std::vector<Slot> slots_;
  std::vector<std::unique_ptr<Replica>> retired_;
  std::vector<std::int64_t> open_;
  std::priority_queue<Event> events_;
  std::priority_queue<Act> acts_;
  std::vector<double> figures_;
  std::deque<std::pair<Time, std::int64_t>> wishes_;
  double first_time_ = 0, firsts_ = 0;  // of the outcome at the last measurement
  std::int64_t failures_ = 0;
};

}  // namespace orrery::serving
