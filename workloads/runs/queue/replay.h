// A queue of jobs replayed on a cluster: who starts when and where, what waits, and what the GPUs' time goes into. An
// event loop of its own over the ends and arrivals of jobs; what a job runs longer where its nodes lie apart is a table
// that the step simulator filled. Times are whole milliseconds.
//
// Jobs may fail. Failures come after times that are exponential, at a rate that goes with a job's GPUs. A job that
// fails goes on from its last checkpoint: it goes back to its place in the queue, and where it starts again it first
// comes up. Where a failure takes a node with it, all jobs on the node fail with it, and nobody has it until it is
// mended; the scheduler learns of all this when it happens.
//
// Left out: jobs that share links with each other (a job's slow-down hangs on its own nodes alone), preemption,
// failures of free nodes, spares, quotas and fair share between users, jobs that change their size.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "workloads/runs/queue/node_pool.h"

namespace orrery::queue {

/// Who is next.
///  - fifo: in order of arrival; who does not fit holds up all behind.
///  - shortest: the shortest by its limit first; who does not fit holds up all behind.
///  - backfill: in order of arrival; while the first waits, nodes are set aside for it at the time when enough will be
///    free by the limits of those that run, and those behind start where they end before or use other nodes (EASY:
///    Lifka, The ANL/IBM SP scheduling system, JSSPP 1995).
enum class Order : std::uint8_t { fifo, shortest, backfill };

struct Policy {
  Order order = Order::backfill;
  Placement placement = Placement::best_fit;
};

struct Request {
  std::int64_t submit_ms = 0, gpus = 1;
  std::int64_t work_ms = 0;   // that it runs where its nodes lie best
  std::int64_t limit_ms = 0;  // what the scheduler expects it to run; a job that runs longer is not ended
  std::uint32_t curve = 0;    // its row of slow-downs
};

/// What fails, and what a failure costs a job. Nothing does where the rates are 0.
struct Failures {
  double per_gpu_ms = 0;           // failures for each GPU and millisecond that a job runs
  double per_job_ms = 0;           // and for each job, whatever its size
  double node_share = 0;           // of these, those that take a node with them
  std::int64_t repair_ms = 0;      // until such a node is back
  std::int64_t restart_ms = 0;     // from a job's start after a failure until it works on
  std::int64_t checkpoint_ms = 0;  // of work between two checkpoints; 0: none, so that a job begins anew
  bool any() const { return per_gpu_ms > 0 || per_job_ms > 0; }
};

struct Trace {
  std::vector<Request> jobs;  // by arrival
  /// Of a kind of job: how much longer it runs by the span of its nodes, where they could lie nearer; each at least 1.
  std::vector<std::array<double, kSpans>> curves;
  Failures failures = {};
};

/// What GPUs do, each GPU in every millisecond exactly one.
enum class Use : std::uint8_t {
  work,        // what the jobs would take with their nodes at their best
  slow_down,   // what they take longer
  rounding,    // GPUs of a job's last node that it does not ask for
  fragmented,  // free while the first in the queue waits that asks for no more GPUs than are free
  short_of,    // free while the first in the queue asks for more than are free
  idle,        // free while nobody waits
  lost,        // work that is done again after a failure
  restart,     // jobs that come up after a failure
  repair       // nodes that are being mended
};
inline constexpr std::size_t kUses = 9;

/// Of a job that failed, what its last start got.
struct Placed {
  std::int64_t start_ms = 0, end_ms = 0;  // of its first start, and of its work
  std::int64_t running_ms = 0;            // in all its starts together
  std::int64_t failures = 0;
  Span span = Span::node;
  std::int64_t units = 1;  // that it touches
  bool at_best = true;     // it could lie no nearer: it runs as long as its work
};

inline constexpr std::size_t kSlices = 200;
struct Outcome {
  std::vector<Placed> jobs;               // as the trace's
  std::array<__int128, kUses> gpu_ms{};   // from the first arrival to the last end
  std::int64_t begin_ms = 0, end_ms = 0;  // of that time
  std::int64_t backfilled = 0;            // jobs that started ahead of one that came before
  std::vector<std::int64_t> held_gpus;    // that jobs hold, mean of each of `kSlices` even slices of the time
};

/// Every job must fit the empty cluster; the sum of their times with slow-downs must stay below 4e18 ms. The same
/// arguments give the same outcome. Throws sim::UserError where failures come so often that a job does not end within
/// kMostStarts.
inline constexpr std::int64_t kMostStarts = 10'000;
Outcome replay(const Layout& layout, const Trace& trace, const Policy& policy, std::uint64_t seed);

}  // namespace orrery::queue
