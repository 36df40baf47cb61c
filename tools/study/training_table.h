// Published times of whole trainings beside campaigns without failures: what `orrery reproduce` prints of a table that
// has `trainings`. How many steps a training took to its target is the source's: nothing here predicts convergence.
#pragma once

#include <iosfwd>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "sim/settings.h"
#include "tools/report/grid.h"

namespace orrery::tools {

struct TrainingRow {
  std::string name, source, notes;
  std::int64_t gpus = 0, steps = 0, evaluations = 0;
  std::vector<double> published_start_s, published_run_s;  // of every run of the source; start: before the first step
  double start_s = 0, run_s = 0;                           // simulated
  /// Of the simulated run against the median of the published ones.
  double run_error_pct() const;
  /// Of start and run together.
  double whole_error_pct() const;
};

/// The middle of the sorted values; of an even number the mean of the two in the middle. At least one.
double median_of(std::vector<double> values);

/// Simulates all trainings of a table, in order; nothing after Ctrl-C. Throws UserError.
std::vector<TrainingRow> simulate_trainings(const sim::Settings& document, unsigned jobs);
void write_training_rows(std::ostream& out, const std::string& title, const std::vector<TrainingRow>& rows);
nlohmann::ordered_json training_rows_json(const std::string& table, const std::vector<TrainingRow>& rows);

Grid grid_of(const std::string& title, const std::vector<TrainingRow>& rows);

}  // namespace orrery::tools
