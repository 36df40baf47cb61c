// The commands and options of the program as a table, read off the command line's own declarations: completion, man
// pages and the test that compares help with the program all print this, so that none of them can say something else.
#pragma once

#include <string>
#include <vector>

namespace orrery::tools {

struct OptionDoc {
  std::vector<std::string> names;    // "--json", "-h"; empty for a positional
  std::string positional;            // "scenario"; empty for an option
  std::string value;                 // what it takes, as in "FILE"; empty for a flag
  std::vector<std::string> choices;  // where only these are taken
  std::string meaning;
  bool required = false;
  bool repeats = false;  // may be given, or take values, more than once
};

struct CommandDoc {
  std::vector<std::string> path;  // {"import", "hf"}; empty for the program itself
  std::string summary;
  std::vector<OptionDoc> options;  // in the order of their declaration
  std::vector<std::string> subcommands;
  std::string name() const;  // "orrery import hf"
};

/// The program, then every command and what is below it, in the order of the catalogue.
std::vector<CommandDoc> command_docs();

}  // namespace orrery::tools
