// The expansions of a shell's words. See shell_run.h.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tools/import/shell_run.h"
#include "tools/import/shell_syntax.h"
#include "tools/import/shell_values.h"

namespace orrery::tools {

/// Where a script has come to on one way.
struct ShellState {
  enum class Status { success, failure, unknown };
  enum class Flow { on, breaks, continues, returns, ends };
  std::map<std::string, std::shared_ptr<const ShellValue>> variables;
  std::map<std::string, std::shared_ptr<ShellList>> functions;
  std::vector<ShellText> arguments;
  bool arguments_known = false;
  std::string script, folder;  // $0, and what cd says
  std::vector<ShellRun> runs;
  std::vector<ShellDecision> decisions;
  std::vector<std::string> documents;  // here-documents that are no launch
  Status status = Status::success;
  bool tested = false;     // by [ ], [[ ]] or (( )): else an unknown status is that of a command, which mostly works
  ShellDecision question;  // what an unknown status asks
  Flow flow = Flow::on;
  ShellText output;
  bool output_known = true;
};

class ShellExpansion {
 protected:
  explicit ShellExpansion(const ShellGiven& given) : given_(given) {}
  ~ShellExpansion() = default;

  /// What commands print, or their text as the script writes it.
  virtual ShellText output_of(const ShellPiece& piece, ShellState& state) = 0;

  /// A word without splitting, as an assignment takes it.
  ShellText joined(const ShellWord& word, ShellState& state);
  /// The words that it becomes as an argument.
  std::vector<ShellText> fields(const ShellWord& word, ShellState& state);
  std::vector<ShellText> fields(const std::vector<ShellWord>& words, ShellState& state);
  std::optional<std::int64_t> sum_of(const std::string& expression, ShellState& state);

  void assign(const ShellAssignment& assignment, ShellState& state);
  void assign(const std::string& name, ShellText text, ShellState& state);
  /// A variable as it is, or null.
  const ShellValue* variable(const std::string& name, const ShellState& state) const;

  ShellChar place_of(const sim::Place& place);
  sim::Place place(const ShellChar& c) const;
  /// Counts what was made, so that variables of variables end.
  void spend(std::size_t characters, const sim::Place& place);

  const ShellGiven& given_;
  std::set<std::string> unset_;     // read, and assigned by nobody
  std::vector<std::string> files_;  // by ShellChar's number

 private:
  struct Parts {
    std::vector<ShellText> texts;
    bool several = false;  // fields of their own, as of "$@"
  };
  Parts parts(const ShellPiece& piece, ShellState& state);
  /// What stands between the words that a piece expands to where it makes one of them: of $* the first sign of IFS.
  ShellText between(const ShellPiece& piece, const ShellState& state);
  Parts named(const ShellPiece& piece, ShellState& state);
  ShellText operated(const ShellPiece& piece, ShellText text, ShellState& state);
  ShellText special(const ShellPiece& piece, const std::string& name, const ShellState& state);
  ShellText raw(const ShellPiece& piece, ShellChar::Known known);

  std::size_t spent_ = 0;
  int depth_ = 0;
};

}  // namespace orrery::tools
