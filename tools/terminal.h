// Standard output where it is a terminal: what people read, not what programs do.
#pragma once

#include <memory>
#include <streambuf>

namespace orrery::tools {

/// While one lives, characters that a terminal would obey (sim/printable.h) do not reach it through std::cout; files
/// and pipes get every byte. Names of files and of records are a user's to choose, or a stranger's.
class TerminalGuard {
 public:
  /// Does nothing where standard output is no terminal.
  TerminalGuard();
  ~TerminalGuard();
  TerminalGuard(const TerminalGuard&) = delete;
  TerminalGuard& operator=(const TerminalGuard&) = delete;

 private:
  std::unique_ptr<std::streambuf> filter_;
  std::streambuf* plain_ = nullptr;
};

/// Passes whole lines on to `out`, without those characters.
std::unique_ptr<std::streambuf> printable_lines(std::streambuf& out);

}  // namespace orrery::tools
