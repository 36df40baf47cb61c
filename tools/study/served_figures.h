// Published figures of a service beside the prediction: rows of `orrery reproduce` whose scenario has a serving
// section.
#pragma once

#include <string>
#include <vector>

#include "sim/settings.h"
#include "tools/study/record_table.h"

namespace orrery::tools {

std::vector<std::string> served_figure_names();
/// Fills the row: what it is, and a cell for each figure of `published`. Throws sim::UserError.
void predict_served(const sim::Settings& scenario, const sim::Settings& published, RecordRow& row);

}  // namespace orrery::tools
