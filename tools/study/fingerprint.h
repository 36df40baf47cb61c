// What a study's results depend on, as a short text: two studies with the same fingerprint give the same rows.
#pragma once

#include <string>
#include <vector>

#include "sim/settings.h"

namespace orrery::tools {

/// Sixteen hexadecimal digits over the scenario, the texts that say what is asked, the program's version, and every
/// shipped document that a scenario can name (device profiles, software generations, models, fabrics). Left out:
/// documents elsewhere that the scenario names by path.
std::string fingerprint_of(const sim::Settings& scenario, const std::vector<std::string>& asked);

}  // namespace orrery::tools
