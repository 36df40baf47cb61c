// One point of a what-if study: a scenario and what one simulated step says of it, short enough for a row of a table.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/scenario.h"
#include "workloads/job/result.h"
#include "workloads/step/step_cache.h"

namespace orrery::tools {

/// ok: simulated. oom: it does not fit the memory, so no step was simulated. infeasible: the scenario cannot be run,
/// the user's error. error: our own mistake, kept in its row so that one point cannot end a study.
enum class PointStatus { ok, oom, infeasible, error };
std::string_view name_of(PointStatus status);

struct PointResult {
  PointStatus status = PointStatus::infeasible;
  double iteration_s = 0, tokens_per_s = 0, mfu_pct = 0;  // ok: of the training step
  double peak_memory_gb = 0;                              // ok and oom: decimal GB of the fullest GPU
  // ok, where the scenario has what they need (workloads/step/training_cost.h); evaluation passes included.
  double time_to_train_s = 0, cost_usd = 0, usd_per_million_tokens = 0;
  double energy_per_token_j = 0;  // ok, where the device has a power model: of the site
  std::string reason;             // of what is not ok, one line
};

/// What is said of a scenario that does not fit its GPUs; nothing of one that does.
std::optional<PointResult> out_of_memory(const scenarios::Scenario& scenario);
/// Simulates a scenario, or says that it runs out of memory. `cache`: of the study; `in_detail`: where it is given, all
/// that is known of the step, which takes longer. Throws what simulate_step throws.
PointResult evaluate(const scenarios::Scenario& scenario, workloads::StepCache& cache,
                     workloads::StepReport* in_detail = nullptr);

/// Calls `make` and evaluates what it returns; what either throws becomes a row.
template <class Make>
PointResult evaluate_made(const Make& make, workloads::StepCache& cache, workloads::StepReport* in_detail = nullptr);
/// For evaluate_made: the row of the exception being handled.
PointResult failed_point();

/// Columns of a result in tables, and its cells in that order; empty cells for what does not apply.
const std::vector<std::string>& point_columns();
std::vector<std::string> cells_of(const PointResult& result);
/// The inverse of cells_of, from cells[first]. Throws std::invalid_argument for what cells_of cannot have written.
PointResult point_of(const std::vector<std::string>& cells, std::size_t first);
/// Adds the result to a JSON row under the names of point_columns(); null for what does not apply.
void add_point(nlohmann::ordered_json& row, const PointResult& result);
/// For people: status, step time, throughput, MFU, memory and cost, in this order; `energy`: in place of MFU.
std::vector<std::string> point_text(const PointResult& result, bool energy = false);
/// The titles of point_text.
std::vector<std::string> point_titles(bool energy = false);

template <class Make>
PointResult evaluate_made(const Make& make, workloads::StepCache& cache, workloads::StepReport* in_detail) {
  try {
    return evaluate(make(), cache, in_detail);
  } catch (...) {
    return failed_point();
  }
}

}  // namespace orrery::tools
