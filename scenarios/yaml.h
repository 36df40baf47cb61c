// Internal to the room: YAML for values that do not come from a file.
#pragma once

#include <string>

#include "sim/settings.h"

namespace orrery::scenarios {

/// YAML text whose every node is placed at `source` without line and column, as in "--set". Throws UserError as
/// parse_yaml.
sim::Settings parse_yaml_value(const std::string& text, const std::string& source);

}  // namespace orrery::scenarios
