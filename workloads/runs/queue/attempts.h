// Starts of a job until its work is done: what is left of the work, when a start ends and whether in a failure, and
// what the job's GPUs did meanwhile.
#pragma once

#include <vector>

#include "workloads/runs/queue/replay.h"

namespace orrery::queue {

/// A time at least as long as the job's work, stretched by a factor of at least 1, in whole milliseconds.
std::int64_t stretched(std::int64_t time_ms, double factor);

/// All jobs of a trace. Counts work, slow-downs, lost time and restarts in an outcome.
class Attempts {
 public:
  /// All arguments but the seed must stay valid.
  Attempts(const Trace& trace, std::uint64_t seed, Outcome& out);
  /// From its next start until the job works on.
  std::int64_t comes_up(std::uint32_t job) const { return states_[job].failures > 0 ? trace_.failures.restart_ms : 0; }
  /// The job starts now and runs `factor` times as long as with its nodes at their best.
  void start(std::uint32_t job, std::int64_t now, double factor);
  std::int64_t started(std::uint32_t job) const { return states_[job].started_ms; }
  std::int64_t ends(std::uint32_t job) const { return states_[job].ends_ms; }
  bool fails(std::uint32_t job) const { return states_[job].fails; }
  /// All of the job's work is done now.
  void finish(std::uint32_t job, std::int64_t now) { account(job, now, states_[job].left_ms); }
  /// The job fails now and goes back to its last checkpoint. Throws sim::UserError after kMostStarts.
  void fail(std::uint32_t job, std::int64_t now);

 private:
  struct State {
    std::int64_t left_ms = 0, failures = 0;
    std::int64_t started_ms = 0, comes_up_ms = 0, ends_ms = 0;
    double factor = 1;
    bool fails = false;
  };
  void account(std::uint32_t job, std::int64_t now, std::int64_t kept_ms);
  std::int64_t failure_in(std::uint32_t job) const;

  const Trace& trace_;
  std::uint64_t seed_;
  Outcome& out_;
  std::vector<State> states_;
};

/// In (0, 1].
double uniform(std::uint64_t draw);

}  // namespace orrery::queue
