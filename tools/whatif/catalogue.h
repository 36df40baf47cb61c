// What the what-if page offers to choose from.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace orrery::tools {

/// {"version", "lists": {"devices": [{"name", "about"}], ...}, "scenarios": [{"name", "about", "text"}], "keys":
/// [{"path", "type", "unit", "default", "choices", "meaning"}]}. Throws sim::UserError where a shipped file cannot be
/// read.
nlohmann::ordered_json catalogue_json();

}  // namespace orrery::tools
