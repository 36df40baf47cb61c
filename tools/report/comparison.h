// Systems beside each other: one training step of several scenarios, and by how much one is better than another, as a
// table for a terminal or a paper.
#pragma once

#include <iosfwd>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/scenario.h"
#include "tools/report/grid.h"
#include "workloads/step/step.h"

namespace orrery::tools {

/// One simulated scenario under a name for tables.
struct ComparedSystem {
  std::string name;
  scenarios::Scenario scenario;
  workloads::StepReport report;
};

/// Loads and simulates a scenario file with `sets` laid over it; its name is the scenario's id. `drawn`: with the
/// timelines of its stages. Throws sim::UserError.
ComparedSystem compared_system(const std::string& file, const std::vector<std::string>& sets = {}, bool drawn = false);

struct Ratio {
  const char* name;
  std::optional<double> value;  // none: one of the two runs out of memory
  const char* meaning;
};
/// ThroughputSpeedup and FLOPsUtilization, target over baseline, and MemoryUsageEfficiency, baseline over target: each
/// above 1 where the target is better (the contract's Metrics).
std::vector<Ratio> ratios_of(const workloads::StepReport& target, const workloads::StepReport& baseline);

/// A row: `system` itself, with the ratios of `target` over `baseline`; both null for a row without ratios.
struct ComparisonRow {
  const ComparedSystem* system = nullptr;
  const ComparedSystem* target = nullptr;
  const ComparedSystem* baseline = nullptr;
  std::string group;  // rows of one group stand together under this title; empty: no title
};

enum class TableFormat { text, markdown, latex, csv };
/// As the command line spells them, in the order of the enumeration.
const std::vector<std::string>& table_format_names();
TableFormat table_format(const std::string& name);

/// Step time, throughput, MFU, memory and the three ratios of every row; what does not fit its memory is OOM. LaTeX
/// needs the package booktabs.
void write_comparison_table(std::ostream& out, TableFormat format, const std::vector<ComparisonRow>& rows);

/// One system's part of the JSON of comparisons; null for what an OOM system has not.
nlohmann::ordered_json system_json(const ComparedSystem& system);
/// Target, baseline, whether either is OOM, and the ratios.
nlohmann::ordered_json comparison_json(const ComparedSystem& target, const ComparedSystem& baseline);

/// All rows, each with its group, for a page.
Grid comparison_grid(const std::string& title, const std::vector<ComparisonRow>& rows);

}  // namespace orrery::tools
