// One replica through time. Iterations with parts of prompts run one by one; those that only decode as a stretch, a
// closed sum that ends with the first sequence that is through, the block that is not there, or the request that comes
// in and could begin.
#pragma once

#include <cstdint>
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

  /// A request comes at `at`, no earlier than the one before it.
  void add(std::int32_t request, Time at);
  /// Does all that is over by `until` whatever may come at it or later.
  void run(Time until);
  /// Requests that wait or run.
  std::int64_t under_way() const {
    return static_cast<std::int64_t>(scheduler_.waiting().size()) + scheduler_.running();
  }
  /// Tokens of a prompt that its cache has.
  const Scheduler& scheduler() const { return scheduler_; }
  Time now() const { return now_; }

 private:
  void plan_next();
  void do_mixed(const Plan& plan);
  /// So many steps of the stretch that is under way.
  void do_stretch(std::int64_t steps);
  void record_steps(std::int64_t steps, Time took);
  void emit_first(std::int32_t id);
  void end_all();
  void sample();
  void count_blocks(Time span);

  Scheduler scheduler_;
  StepTimes& times_;
  Outcome& outcome_;
  ClosedLoop* loop_;
  std::int32_t number_;
  Time now_ = 0;
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
