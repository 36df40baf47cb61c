// The ways that a script may take: which have come to the same, and what one of them leaves behind.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tools/import/shell_expansion.h"
#include "tools/import/shell_run.h"

namespace orrery::tools {

/// One way alone; a list in braces would copy it, with all that it has run so far.
std::vector<ShellState> alone(ShellState state);
/// Ways that have come to the same are one; what they decided otherwise made no difference.
void merge(std::vector<ShellState>& states);
/// What is left at the end of a way: its runs, its decisions, and the variables that are known or hold options.
ShellWay shell_way(ShellState state, const std::map<std::string, std::string>& environment,
                   const std::function<sim::Place(const ShellChar&)>& place);
/// The variables and substitutions that a condition names.
std::vector<std::string> shell_names_in(const std::string& text);
/// Commands that work on files or on the shell itself, and set nothing that a launch reads.
bool changes_no_launch(const std::string& command);
/// What `dirname`, `basename PATH SUFFIX` and `realpath` print of a path that is known.
std::string path_word(const std::string& command, std::string path, const std::string& suffix);
/// How a user says what decisions hang on: variables by --env, the script's arguments behind the file.
std::string how_to_decide(const std::vector<ShellDecision>& decisions);
/// What printf makes of a format, the word at `first`, and the words behind it, over and over while there are some;
/// nothing for conversions other than %s, %d and %%.
std::optional<std::string> formatted_words(const std::vector<ShellText>& words, std::size_t first);
/// The words from one on, a space between them.
ShellText with_spaces(const std::vector<ShellText>& words, std::size_t from);

}  // namespace orrery::tools
