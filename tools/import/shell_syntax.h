// A shell script as a tree, by the grammar of POSIX and of what bash adds to it (The Open Group, Base Specifications
// issue 8, "Shell Grammar Rules"; the reference manual of bash 5.2, chapters 3.2 to 3.6): lists, pipelines, if, case,
// for, while, functions, [[ ]], (( )), arrays, every kind of quotes and expansions, here-documents. A parser of its
// own, since no archive of Debian 12 or 13 has one that C++ can call (tree-sitter comes without bash's grammar, and
// bash and dash keep their trees to themselves). Left out: aliases, coprocesses, history, patterns of extglob.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sim/settings.h"

namespace orrery::tools {

struct ShellStep;
using ShellList = std::vector<ShellStep>;

struct ShellPiece;
/// One word: what follows in it, quoted or not.
struct ShellWord {
  std::vector<ShellPiece> pieces;
  sim::Place place;
};

/// A part of a word that is expanded in one way.
struct ShellPiece {
  enum class Kind { text, variable, arithmetic, command, opaque };
  Kind kind = Kind::text;
  bool quoted = false;
  std::string text;                  // literal text, or the variable's name ("1", "@", "#", "NAME")
  std::string source;                // as the script writes it
  sim::Place place;                  // of its first character
  std::string operation;             // of a variable: "", ":-", ":=", "#", "##", "/", ":", "length", "indirect", ...
  std::string behind;                // the operation on what an indirect name leads to: ${!NAME:-none}
  std::vector<ShellWord> index;      // of an array, one or none
  std::vector<ShellWord> arguments;  // of the operation; of arithmetic its expression
  std::shared_ptr<ShellList> commands;
};

struct ShellAssignment {
  std::string name;
  std::vector<ShellWord> index;  // one or none
  bool adds = false;             // +=
  bool array = false;
  ShellWord value;
  std::vector<ShellWord> elements;
};

struct ShellClause {
  ShellList condition;             // of if, elif, while, until
  std::vector<ShellWord> pattern;  // of case
  ShellList body;
};

struct ShellCommand {
  enum class Kind { simple, test, arithmetic, group, subshell, branch, choice, for_each, for_sum, repeat, function };
  Kind kind = Kind::simple;
  sim::Place place;
  std::string source;  // as the script writes it, its first line
  std::vector<ShellAssignment> assignments;
  std::vector<ShellWord> words;  // of a simple command, of [[ ]] (operators are words of their own), of a loop's list
  std::vector<std::shared_ptr<ShellWord>> here;  // here-documents and here-strings
  std::string name;                              // of a function, of a loop's variable
  bool over_arguments = false;                   // for NAME; do: over "$@"
  bool until = false;
  std::vector<ShellClause> clauses;  // an else has no condition
  std::shared_ptr<ShellList> body;
};

struct ShellPipeline {
  bool negated = false;
  std::vector<ShellCommand> commands;
};

struct ShellStep {
  enum class Joint { always, after_success, after_failure };
  Joint joint = Joint::always;
  ShellPipeline pipeline;
};

/// Throws sim::UserError where the text is no shell script, or nests deeper than any of people's.
ShellList parse_shell(const std::string& text, const sim::Place& place);

}  // namespace orrery::tools
