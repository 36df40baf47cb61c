// One replica through time. Iterations with parts of prompts run one by one; those that only decode as a stretch, a
// closed sum that ends with the first sequence that is through, the block that is not there, or the request that comes
// in and could begin.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "workloads/runs/serving/batching.h"
#include "workloads/runs/serving/outcome.h"

namespace orrery::serving {

/// Which request comes next where one has to end first.
struct ClosedLoop {
  std::int32_t next = 0, end = 0;
};

class Replica {
 public:
  /// All that it refers to must outlive it. `loop`: null for open loops; ends add its requests here.
  Replica(const Trace& trace, const Limits& limits, StepTimes& times, std::vector<Sequence>& sequences,
          Outcome& outcome, std::int32_t number, ClosedLoop* loop);

  /// A request comes at `at`, no earlier than the one before it; `arrival`: at its user's, where that was before.
  void add(std::int32_t request, Time at, Time arrival);
  void add(std::int32_t request, Time at) { add(request, at, at); }
  /// Does all that is over by `until` whatever may come at it or later.
  void run(Time until);
  /// Requests that come, wait or run, or for which room is kept.
  std::int64_t under_way() const {
    return static_cast<std::int64_t>(coming_.size() + scheduler_.waiting().size()) + scheduler_.running() +
           scheduler_.reserved();
  }

  /// Whether as many wait as may.
  bool full() const {
    const auto waiting = static_cast<std::int64_t>(coming_.size() + scheduler_.waiting().size());
    return scheduler_.limits().waiting > 0 && waiting >= scheduler_.limits().waiting;
  }

  // One act after the other, for a loop over several replicas in order of time (apart.h).
  /// When the stretch under way ends, or the next iteration is put together; kNever where nothing is to do.
  Time next() const;
  bool in_stretch() const { return stretch_.steps > 0; }
  void act();
  /// Sequences that an act has finished.
  struct Finished {
    std::int32_t request = 0;
    Time at = 0;
    std::int64_t blocks = 0;  // that it leaves behind
  };
  /// Finished sequences are told, and their blocks stay until give_left().
  void leave_behind(std::vector<Finished>& finished) { left_ = &finished; }
  /// Finished sequences are told.
  void tell(std::vector<Finished>& finished) { told_ = &finished; }
  void give_left(std::int64_t blocks, Time at);
  /// Room for a request whose prompt was computed elsewhere.
  bool reserve(std::int32_t request) { return scheduler_.reserve(request, std::max<std::int64_t>(1, stretch_.steps)); }
  /// The room is not needed after all.
  void drop(std::int32_t request, Time at) {
    scheduler_.drop(request);
    wake(at);
  }
  /// One for which there is room is here at `at`; the token that came of its prompt was shown at `shown`, or is still
  /// to come.
  void join(std::int32_t request, Time at, Time shown);
  /// It stands still from `at` on, but for an iteration with prompts in it that was begun, and whoever comes waits.
  void fail(Time at);
  /// All that had come to it leaves, in its order, with what was written of its answers.
  std::vector<std::int32_t> abandon();
  /// Contents of a prompt, from the first on, that its cache and the tiers below it have.
  std::int64_t found(std::span<const std::int32_t> contents) const;
  /// When the engine's loop comes round next: behind the iteration that runs at that time.
  Time next_turn(Time at);
  /// Of all contents, whether they have it.
  std::vector<bool> contents() const;
  std::vector<TierUse> tiers() const { return tiers_.use(); }
  const Scheduler& scheduler() const { return scheduler_; }
  Time now() const { return now_; }

 private:
  /// A request comes; false where it needs more than the whole cache, or too many wait.
  bool come(std::int32_t request, Time at, Time arrival);
  /// The scheduler takes note of what its next plan may know of.
  void take_in();
  bool idle() const { return scheduler_.running() == 0 && scheduler_.waiting().empty(); }
  /// When the first that comes is seen; kNever where none does.
  Time first_seen() const;
  void show_first(Time at);
  /// Something comes that a replica which stands still may have waited for.
  void wake(Time at);
  /// Notes the looks at what has come in a stretch that is through, but for one at its end.
  void note_polls(std::int64_t sequences, std::int64_t keys, std::int64_t steps);
  bool polls_now() const { return (scheduler_.steps() - polled_) % scheduler_.limits().polls_every == 0; }
  /// Whether the next that comes could begin as things stand.
  bool could_begin() const;
  /// Steps of a stretch of at most `most` until a request that is seen at `seen` is in a plan.
  std::int64_t steps_until(Time seen, std::int64_t most);
  void plan_next();
  void do_mixed(const Plan& plan);
  /// The stretch that is under way, to its end.
  void do_stretch();
  void record_steps(std::int64_t steps, Time took);
  void emit_first(std::int32_t id);
  void end_all();
  void sample();
  void count_blocks(Time span);
  /// The hour's sums of what begins now.
  Hour& hour();
  static void add_to(std::vector<Work>& list, std::size_t at, const Work& work);

  CacheTiers tiers_;
  Scheduler scheduler_;
  StepTimes& times_;
  Outcome& outcome_;
  ClosedLoop* loop_;
  std::int32_t number_;
  const Trace& trace_;
  Time now_ = 0, began_ = 0;  // began: the last iteration
  Time read_ = 0;             // when the front end is through with those that have come
  std::int64_t polled_ = 0;   // decoding iterations done at a look at what has come
  Time polled_known_ = -1;    // what the last look could know of, where it is not now
  struct Coming {
    Time seen;
    std::int32_t request;
  };
  std::deque<Coming> coming_, joining_;  // by `seen`
  std::vector<std::int32_t> joined_;     // that wait for the first token of an iteration
  std::vector<Finished>*left_ = nullptr, *told_ = nullptr;
  bool failed_ = false;
  bool blocked_ = false;  // nothing runs, and who waits has no room
  double credit_ = 0;     // tokens that iterations with prompts in them have drafted beyond one a sequence
  struct Stretch {
    std::int64_t steps = 0;  // 0: none
    Time end = 0;
  } stretch_;
  /// When those that decode had their last token: most at `last_`, those of the list since.
  Time last_ = 0;
  std::vector<std::pair<Time, std::int64_t>> since_;
  Plan plan_;
  std::vector<Piece> pieces_;
  std::int64_t stride_ = 1, skip_ = 0;  // of samples
};

}  // namespace orrery::serving
