// Settings as YAML text, for people who copy a scenario out of a report.
#pragma once

#include <string>

#include "sim/settings.h"

namespace orrery::scenarios {

/// `document` in block style, mappings of scalars that fit a line in flow style; parse_yaml reads the same tree back.
std::string yaml_text(const sim::Settings& document);

}  // namespace orrery::scenarios
