// What the HTML reports of `orrery compare` and `orrery validate` show, as data for the page.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "tools/report/comparison.h"
#include "tools/validation.h"

namespace orrery::tools {

/// Systems side by side. `rows`: as for write_comparison_table, of these systems.
nlohmann::ordered_json comparison_page(const std::vector<ComparedSystem>& systems,
                                       const std::vector<ComparisonRow>& rows);

/// Predicted beside measured, by list.
nlohmann::ordered_json validation_page(const std::vector<ValidationRow>& rows, std::size_t records);

}  // namespace orrery::tools
