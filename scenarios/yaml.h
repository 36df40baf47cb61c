// YAML for values that do not come from a file, and of files that others than the language's users write.
#pragma once

#include <optional>
#include <string>

#include "sim/settings.h"

namespace orrery::scenarios {

/// YAML text whose every node is placed at `source` without line and column, as in "--set". Throws UserError as
/// parse_yaml.
sim::Settings parse_yaml_value(const std::string& text, const std::string& source);

/// As parse_yaml, of a file that is not in the language, which may repeat values: anchors, aliases and merge keys.
sim::Settings parse_yaml_of_others(const std::string& text, const std::string& file_name);

/// The two ways in which parse_yaml reads, without its limits on bytes and marks: by scenarios/plain_yaml.h, nothing
/// where the text is not plain or not right; and by the parser of the whole language.
std::optional<sim::Settings> parse_plain_yaml(const std::string& text, const std::string& file_name);
sim::Settings parse_whole_yaml(const std::string& text, const std::string& file_name);

}  // namespace orrery::scenarios
