// Tables of measured steps of reinforcement learning, row by row beside a prediction. Each row becomes a scenario of
// the language, as text, which `orrery rl` runs to the same digit; rows that do not say how long answers are cannot be
// run, but for those of a weight transfer alone.
#pragma once

#include <string>
#include <vector>

#include "tools/study/serving_tables.h"

namespace orrery::tools {

/// Whether the file is such a table, by its name and header.
bool is_rl_table(const std::string& file);
/// Rows, as those of tables of serving. Throws sim::UserError where the table cannot be read.
std::vector<ServingRow> validate_rl(const std::string& file, unsigned jobs);

}  // namespace orrery::tools
