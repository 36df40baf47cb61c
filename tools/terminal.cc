// A stream buffer that holds a line until it is whole, so that no character is cut in two.
#include "tools/terminal.h"

#include <unistd.h>

#include <iostream>
#include <string>

#include "sim/printable.h"

namespace orrery::tools {

namespace {

class PrintableLines : public std::streambuf {
 public:
  explicit PrintableLines(std::streambuf& out) : out_(out) {}
  ~PrintableLines() override { pass_on(); }

 protected:
  int_type overflow(int_type c) override {
    if (traits_type::eq_int_type(c, traits_type::eof())) return traits_type::not_eof(c);
    line_ += traits_type::to_char_type(c);
    if (line_.back() == '\n' && !pass_on()) return traits_type::eof();
    return c;
  }
  int sync() override { return pass_on() ? out_.pubsync() : -1; }

 private:
  bool pass_on() {
    const std::string shown = sim::printable(line_);
    line_.clear();
    const auto size = static_cast<std::streamsize>(shown.size());
    return out_.sputn(shown.data(), size) == size;
  }

  std::streambuf& out_;
  std::string line_;
};

}  // namespace

std::unique_ptr<std::streambuf> printable_lines(std::streambuf& out) { return std::make_unique<PrintableLines>(out); }

TerminalGuard::TerminalGuard() {
  if (::isatty(STDOUT_FILENO) != 1) return;
  filter_ = printable_lines(*std::cout.rdbuf());
  plain_ = std::cout.rdbuf(filter_.get());
}

TerminalGuard::~TerminalGuard() {
  if (plain_ == nullptr) return;
  std::cout.flush();
  std::cout.rdbuf(plain_);
}

}  // namespace orrery::tools
