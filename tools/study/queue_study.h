// A queue trace under several policies: what the cluster does, how long jobs wait, what their placement costs them.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "scenarios/scenario.h"
#include "tools/study/queue_trace.h"
#include "workloads/runs/campaign/distribution.h"
#include "workloads/runs/queue/replay.h"

namespace orrery::tools {

const std::vector<std::string>& queue_order_names();      // as queue::Order
const std::vector<std::string>& queue_placement_names();  // as queue::Placement

struct QueueOptions {
  std::int64_t gpus = 0;                        // of the cluster; 0: the scenario's
  std::string device;                           // of the nodes, where the cluster has several kinds
  std::vector<std::string> orders, placements;  // empty: all
  std::int64_t resamples = 0;
  bool failures = false;  // as the scenario's campaign section says
  unsigned jobs = 1;
};

/// What a job of so many GPUs takes with its nodes dealt out over ever more of the cluster, over what it takes with
/// them at their best.
struct QueuePrice {
  std::int64_t gpus = 0;
  double best_s = 0;  // its step
  std::array<double, queue::kSpans> factor{1, 1, 1, 1};
};

/// From arrival to start, in seconds.
struct QueueWaits {
  double mean_s = 0, p50_s = 0, p95_s = 0, p99_s = 0, max_s = 0;
  std::vector<double> all_s;  // by job
};

/// One policy's outcome in figures.
struct QueueRow {
  std::string order, placement;
  queue::Policy policy;
  std::array<double, queue::kUses> shares{};  // of the GPUs' time
  double utilisation = 0;                     // GPUs that jobs asked for and hold, over all
  double makespan_s = 0;
  QueueWaits waits;
  /// Mean of max(1, (wait + run) / max(run, 10 s)): Feitelson's bounded slow-down; waits for another start counted.
  double bounded_slowdown = 1;
  double stretch = 1;  // run over the run with nodes at their best, mean by GPU-time
  std::int64_t backfilled = 0, failures = 0;
  std::array<std::int64_t, queue::kSpans> spans{};  // jobs by how far their nodes lie apart
  std::vector<std::int64_t> held_gpus;              // over time
};

struct QueueStudy {
  scenarios::Scenario scenario;
  std::string trace_file;
  QueueTrace trace;
  queue::Layout layout;
  std::vector<QueuePrice> prices;  // by size, rising
  queue::Failures failures;
  std::vector<QueueRow> rows;
  std::size_t best = 0;  // the row with the least mean of the bounded slow-down
  /// Of that policy, with jobs drawn anew for every arrival.
  struct Resampled {
    std::int64_t seeds = 0;
    campaign::Distribution utilisation, wait_mean_s, wait_p95_s, bounded_slowdown;
  } resampled;
  std::vector<std::string> notes;
  bool interrupted = false;
};

/// Where the nodes of a cluster lie.
queue::Layout layout_of(const topology::Cluster& cluster);

/// `document`: a scenario whose job stands for the trace's: jobs of another size are that job with fewer or more
/// data-parallel replicas. A cluster with nodes of several kinds is as many partitions, of which `options` name one: no
/// job takes nodes of two. The same bytes for any number of jobs at a time. Throws UserError.
QueueStudy study_queue(const sim::Settings& document, const std::string& trace, const QueueOptions& options);

}  // namespace orrery::tools
