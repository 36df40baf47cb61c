// All campaigns of a study meet the same failures, seed by seed (campaign/random.h), so that differences of a part in a
// thousand show after a hundred seeds.
#include "tools/study/campaign_study.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "tools/parallel.h"
#include "workloads/runs/campaign/closed_form.h"
#include "workloads/runs/campaign/interval.h"
#include "workloads/runs/campaign/what_if.h"

namespace orrery::tools {

using campaign::Outcome;
using campaign::Plan;
using campaign::Spec;

namespace {

/// Of what lies beside the campaign itself.
constexpr std::int64_t kStudySeeds = 100;
/// Seeds that a thread takes at a time.
constexpr std::size_t kBatch = 16;

/// A plan's outcomes by seed; empty after Ctrl-C.
std::vector<Outcome> outcomes_of(const Plan& plan, std::int64_t seeds, unsigned jobs, const std::string& what) {
  std::vector<Outcome> outcomes(static_cast<std::size_t>(seeds));
  const std::size_t batches = (outcomes.size() + kBatch - 1) / kBatch;
  const std::vector<char> done = for_each_parallel(batches, jobs, what, [&](std::size_t batch) {
    for (std::size_t i = batch * kBatch; i < std::min(outcomes.size(), (batch + 1) * kBatch); ++i)
      outcomes[i] = campaign::run(plan, i + 1);
  });
  if (std::find(done.begin(), done.end(), 0) != done.end()) outcomes.clear();
  return outcomes;
}

/// Mean over plans, each with the seeds of the study.
struct Mean {
  double goodput = 0, error = 0, step_s = 0;  // step_s: wall over steps that count
};
std::vector<Mean> means_of(const std::vector<Plan>& plans, std::int64_t seeds, unsigned jobs, const std::string& what) {
  std::vector<Mean> means(plans.size());
  for_each_parallel(plans.size(), jobs, what, [&](std::size_t p) {
    std::vector<double> goodputs;
    double wall = 0, steps = 0;
    for (std::int64_t seed = 1; seed <= seeds; ++seed) {
      const Outcome outcome = campaign::run(plans[p], static_cast<std::uint64_t>(seed));
      goodputs.push_back(campaign::goodput(outcome));
      wall += campaign::wall_s(outcome);
      steps += static_cast<double>(outcome.steps);
    }
    const campaign::Distribution goodput = campaign::distribution(std::move(goodputs));
    means[p] = {goodput.mean, goodput.error, wall / std::max(1.0, steps)};
  });
  return means;
}

IntervalStudy study_interval(const CampaignStudy& study, std::int64_t seeds, unsigned jobs) {
  IntervalStudy interval;
  const Plan& plan = study.plan;
  const double rate = campaign::failure_rate(plan);
  interval.used = static_cast<double>(plan.saves.front().every);
  interval.stall_s = campaign::to_seconds(plan.saves.front().stall);
  if (!(rate > 0)) return interval;
  const double step_s = static_cast<double>(plan.phases.back().step[0]) / sim::kPicosecondsPerSecond;
  interval.young = campaign::young_interval(interval.stall_s, 1 / rate) / step_s;
  interval.daly = campaign::daly_interval(interval.stall_s, 1 / rate) / step_s;
  // A window of intervals, at first about the one in use, moves to the cheapest that was tried until that lies inside.
  std::map<std::int64_t, Mean> tried;
  const auto cheaper = [](const auto& a, const auto& b) { return a.second.step_s < b.second.step_s; };
  auto centre = std::clamp<std::int64_t>(std::llround(interval.used), 1, plan.steps);
  for (bool inside = false; !inside && !InterruptGuard::interrupted();) {
    std::vector<std::int64_t> window = campaign::interval_candidates(centre);
    std::erase_if(window, [&](std::int64_t every) { return every > plan.steps; });
    std::vector<std::int64_t> fresh;
    std::vector<Plan> plans;
    for (const std::int64_t every : window) {
      if (tried.contains(every)) continue;
      fresh.push_back(every);
      plans.push_back(campaign::with_interval(plan, study.priced.spec, study.priced.machine, every));
    }
    const std::vector<Mean> means = means_of(plans, seeds, jobs, "intervals");
    for (std::size_t i = 0; i < fresh.size(); ++i) tried[fresh[i]] = means[i];
    std::vector<campaign::IntervalCost> costs;
    for (const std::int64_t every : window) costs.push_back({static_cast<double>(every), tried[every].step_s});
    interval.best = campaign::best_interval(costs);
    const std::int64_t cheapest = std::min_element(tried.begin(), tried.end(), cheaper)->first;
    inside = cheapest == centre || (cheapest > window.front() && cheapest < window.back());
    centre = cheapest;  // whose cost falls from window to window, so that this ends
  }
  for (const auto& [every, mean] : tried)
    interval.points.push_back({static_cast<double>(every), mean.goodput, mean.error});
  return interval;
}

void study_changes(CampaignStudy& study, std::int64_t seeds, unsigned jobs) {
  const std::vector<campaign::WhatIf> list = campaign::what_ifs(study.priced.spec, study.priced.machine, study.plan);
  std::vector<Plan> plans{study.plan};
  for (const campaign::WhatIf& what_if : list)
    plans.push_back(campaign::compile(what_if.spec, study.priced.machine, study.priced.prices));
  const std::vector<Mean> means = means_of(plans, seeds, jobs, "what-ifs");
  for (std::size_t i = 0; i < list.size(); ++i) {
    const double share = 1 - means[i + 1].step_s / means[0].step_s;
    study.changes.push_back({list[i].what, share * study.summary.wall_s.mean, means[i + 1].goodput});
  }
  std::stable_sort(study.changes.begin(), study.changes.end(),
                   [](const auto& a, const auto& b) { return a.saved_s > b.saved_s; });
}

/// As many failures, ranks and bytes as the machine would have at another size, the step as it is: weak scaling.
void study_sizes(CampaignStudy& study, std::int64_t seeds, unsigned jobs) {
  std::vector<Plan> plans;
  for (const double factor : {0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0}) {
    Spec spec = study.priced.spec;
    for (campaign::Cause& cause : spec.fleet.causes) {
      if (cause.per != campaign::Per::job) cause.mtbf_h /= factor;
    }
    spec.repair.initialisation_per_rank_s *= factor;
    plans.push_back(campaign::compile(spec, study.priced.machine, study.priced.prices));
    study.sizes.push_back({factor * static_cast<double>(study.priced.machine.gpus), 0, 0});
  }
  const std::vector<Mean> means = means_of(plans, seeds, jobs, "sizes");
  for (std::size_t i = 0; i < means.size(); ++i) {
    study.sizes[i].goodput = means[i].goodput;
    study.sizes[i].error = means[i].error;
  }
}

}  // namespace

CampaignStudy study_campaign(const sim::Settings& document, const CampaignOptions& options) {
  CampaignStudy study;
  study.priced = price_campaign(document, options.jobs);
  study.interrupted = study.priced.interrupted;
  if (study.interrupted) return study;
  study.plan = campaign::compile(study.priced.spec, study.priced.machine, study.priced.prices);
  study.outcomes = outcomes_of(study.plan, options.seeds, options.jobs, "campaigns");
  study.interrupted = study.outcomes.empty();
  if (study.interrupted) return study;
  study.summary = campaign::summarise(study.plan, study.outcomes);
  study.median = campaign::run(study.plan, study.summary.median + 1, true);
  if (options.studies) {
    const std::int64_t seeds = std::min(options.seeds, kStudySeeds);
    study.interval = study_interval(study, seeds, options.jobs);
    study_changes(study, seeds, options.jobs);
    study_sizes(study, seeds, options.jobs);
  }
  study.interrupted = InterruptGuard::interrupted();
  return study;
}

}  // namespace orrery::tools
