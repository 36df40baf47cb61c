// The arguments of `llamafactory-cli train` in a shell script, as the mapping of a file.
#pragma once

#include <string>

#include "sim/settings.h"

namespace orrery::tools {

/// Of the first training that the script starts: its flags, with what the file that it names says below them. Throws
/// sim::UserError where there is no such command, and for a file that is not there.
sim::Settings trainer_command(const std::string& text, const std::string& file);

}  // namespace orrery::tools
