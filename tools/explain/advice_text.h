// Advice for people and for programs.
#pragma once

#include <iosfwd>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tools/explain/advice.h"

namespace orrery::tools {

/// The command that runs the scenario, a file or a question's flags, with a suggestion; values that a shell would read
/// are quoted. `sets`: what was laid over the scenario before.
std::string command_of(const std::string& scenario, const std::vector<std::string>& sets, const Suggestion& suggestion);

/// `scenario` and `sets`: as on the command line. `brief`: three lines in all, for what follows a report.
void write_advice(std::ostream& out, const Advice& advice, const std::string& scenario,
                  const std::vector<std::string>& sets, bool brief = false);

nlohmann::ordered_json advice_json(const Advice& advice, const std::string& scenario,
                                   const std::vector<std::string>& sets);

}  // namespace orrery::tools
