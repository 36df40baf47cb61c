// `orrery reproduce` of tables whose rows are measured records: every figure that a record measured beside its
// prediction, with the error.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "scenarios/scenario.h"
#include "sim/settings.h"
#include "tools/report/grid.h"

namespace orrery::tools {

/// One figure of a row.
struct RecordCell {
  std::string name, title, unit;  // title: for people, with the unit
  double published = 0, predicted = 0;
  double error_pct() const;
};

struct RecordRow {
  std::string id, layout;
  std::int64_t gpus = 0;
  std::vector<RecordCell> cells;
  std::string reason;  // why there is no prediction: the scenario is refused
  bool fits = true;
};

struct RecordTable {
  std::string name, title, source;
  std::vector<std::string> notes;
  std::vector<RecordRow> rows;
};

/// Reads and simulates a table: {title, source, list, ids, columns, training, notes}. `list` is a file of
/// tests/published; `ids` which of its records, in that order, all without it (a trailing * stands for all that begin
/// so); `columns` which figures, all that were measured without it: iteration_s, tokens_per_s, tflops_per_gpu,
/// aggregate_pflops, mfu_pct, memory_gb, time_to_train; `training: {tokens, unit}` what the last is of. Throws
/// sim::UserError; stops early, with no rows, after Ctrl-C.
RecordTable simulate_records(const std::string& name, const sim::Settings& document, unsigned jobs);

/// TP, PP and so on, or a recommender's device.
std::string layout_text(const scenarios::Scenario& scenario);

Grid grid_of(const RecordTable& table);
nlohmann::ordered_json record_table_json(const RecordTable& table);

}  // namespace orrery::tools
