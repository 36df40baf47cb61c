// Published gains of placement beside simulated ones: what `orrery reproduce` prints of a table that has `placements`.
#pragma once

#include <iosfwd>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "sim/settings.h"
#include "tools/report/grid.h"
#include "workloads/runs/campaign/distribution.h"

namespace orrery::tools {

struct PlacementRow {
  std::string name, source, notes;
  std::string together, against;  // what is kept together; what it is compared with
  std::int64_t gpus = 0, pods = 0;
  std::optional<double> published_pct;  // how much more throughput
  campaign::Distribution gain_pct;      // over seeds: of paths that are hashed, and of a random order
  double step_s = 0;                    // of the better placement, mean
  /// The most pods that a group touches, before and after.
  std::int64_t data_before = 0, data_after = 0, pipeline_before = 0, pipeline_after = 0;
};

/// Simulates all rows of a table, in order; nothing after Ctrl-C. Throws UserError.
std::vector<PlacementRow> simulate_placements(const sim::Settings& document, unsigned jobs);
void write_placement_rows(std::ostream& out, const std::string& title, const std::vector<PlacementRow>& rows);
nlohmann::ordered_json placement_rows_json(const std::string& table, const std::vector<PlacementRow>& rows);

Grid grid_of(const std::string& title, const std::vector<PlacementRow>& rows);

}  // namespace orrery::tools
