// A cursor over the words of a Python file. See python_tokens.h.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "sim/error.h"
#include "tools/import/python_tokens.h"

namespace orrery::tools {

class PythonWords {
 protected:
  using Kind = PythonToken::Kind;
  static constexpr int kMostSteps = 400'000;  // words read, those of a function as often as it is called

  explicit PythonWords(const std::vector<PythonToken>& tokens) : tokens_(tokens.begin(), tokens.end()) {}

  const PythonToken& now() const { return tokens_[std::min(at_, tokens_.size() - 1)]; }
  bool is(const char* word) const { return now().is(word); }
  void step() {
    if (++steps_ > kMostSteps)
      throw sim::UserError(now().place, "python", "takes more than 400,000 steps to follow, expected a recipe");
    ++at_;
  }
  bool take(const char* word) {
    if (!is(word)) return false;
    step();
    return true;
  }
  [[noreturn]] void broken(const std::string& expected) const {
    const std::string got = now().kind == Kind::end || now().kind == Kind::newline ? "the line's end" : now().text;
    throw sim::UserError(now().place, "python", fmt::format("got {}, expected {}", got.substr(0, 60), expected));
  }
  void need(const char* word) {
    if (!take(word)) broken(word);
  }
  /// Behind the bracket that closes the one at hand.
  void skip_brackets() {
    int open = 0;
    do {
      if (is("(") || is("[") || is("{")) ++open;
      if (is(")") || is("]") || is("}")) --open;
      step();
    } while (open > 0 && now().kind != Kind::end);
  }
  /// To the end of the line, or to the word that ends an expression within brackets.
  void skip_to(std::initializer_list<const char*> words) {
    while (now().kind != Kind::end && now().kind != Kind::newline && !is(")") && !is("]") && !is("}")) {
      for (const char* word : words) {
        if (is(word)) return;
      }
      if (is("(") || is("[") || is("{"))
        skip_brackets();
      else
        step();
    }
  }
  void skip_line() {
    skip_to({});
    while (now().kind != Kind::end && now().kind != Kind::newline) step();
    if (now().kind == Kind::newline) step();
  }
  /// The body behind a colon, of one line or indented: its first word and the one behind its last.
  std::pair<std::size_t, std::size_t> body() {
    need(":");
    if (now().kind != Kind::newline) {
      const std::size_t begin = at_;
      skip_line();
      return {begin, at_};
    }
    step();
    if (now().kind != Kind::indent) broken("an indented block");
    step();
    const std::size_t begin = at_;
    int depth = 1;
    while (now().kind != Kind::end) {
      if (now().kind == Kind::indent) ++depth;
      if (now().kind == Kind::dedent && --depth == 0) break;
      step();
    }
    const std::size_t end = at_;
    if (now().kind == Kind::dedent) step();
    return {begin, end};
  }

  std::deque<PythonToken> tokens_;  // those of the file, and behind them those of the modules that it needs
  std::size_t at_ = 0;
  int steps_ = 0;
};

}  // namespace orrery::tools
