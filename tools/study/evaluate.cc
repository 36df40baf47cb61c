// One point of a study. Memory comes first: it follows from formulas, so that what does not fit is never planned. Left
// out: breakdown and traffic, which `orrery run` reports of a point worth looking at.
#include <fmt/format.h>

#include <algorithm>
#include <new>

#include "sim/error.h"
#include "tools/report/text.h"
#include "tools/study/point.h"
#include "workloads/memory/memory.h"
#include "workloads/step/step.h"
#include "workloads/step/training_cost.h"

namespace orrery::tools {

namespace {

std::string in_one_line(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; }, ' ');
  return text;
}

}  // namespace

namespace {
/// The result with its memory, and whether that is there.
PointResult memory_of(const scenarios::Scenario& scenario) {
  PointResult result;
  const workloads::MemoryNeed need = workloads::memory_need(
      workloads::stage_memory(scenario.job, workloads::split_layers(scenario.job)), scenario.job.machine);
  result.peak_memory_gb = need.peak / 1e9;
  result.status = need.fits() ? PointStatus::ok : PointStatus::oom;
  if (need.fits()) return result;
  if (need.peak <= need.capacity)
    result.reason = fmt::format("out of memory: needs {} of {} of a node's hosts", bytes_text(need.host.peak),
                                bytes_text(need.host.capacity));
  else
    result.reason = fmt::format("out of memory: needs {} of {} per GPU", bytes_text(result.peak_memory_gb * 1e9),
                                bytes_text(need.capacity));
  return result;
}
}  // namespace

std::optional<PointResult> out_of_memory(const scenarios::Scenario& scenario) {
  PointResult result = memory_of(scenario);
  return result.status == PointStatus::oom ? std::optional(std::move(result)) : std::nullopt;
}

PointResult evaluate(const scenarios::Scenario& scenario, workloads::StepCache& cache,
                     workloads::StepReport* in_detail) {
  const workloads::Job& job = scenario.job;
  PointResult result = memory_of(scenario);
  if (result.status == PointStatus::oom) return result;
  workloads::Question options;
  options.parts = in_detail != nullptr ? workloads::Question::Parts::all : workloads::Question::Parts::energy;
  options.cache = &cache;
  workloads::StepReport own;
  workloads::StepReport& report = in_detail != nullptr ? *in_detail : own;
  report = workloads::simulate_step(job, options);
  const workloads::TrainingCost cost =
      workloads::training_cost(job.training, job.machine.gpus, report.evaluation.tokens_per_s);
  result.iteration_s = sim::to_seconds(report.iteration);
  result.tokens_per_s = report.rates.tokens_per_s;
  result.mfu_pct = report.rates.mfu_pct;
  result.time_to_train_s = cost.time_s;
  result.cost_usd = cost.usd;
  result.usd_per_million_tokens = cost.usd_per_million_tokens;
  if (report.energy.known) result.energy_per_token_j = report.energy.site_w() / report.rates.tokens_per_s;
  return result;
}

PointResult failed_point() {
  PointResult result;
  const auto internal = [&](const std::string& what) {
    result.status = PointStatus::error;
    result.reason = in_one_line("internal error: " + what);
  };
  try {
    throw;
  } catch (const sim::UserError& error) {
    result.status = PointStatus::infeasible;
    result.reason = in_one_line(error.what());
  } catch (const std::bad_alloc&) {
    internal("out of the host's memory");
  } catch (const std::exception& error) {
    internal(error.what());
  }
  return result;
}

}  // namespace orrery::tools
