// Many seeds' outcomes as distributions.
#pragma once

#include <string>
#include <vector>

#include "workloads/runs/campaign/run.h"

namespace orrery::campaign {

/// Of a sample. Percentiles are those of the sorted sample, the smallest value that at least so many per cent do not
/// exceed; `error` is half the width of the mean's 95 % interval (normal; 0 for one value).
struct Distribution {
  double mean = 0, error = 0, p5 = 0, p50 = 0, p95 = 0;
};
Distribution distribution(std::vector<double> values);

/// Of one outcome.
double goodput(const Outcome& outcome);  // work over wall
/// Effective training time ratio: the time of steps that count, however slow, with their evaluations, over wall
/// (Kokolis et al., arXiv 2410.21680).
double ettr(const Outcome& outcome);
double mttr_s(const Outcome& outcome);  // from a failure to the next step, mean; 0 without failures
double mtbf_s(const Outcome& outcome);  // wall over failures; wall without any
double wall_s(const Outcome& outcome);

struct CauseSummary {
  std::string name;
  Effect effect{};
  Distribution count, lost_s, down_s;
};

struct Summary {
  std::size_t seeds = 0, finished = 0;
  Distribution wall_s, goodput, ettr, mttr_s, mtbf_s, failures, planned_stops, degradations, steps;
  std::vector<Distribution> shares_s;  // by Share
  std::vector<CauseSummary> causes;
  std::size_t median = 0;  // the outcome whose wall is the p50; of windows, whose goodput is
};
Summary summarise(const Plan& plan, const std::vector<Outcome>& outcomes);

}  // namespace orrery::campaign
