// Reads a launch script as far as launch scripts go; see import.h. A variable's value is what the script assigned
// before; one that it never assigns stays as it was written ("${RANK}"), and whoever needs its value complains.
#include <fmt/format.h>

#include <cctype>
#include <charconv>
#include <map>

#include "tools/import/batch_lines.h"
#include "tools/import/import.h"

namespace orrery::tools {

using sim::Place;

namespace {

constexpr int kNested = 16;                  // texts within variables, parentheses within sums
constexpr std::size_t kLongestWord = 65536;  // characters; variables of variables grow fast

bool is_name_char(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// Whether a text holds options of its own, as `GPT_ARGS="--num-layers 24 ..."` does.
bool holds_options(const std::string& text) {
  return (text.starts_with("--") && text.find_first_of(" \t\n") != std::string::npos) ||
         text.find(" --") != std::string::npos || text.find("\n--") != std::string::npos;
}

using Variables = std::map<std::string, std::string>;

/// Sums of whole numbers, as the shell's $((...)) writes them. No value where it holds anything else.
class Sum {
 public:
  Sum(std::string_view text, const Variables& variables) : text_(text), variables_(variables) {}
  std::string value() {
    const long long result = sum(0);
    skip();
    return wrong_ || at_ != text_.size() ? "" : std::to_string(result);
  }

 private:
  void skip() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '$' || text_[at_] == '{' || text_[at_] == '}'))
      ++at_;
  }
  char peek() {
    skip();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  long long checked(long long a, long long b, char op) {
    long long result = 0;
    bool overflow = false;
    if (op == '+') overflow = __builtin_add_overflow(a, b, &result);
    if (op == '-') overflow = __builtin_sub_overflow(a, b, &result);
    if (op == '*') overflow = __builtin_mul_overflow(a, b, &result);
    if (op == '/' || op == '%') {
      overflow = b <= 0;
      if (!overflow) result = op == '/' ? a / b : a % b;
    }
    wrong_ = wrong_ || overflow;
    return overflow ? 0 : result;
  }
  long long sum(int depth) {
    long long left = product(depth);
    while (peek() == '+' || peek() == '-') {
      const char op = text_[at_++];
      left = checked(left, product(depth), op);
    }
    return left;
  }
  long long product(int depth) {
    long long left = atom(depth);
    while (peek() == '*' || peek() == '/' || peek() == '%') {
      const char op = text_[at_++];
      left = checked(left, atom(depth), op);
    }
    return left;
  }
  long long atom(int depth) {
    if (peek() == '(' && depth < kNested) {
      ++at_;
      const long long inner = sum(depth + 1);
      if (peek() == ')') {
        ++at_;
        return inner;
      }
      wrong_ = true;
      return 0;
    }
    std::string word;
    while (at_ < text_.size() && is_name_char(text_[at_])) word += text_[at_++];
    if (const auto known = variables_.find(word); known != variables_.end()) word = known->second;
    long long number = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    wrong_ = wrong_ || word.empty() || error != std::errc{} || end != word.data() + word.size();
    return number;
  }

  std::string_view text_;
  const Variables& variables_;
  std::size_t at_ = 0;
  bool wrong_ = false;
};

class Script {
 public:
  Script(const std::string& text, Place place, Variables& variables, LaunchLine& line, int depth)
      : text_(text), place_(std::move(place)), variables_(variables), line_(line), depth_(depth) {}

  void read() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '#' && word_.empty() && !in_word_) {
        while (at_ < text_.size() && text_[at_] != '\n') step();
      } else if (c == '\\' && at_ + 1 < text_.size()) {
        step();
        if (text_[at_] != '\n' && text_[at_] != '\r') take(text_[at_]);
        step();
      } else if (std::string_view(" \t\r\n;&|()<>").find(c) != std::string_view::npos) {
        finish();
        step();
      } else if (c == '\'' || c == '"') {
        quoted(c);
      } else if (c == '$') {
        expand();
      } else {
        take(c);
        step();
      }
    }
    finish();
  }

 private:
  void step() {
    if (text_[at_] == '\n') {
      ++place_.line;
      place_.column = 1;
    } else {
      ++place_.column;
    }
    ++at_;
  }
  void begin() {
    if (in_word_) return;
    in_word_ = true;
    start_ = place_;
  }
  void take(char c) {
    begin();
    word_ += c;
  }

  void quoted(char mark) {
    begin();
    step();
    while (at_ < text_.size() && text_[at_] != mark) {
      if (mark == '"' && text_[at_] == '$') {
        expand();
        continue;
      }
      if (mark == '"' && text_[at_] == '\\' && at_ + 1 < text_.size()) {
        step();
        if (text_[at_] == '\n') word_ += ' ';
      }
      if (text_[at_] != '\n' || word_.empty() || word_.back() != ' ') word_ += text_[at_];
      step();
    }
    if (at_ >= text_.size())
      throw sim::UserError(start_, "", fmt::format("opens a text with {} and does not close it", mark));
    step();
  }

  std::string until(std::string_view end) {
    std::string inside;
    while (at_ < text_.size() && !std::string_view(text_).substr(at_).starts_with(end)) {
      inside += text_[at_];
      step();
    }
    for (std::size_t i = 0; i < end.size() && at_ < text_.size(); ++i) step();
    return inside;
  }

  void expand() {
    begin();
    if (word_.size() > kLongestWord)
      throw sim::UserError(start_, "", fmt::format("expands to more than {} characters", kLongestWord));
    const std::string_view rest = std::string_view(text_).substr(at_);
    std::string name, raw;
    if (rest.starts_with("$((")) {
      for (int i = 0; i < 3; ++i) step();
      const std::string inside = until("))");
      const std::string value = Sum(inside, variables_).value();
      word_ += value.empty() ? "$((" + inside + "))" : value;
      return;
    }
    if (rest.starts_with("$(")) {
      raw = "$(" + until(")") + ")";
      word_ += raw.substr(2);
      return;
    }
    step();
    if (at_ < text_.size() && text_[at_] == '{') {
      step();
      name = until("}");
      raw = "${" + name + "}";
    } else {
      while (at_ < text_.size() && (is_name_char(text_[at_]) || (name.empty() && text_[at_] == '@'))) {
        name += text_[at_];
        step();
      }
      raw = "$" + name;
    }
    std::string fallback = raw;
    if (const std::size_t colon = name.find(":-"); colon != std::string::npos) {
      fallback = name.substr(colon + 2);
      name.resize(colon);
    }
    const bool whole_array = name.ends_with("[@]") || name.ends_with("[*]") || name == "@";
    const auto known = variables_.find(name);
    if (whole_array) return;  // its options were read where they stand
    if (known == variables_.end()) word_ += fallback;
    if (known != variables_.end() && !holds_options(known->second)) word_ += known->second;
  }

  /// The word is complete: an assignment, an option, a value of the last option, or none of our business.
  void finish() {
    if (!in_word_) return;
    in_word_ = false;
    std::string word;
    word.swap(word_);
    const std::size_t equals = word.find('=');
    std::size_t name_end = 0;
    while (name_end < word.size() && is_name_char(word[name_end])) ++name_end;
    if (name_end > 0 && equals == name_end) {
      const std::string name = word.substr(0, equals), value = word.substr(equals + 1);
      open_ = false;
      variables_[name] = value;
      if (holds_options(value)) return nested(value);
      line_.variables.emplace_back(name, value);
      return;
    }
    if (holds_options(word) && equals == std::string::npos) return nested(word);
    const bool option =
        word.size() > 2 && word.starts_with("--") && std::isalpha(static_cast<unsigned char>(word[2])) != 0;
    if (option) {
      LaunchOption next{word.substr(2, equals == std::string::npos ? equals : equals - 2), {}, start_};
      if (equals != std::string::npos) next.values.push_back(word.substr(equals + 1));
      line_.options.push_back(std::move(next));
      open_ = true;
    } else if (open_ && !word.empty()) {
      line_.options.back().values.push_back(word);
    }
  }

  void nested(const std::string& value) {
    if (depth_ >= kNested) throw sim::UserError(start_, "", fmt::format("nests texts deeper than {}", kNested));
    Script(value, start_, variables_, line_, depth_ + 1).read();
    open_ = false;
  }

  const std::string text_;
  Place place_, start_;
  Variables& variables_;
  LaunchLine& line_;
  int depth_;
  std::size_t at_ = 0;
  std::string word_;
  bool in_word_ = false;
  bool open_ = false;  // words that follow are values of the last option
};

}  // namespace

LaunchLine read_launch_line(const std::string& text, const std::string& file) {
  LaunchLine line;
  line.place = {file, 1, 1};
  Variables variables;
  const auto asked = batch_variables(text);
  for (const auto& [name, value] : asked) variables[name] = value;
  Script(text, line.place, variables, line, 0).read();
  line.variables.insert(line.variables.end(), asked.begin(), asked.end());  // what the script says itself stands first
  return line;
}

}  // namespace orrery::tools
