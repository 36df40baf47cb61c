// What is asked of a step: which parts of its result, and how exactly it is simulated for them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace orrery::workloads {

class StepCache;
struct PlannedStep;

struct Question {
  /// Times and rates alone; energy too; or all of the result: breakdown, memory, traffic and assumptions as well.
  enum class Parts : std::uint8_t { times, energy, all } parts = Parts::all;
  /// One rank for all that nothing tells apart; every rank; or every rank, with passes that nothing outside disturbs as
  /// one operation each.
  enum class Ranks : std::uint8_t { folded, every, every_by_passes } ranks = Ranks::folded;
  /// Of the busiest rank of every stage, what pictures are drawn from: nothing; when its passes ran, which takes
  /// little; or its timeline and kernels too, as a report has them.
  enum class Stages : std::uint8_t { none, bars, timelines } stages = Stages::none;
  /// Timelines, as a trace has them, of these ranks (below the number of GPUs, none twice), or where there are none of
  /// every class of ranks.
  std::optional<std::vector<std::int64_t>> timelines = {};
  bool counts_memory = false;            // activations from simulated lifetimes too
  StepCache* cache = nullptr;            // of a study with many jobs; not with every rank
  const PlannedStep* planned = nullptr;  // plan_step() of this very job, which then is not planned again
  std::uint32_t threads = 1;             // with every rank: of this one run (sim/engine_threads.h)

  bool of_every_rank() const { return ranks != Ranks::folded; }
  bool draws_ranks() const { return timelines.has_value(); }
  /// The ranks that `timelines` names.
  std::vector<std::int64_t> named_ranks() const { return timelines.value_or(std::vector<std::int64_t>{}); }
};

}  // namespace orrery::workloads
