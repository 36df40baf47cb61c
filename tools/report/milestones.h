// Training compute of milestone systems beside published estimates: scenarios/reproduce/milestones.yaml.
#pragma once

#include <iosfwd>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "sim/settings.h"
#include "tools/report/grid.h"
#include "workloads/model/model.h"

namespace orrery::tools {

/// One system. FLOPs are of its whole training.
struct Milestone {
  std::string name, source, notes;
  double parameters = 0, active = 0;            // elements
  std::optional<double> year;                   // of its publication, in years and their fractions
  std::optional<double> tokens, published;      // where they are known
  std::optional<double> six_n, square, causal;  // by convention (workloads/model/token_flops.h)
  bool by_square = false;                       // what `published` counts: square, else six_n
  std::optional<double> error_pct() const;      // of the convention that `published` counts by
};

/// A model by name, path or mapping, as a scenario has it. Throws sim::UserError.
workloads::Model model_of(const sim::Settings& model);

/// Reads the document and counts. Throws sim::UserError.
std::vector<Milestone> milestones_of(const sim::Settings& document);

Grid milestones_grid(const std::string& title, const std::vector<Milestone>& milestones);
/// Compute over time as SVG (milestone_chart.cc).
void write_milestone_chart(std::ostream& out, const std::string& title, const std::vector<Milestone>& milestones);
nlohmann::ordered_json milestones_json(const std::string& table, const std::vector<Milestone>& milestones);

}  // namespace orrery::tools
