// Every job fails as the scenario's would, for its number of GPUs, and comes back as that would.
#include "tools/study/queue_failures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "scenarios/campaign.h"
#include "sim/error.h"
#include "tools/study/campaign.h"
#include "tools/study/campaign_prices.h"
#include "workloads/memory/memory.h"
#include "workloads/runs/campaign/plan.h"

namespace orrery::tools {

namespace {

/// The campaign of the scenario's job, all states at the price of a step in which nothing is wrong.
campaign::Plan plan_of(const campaign::Spec& spec, const scenarios::Scenario& scenario) {
  const auto& job = scenario.job;
  workloads::Question options;
  options.parts = workloads::Question::Parts::times;
  const sim::Duration step = workloads::simulate_step(job, options).iteration;
  const auto slow = static_cast<std::size_t>(
      std::count_if(spec.fleet.causes.begin(), spec.fleet.causes.end(),
                    [](const campaign::Cause& cause) { return cause.effect == campaign::Effect::slow; }));
  const std::size_t states = (spec.ramp.size() + 1) * (slow + 1);
  const auto stages = workloads::stage_memory(job, workloads::split_layers(job));
  return campaign::compile(spec, machine_of(scenario, stages), {1, slow + 1, {states, step}, {}, 0});
}

double rate_of(const campaign::Hazard& hazard) {
  campaign::Plan alone;
  alone.hazards = {hazard};
  return campaign::failure_rate(alone);
}

}  // namespace

QueueFailures queue_failures(const scenarios::Scenario& scenario, const sim::Settings& document) {
  const std::optional<campaign::Spec> spec = scenarios::load_campaign(document);
  if (!spec || spec->fleet.causes.empty()) {
    throw sim::UserError(fmt::format(
        "{}: campaign.failures: is missing, expected as in {{tokens: 1e12, failures: llama3-2024}} for --failures",
        document.place().file.text()));
  }
  const auto& job = scenario.job;
  const campaign::Plan plan = plan_of(*spec, scenario);
  double all = 0, of_jobs = 0, of_nodes = 0, mended_s = 0, found_s = 0;
  for (const campaign::Hazard& hazard : plan.hazards) {
    if (hazard.effect == campaign::Effect::slow) continue;
    const double rate = rate_of(hazard);
    const auto cause = std::find_if(spec->fleet.causes.begin(), spec->fleet.causes.end(),
                                    [&](const campaign::Cause& c) { return c.name == hazard.name; });
    all += rate;
    if (cause != spec->fleet.causes.end() && cause->per == campaign::Per::job) of_jobs += rate;
    if (hazard.nodes > 0) {
      of_nodes += rate;
      mended_s += rate * campaign::to_seconds(hazard.repair);
    }
    found_s += rate * campaign::to_seconds(hazard.detection + hazard.diagnosis);
  }
  constexpr double kMilliseconds = 1000, kLongest = 1e12;  // thirty years
  const auto milliseconds = [&](double seconds) {
    return static_cast<std::int64_t>(std::llround(std::min(seconds * kMilliseconds, kLongest)));
  };
  QueueFailures out;
  queue::Failures& rates = out.rates;
  rates.per_job_ms = of_jobs / kMilliseconds;
  rates.per_gpu_ms = (all - of_jobs) / static_cast<double>(job.machine.gpus) / kMilliseconds;
  rates.node_share = all > 0 ? of_nodes / all : 0;
  rates.repair_ms = of_nodes > 0 ? milliseconds(mended_s / of_nodes) : 0;
  const campaign::Plan::Restart& restart = plan.restart;
  campaign::Elapsed comes_up = restart.allocate + restart.initialise[0] + restart.warm_up;
  if (!plan.saves.empty()) comes_up = comes_up + plan.saves.front().load;
  rates.restart_ms = milliseconds((all > 0 ? found_s / all : 0) + campaign::to_seconds(comes_up));
  const double step_s = static_cast<double>(plan.phases.back().step[0]) / sim::kPicosecondsPerSecond;
  if (!plan.saves.empty())
    rates.checkpoint_ms =
        std::max<std::int64_t>(1, milliseconds(step_s * static_cast<double>(plan.saves.front().every)));
  out.note = fmt::format(
      "Jobs fail at {:.3g} a GPU-year, {:.0f} % of the failures take their node out for {}; a start after one takes "
      "{}, "
      "and work since the last checkpoint, of one every {}, is done again.",
      rates.per_gpu_ms * kMilliseconds * 365.25 * 86400, 100 * rates.node_share,
      long_time_text(static_cast<double>(rates.repair_ms) / kMilliseconds),
      long_time_text(static_cast<double>(rates.restart_ms) / kMilliseconds),
      long_time_text(static_cast<double>(rates.checkpoint_ms) / kMilliseconds));
  return out;
}

}  // namespace orrery::tools
