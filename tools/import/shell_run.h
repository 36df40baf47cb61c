// What a shell script would run, without running it: its commands with their words expanded, along every way that the
// script can take where a condition is not known. Commands themselves are never run; of those whose output follows
// from their words (echo, dirname, basename, pwd, seq, cat of a here-document) it is known, of all others it stays as
// it was written. A variable that nobody assigned is unset, and that is remembered.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/error.h"

namespace orrery::tools {

/// What the user says of where a script runs.
struct ShellGiven {
  std::map<std::string, std::string> environment;  // known whatever the script assigns
  std::vector<std::string> arguments;              // $1 and on
  bool arguments_known = false;                    // else they are unset
  /// The text of a file that a script reads in (source, bash FILE), by its path; empty: none is read.
  std::function<std::optional<std::string>(const std::string&)> read;
  /// Whether a command is the one that is looked for, behind which nothing is followed; empty: all is.
  std::function<bool(const struct ShellRun&)> ends;
};

struct ShellField {
  std::string text;
  sim::Place place;
  bool known = true;
};
/// A command that is no shell's own.
struct ShellRun {
  std::vector<ShellField> words;
  sim::Place place;
};
/// A condition that the script alone does not decide, and what was taken.
struct ShellDecision {
  sim::Place place;
  std::string condition;               // as the script writes it
  std::vector<std::string> variables;  // that it asks ("FP8", "1"), or commands ("$(hostname)")
  bool holds = false;
  std::optional<bool> usual;  // where it asks no more than whether a variable is set: of one that is not
};
struct ShellWay {
  std::vector<ShellRun> runs;
  std::map<std::string, std::string> variables;  // known ones, as they are at the end
  std::vector<ShellRun> held;                    // options that variables hold, a variable each
  std::vector<ShellDecision> decisions;
  std::vector<std::string> documents;  // that it writes: here-documents that are no launch
};
struct ShellRuns {
  std::vector<ShellWay> ways;        // at least one
  std::vector<std::string> unset;    // variables that the script reads and nobody assigned
  std::vector<std::string> remarks;  // what was not followed
};

/// `start`: variables that the script finds, and may assign anew. Throws sim::UserError where the text is no shell
/// script, or has more than 64 ways.
ShellRuns run_shell(const std::string& text, const std::string& file,
                    const std::vector<std::pair<std::string, std::string>>& start, const ShellGiven& given);

}  // namespace orrery::tools
