// Ways through a launch script that come to different scenarios: where they part, and how a user says which is meant.
#pragma once

#include <functional>
#include <string>

#include "tools/import/import.h"

namespace orrery::tools {

/// The first condition that two ways take otherwise; null: none.
const ShellDecision* parting(const LaunchLine& a, const LaunchLine& b);
/// The lines in which two outcomes differ, a few of them.
std::string difference(const std::string& a, const std::string& b);
/// The options that decide a condition.
std::string how_to_say(const ShellDecision& decision);
/// What of a word is not known, and the options that say it; `key`: of the scenario, empty where it has none.
std::string how_to_give(const std::string& text, const std::string& key);
/// Whether a way takes every condition as it is where nobody sets what the script does not.
bool as_usual(const LaunchLine& line);
/// The scenario that all ways come to, or all that are as usual; `draft_of` reads one by its place in the list. Throws
/// sim::UserError with the condition where they come to several.
Draft draft_of_ways(const LaunchScript& script, const std::function<Draft(std::size_t way)>& draft_of);

}  // namespace orrery::tools
