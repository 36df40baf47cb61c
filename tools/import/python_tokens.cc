// Words of a Python file. See python_tokens.h. Left out: escapes by name (\N{...}), which stay as they are written.
#include "tools/import/python_tokens.h"

#include <fmt/format.h>

#include <cctype>
#include <string_view>

namespace orrery::tools {

namespace {

using Kind = PythonToken::Kind;

constexpr std::size_t kDeepestBracket = 100;

bool starts_name(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return std::isalpha(byte) != 0 || c == '_' || byte >= 0x80;
}
bool continues_name(char c) { return starts_name(c) || std::isdigit(static_cast<unsigned char>(c)) != 0; }

class PythonLexer {
 public:
  PythonLexer(const std::string& text, const std::string& file) : text_(text), file_(file) {}

  std::vector<PythonToken> tokens() {
    while (at_ < text_.size()) {
      if (line_begins_ && open_.empty()) begin_line();
      if (at_ < text_.size()) word();
    }
    if (!open_.empty()) fail(open_.back().place, "is not closed, expected its other half");
    if (!out_.empty() && out_.back().kind != Kind::newline) add(Kind::newline, "");
    for (std::size_t i = 1; i < indents_.size(); ++i) add(Kind::dedent, "");
    add(Kind::end, "");
    return std::move(out_);
  }

 private:
  sim::Place here() const { return {file_, line_, static_cast<int>(at_ - line_at_) + 1}; }
  [[noreturn]] static void fail(const sim::Place& place, const std::string& message) {
    throw sim::UserError(place, "python", message);
  }
  void add(Kind kind, std::string text) { out_.push_back({kind, std::move(text), here()}); }
  char peek(std::size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  void next_line() {
    ++at_;
    ++line_;
    line_at_ = at_;
  }

  /// Counts the blanks ahead of a statement; lines that hold none change nothing.
  void begin_line() {
    std::size_t width = 0, seek = at_;
    for (; seek < text_.size() && (text_[seek] == ' ' || text_[seek] == '\t' || text_[seek] == '\f'); ++seek)
      width = text_[seek] == '\t' ? (width / 8 + 1) * 8 : width + 1;
    at_ = seek;
    const char c = peek();
    if (c == '\n' || c == '#' || c == '\r' || c == '\0') return;
    line_begins_ = false;
    if (width > indents_.back()) {
      if (indents_.size() > kDeepestBracket) fail(here(), "got blocks in more than 100 blocks, expected fewer");
      indents_.push_back(width);
      add(Kind::indent, "");
    }
    while (width < indents_.back()) {
      indents_.pop_back();
      add(Kind::dedent, "");
    }
    if (width != indents_.back()) fail(here(), "is indented like no line above, expected Python");
  }

  void word() {
    const char c = peek();
    if (c == '\n') {
      if (open_.empty() && !line_begins_) {
        add(Kind::newline, "");
        line_begins_ = true;
      }
      next_line();
    } else if (c == ' ' || c == '\t' || c == '\r' || c == '\f') {
      ++at_;
    } else if (c == '\\' && (peek(1) == '\n' || (peek(1) == '\r' && peek(2) == '\n'))) {
      at_ += peek(1) == '\r' ? 2 : 1;
      next_line();
    } else if (c == '#') {
      while (at_ < text_.size() && text_[at_] != '\n') ++at_;
    } else if (c == '"' || c == '\'') {
      string("");
    } else if (starts_name(c)) {
      name();
    } else if (std::isdigit(static_cast<unsigned char>(c)) != 0 ||
               (c == '.' && std::isdigit(static_cast<unsigned char>(peek(1))) != 0)) {
      number();
    } else {
      operation();
    }
  }

  void name() {
    const std::size_t begin = at_;
    std::size_t end = at_;
    while (end < text_.size() && continues_name(text_[end])) ++end;
    std::string word = text_.substr(begin, end - begin);
    const bool quote = end < text_.size() && (text_[end] == '"' || text_[end] == '\'');
    if (quote && word.size() <= 2 && word.find_first_not_of("rRbBfFuU") == std::string::npos) {
      at_ = end;
      string(word);
      return;
    }
    add(Kind::name, std::move(word));
    at_ = end;
  }

  void number() {
    std::size_t end = at_;
    while (end < text_.size()) {
      const char c = text_[end];
      const bool sign = (c == '+' || c == '-') && (text_[end - 1] == 'e' || text_[end - 1] == 'E') &&
                        text_[at_ + 1] != 'x' && text_[at_ + 1] != 'X';
      if (!continues_name(c) && c != '.' && !sign) break;
      ++end;
    }
    std::string digits;
    for (std::size_t i = at_; i < end; ++i) {
      if (text_[i] != '_') digits += text_[i];
    }
    add(Kind::number, std::move(digits));
    at_ = end;
  }

  void string(const std::string& prefix) {
    const sim::Place begin = here();
    const char quote = peek();
    const bool triple = peek(1) == quote && peek(2) == quote;
    const bool raw = prefix.find_first_of("rR") != std::string::npos;
    const bool opaque = prefix.find_first_of("fFbB") != std::string::npos;
    at_ += triple ? 3 : 1;
    std::string held;
    for (;;) {
      const char c = peek();
      if (at_ >= text_.size() || (c == '\n' && !triple)) fail(begin, "is a string that does not end, expected a quote");
      if (c == quote && (!triple || (peek(1) == quote && peek(2) == quote))) break;
      if (c == '\\' && !raw && peek(1) == '\n') {  // the string goes on in the next line
        ++at_;
        next_line();
        continue;
      }
      if (c == '\\' && at_ + 1 < text_.size() && !raw && peek(1) != '\n') {
        held += escaped(peek(1));
        at_ += 2;
      } else if (c == '\\' && raw && at_ + 1 < text_.size() && peek(1) != '\n') {
        held += text_.substr(at_, 2);
        at_ += 2;
      } else {
        held += c;
        if (c == '\n')
          next_line();
        else
          ++at_;
      }
    }
    at_ += triple ? 3 : 1;
    out_.push_back({opaque ? Kind::opaque : Kind::string, std::move(held), begin});
  }
  static std::string escaped(char c) {
    switch (c) {
      case 'n':
        return "\n";
      case 't':
        return "\t";
      case '\\':
      case '\'':
      case '"':
        return std::string(1, c);
      default:
        return std::string("\\") + c;
    }
  }

  void operation() {
    static constexpr const char* kLong[] = {
        "**=", "//=", ">>=", "<<=", "...", "!=", "==", "<=", ">=", "->", "+=", "-=",
        "*=",  "/=",  "%=",  "&=",  "|=",  "^=", "@=", "**", "//", ":=", "<<", ">>"};
    std::string word(1, peek());
    for (const char* candidate : kLong) {
      if (text_.compare(at_, std::string_view(candidate).size(), candidate) == 0) {
        word = candidate;
        break;
      }
    }
    if (word.size() == 1 && std::string_view("()[]{},:.;=+-*/%&|^~<>@").find(word[0]) == std::string_view::npos)
      fail(here(),
           fmt::format("holds the byte {}, expected Python", static_cast<int>(static_cast<unsigned char>(peek()))));
    add(Kind::operation, word);
    const char c = word[0];
    if (word.size() == 1 && (c == '(' || c == '[' || c == '{')) {
      if (open_.size() >= kDeepestBracket) fail(here(), "got brackets in more than 100 brackets, expected fewer");
      open_.push_back({c, here()});
    }
    if (word.size() == 1 && (c == ')' || c == ']' || c == '}')) {
      const char opens = c == ')' ? '(' : c == ']' ? '[' : '{';
      if (open_.empty() || open_.back().bracket != opens) fail(here(), fmt::format("got {} that closes nothing", c));
      open_.pop_back();
    }
    at_ += word.size();
  }

  struct Open {
    char bracket;
    sim::Place place;
  };
  const std::string& text_;
  const sim::FileName file_;
  std::size_t at_ = 0, line_at_ = 0;
  int line_ = 1;
  bool line_begins_ = true;
  std::vector<std::size_t> indents_{0};
  std::vector<Open> open_;
  std::vector<PythonToken> out_;
};

}  // namespace

std::vector<PythonToken> python_tokens(const std::string& text, const std::string& file) {
  return PythonLexer(text, file).tokens();
}

}  // namespace orrery::tools
