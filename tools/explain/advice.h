// What to change about a job, and why: what-ifs around its layout, each simulated by the code that simulates the job,
// the fastest first of those that fit the memory. First one change at a time, then pairs of those that promise most.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/scenario.h"
#include "tools/pair_errors.h"
#include "tools/study/what_if.h"
#include "workloads/step/step.h"

namespace orrery::tools {

struct Suggestion {
  WhatIf what_if;
  std::vector<std::string> set;  // as --set takes them, everything that follows from the change included
  double step_s = 0;             // with the change
  double saved = 0;              // share of the step as it is; below 0: longer
  double peak_bytes = 0;
  std::array<double, workloads::kCategories> exposed_s{};  // the breakdown with the change
  std::string reason;                                      // which parts of the step shrink and grow
  Confidence confidence = Confidence::unknown;
  double error68 = 0;  // of the ratio of this step and the one as it is, as a logarithm
};

struct Advice {
  /// The job as it is. A step that does not fit is what it would take if it did.
  struct Now {
    double step_s = 0, peak_bytes = 0, capacity_bytes = 0;
    bool fits = true;
    std::array<double, workloads::kCategories> exposed_s{};
  } now;
  std::vector<Suggestion> suggestions;  // best first: of a job that fits, what saves time; of another, what fits
  std::vector<Suggestion> numerics;     // the same of changes to what is computed
  struct Counts {
    std::size_t tried = 0, simulated = 0, too_large = 0, infeasible = 0, slower = 0, errors = 0;
  } counts;                         // slower: by a bound, without a simulation; errors: ours
  std::optional<PairErrors> error;  // of ratios of two layouts
  bool interrupted = false;
  double wall_s = 0;
};

struct AdviceOptions {
  std::size_t top = 5;     // suggestions
  std::size_t pairs = 32;  // pairs to simulate
  unsigned jobs = 1;       // threads
};

/// Evaluation passes are left out. Throws sim::UserError where the scenario does not load.
Advice advise(const sim::Settings& document, const AdviceOptions& options);

/// The part of the step that shrinks most from `now` to `then`, and the one that grows most, as shares of `step_s`.
std::string reason_text(const std::array<double, workloads::kCategories>& now,
                        const std::array<double, workloads::kCategories>& then, double step_s);

}  // namespace orrery::tools
