// Recursive descent over the operands; see shell_test.h. Left out: what asks files (open), and regular expressions
// beyond plain text with anchors (open).
#include "tools/import/shell_test.h"

#include <algorithm>
#include <cctype>

namespace orrery::tools {

namespace {

constexpr int kDeepestTest = 64;

class Test {
 public:
  using Answer = ShellAnswer;
  Test(const std::vector<ShellOperand>& operands, bool patterns,
       const std::function<std::optional<std::int64_t>(const std::string&)>& sum,
       const std::function<std::optional<bool>(const std::string&)>& is_set)
      : operands_(operands), patterns_(patterns), sum_(sum), is_set_(is_set) {}

  Answer whole() {
    if (operands_.empty()) return {false, false};
    const Answer answer = either(0);
    return at_ == operands_.size() ? answer : Answer{false, false};  // the shell's own complaint is a failure
  }

 private:
  bool is(const char* word, std::size_t ahead = 0) const {
    return at_ + ahead < operands_.size() && operands_[at_ + ahead].plain_word &&
           plain(operands_[at_ + ahead].text) == word;
  }
  bool take(const char* word) {
    if (!is(word)) return false;
    ++at_;
    return true;
  }
  static std::optional<bool> value_of(const Answer& answer) { return answer.holds ? answer.holds : answer.usual; }

  Answer either(int depth) {
    Answer left = both(depth);
    while (take("||") || take("-o")) {
      const Answer right = both(depth);
      left = joined(left, right, true);
    }
    return left;
  }
  Answer both(int depth) {
    Answer left = one(depth);
    while (take("&&") || take("-a")) {
      const Answer right = one(depth);
      left = joined(left, right, false);
    }
    return left;
  }
  static Answer joined(const Answer& a, const Answer& b, bool decides) {
    const auto fold = [&](std::optional<bool> x, std::optional<bool> y) -> std::optional<bool> {
      if ((x && *x == decides) || (y && *y == decides)) return decides;
      return x && y ? std::optional<bool>(!decides) : std::nullopt;
    };
    return {fold(a.holds, b.holds), fold(value_of(a), value_of(b))};
  }
  static Answer negated(Answer answer) {
    if (answer.holds) answer.holds = !*answer.holds;
    if (answer.usual) answer.usual = !*answer.usual;
    return answer;
  }

  bool binary(std::size_t at) const {
    if (at + 1 >= operands_.size() || !operands_[at].plain_word) return false;
    static const std::vector<std::string> kBinary{"=",   "==",  "!=",  "=~",  "<",   ">",   "-eq",
                                                  "-ne", "-lt", "-le", "-gt", "-ge", "-nt", "-ot"};
    return std::find(kBinary.begin(), kBinary.end(), plain(operands_[at].text)) != kBinary.end();
  }
  Answer one(int depth) {
    if (at_ >= operands_.size() || depth > kDeepestTest) return {false, false};
    if (binary(at_ + 1)) return compared();
    if (take("!")) return negated(one(depth + 1));
    if (take("(")) {
      const Answer inner = either(depth + 1);
      take(")");
      return inner;
    }
    const std::string word = plain(operands_[at_].text);
    const bool unary = operands_[at_].plain_word && word.size() == 2 && word[0] == '-' &&
                       std::isalpha(static_cast<unsigned char>(word[1])) != 0 && at_ + 1 < operands_.size();
    if (!unary) return negated(is_empty(operands_[at_++].text));
    at_ += 2;
    const ShellText& operand = operands_[at_ - 1].text;
    if (word == "-z") return is_empty(operand);
    if (word == "-n") return negated(is_empty(operand));
    if (word == "-v") {
      const std::optional<bool> set = is_set_(plain(operand));
      return {set, set.value_or(false)};
    }
    return {std::nullopt, std::nullopt};
  }
  static Answer is_empty(const ShellText& text) {
    const bool some =
        std::any_of(text.begin(), text.end(), [](const ShellChar& c) { return c.known == ShellChar::Known::known; });
    if (text.empty() || some) return {text.empty(), text.empty()};
    return is_unset(text) ? Answer{std::nullopt, true} : Answer{};
  }

  Answer compared() {
    const ShellText &left = operands_[at_].text, &right = operands_[at_ + 2].text;
    const std::string op = plain(operands_[at_ + 1].text);
    at_ += 3;
    if (op == "-nt" || op == "-ot") return {};
    if (op[0] == '-') return numbers(left, right, op);
    if (op == "=~") return regular(left, right);
    if (op == "<" || op == ">") {
      if (!is_known(left) || !is_known(right)) return {};
      return {op == "<" ? plain(left) < plain(right) : plain(left) > plain(right), std::nullopt};
    }
    const auto same = [&](const ShellText& a, const ShellText& b) {
      return patterns_ ? shell_matches(a, b) : plain(a) == plain(b);
    };
    Answer answer;
    if (is_known(left) && is_known(right)) {
      answer.holds = same(left, right);
    } else {
      // No more is asked than whether it is set where the bare environment's answer is "equal": "x$X" = x.
      const ShellText a = without_unset(left), b = without_unset(right);
      if (is_known(a) && is_known(b) && plain(a) == plain(b)) answer.usual = true;
    }
    return op == "!=" ? negated(answer) : answer;
  }
  Answer numbers(const ShellText& left, const ShellText& right, const std::string& op) {
    const auto number = [&](const ShellText& text) { return is_known(text) ? sum_(plain(text)) : std::nullopt; };
    const auto holds = [&](std::int64_t a, std::int64_t b) {
      return op == "-eq"   ? a == b
             : op == "-ne" ? a != b
             : op == "-lt" ? a < b
             : op == "-le" ? a <= b
             : op == "-gt" ? a > b
                           : a >= b;
    };
    const bool count = plain(left) == "$#" || plain(left) == "${#}";  // of arguments, none in a bare run
    const std::optional<std::int64_t> a = number(left), b = number(right);
    if (a && b) return {holds(*a, *b), std::nullopt};
    if (is_known(left) && is_known(right)) return {false, false};  // "integer expression expected"
    if (count && b) return {std::nullopt, holds(0, *b)};
    // [[ $X -eq 0 ]]: an empty word is 0 there; [ ] complains of it, which is no answer that a script counts on.
    if (patterns_ && b && is_unset(left) && holds(0, *b)) return {std::nullopt, true};
    return {};
  }
  static Answer regular(const ShellText& text, const ShellText& pattern) {
    if (!is_known(text) || !is_known(pattern)) return {};
    std::string wanted, all = plain(text);
    bool front = false, behind = false;
    for (std::size_t i = 0; i < pattern.size(); ++i) {
      const ShellChar& c = pattern[i];
      if (!c.quoted && c.c == '^' && i == 0) {
        front = true;
      } else if (!c.quoted && c.c == '$' && i + 1 == pattern.size()) {
        behind = true;
      } else if (!c.quoted && std::string_view(".[]()*+?{}|\\^$").find(c.c) != std::string_view::npos) {
        return {};
      } else {
        wanted += c.c;
      }
    }
    if (front && behind) return {all == wanted, std::nullopt};
    if (front) return {all.starts_with(wanted), std::nullopt};
    if (behind) return {all.ends_with(wanted), std::nullopt};
    return {all.find(wanted) != std::string::npos, std::nullopt};
  }

  const std::vector<ShellOperand>& operands_;
  const bool patterns_;
  const std::function<std::optional<std::int64_t>(const std::string&)>& sum_;
  const std::function<std::optional<bool>(const std::string&)>& is_set_;
  std::size_t at_ = 0;
};

}  // namespace

ShellAnswer shell_test(const std::vector<ShellOperand>& operands, bool patterns,
                       const std::function<std::optional<std::int64_t>(const std::string&)>& sum,
                       const std::function<std::optional<bool>(const std::string&)>& is_set) {
  return Test(operands, patterns, sum, is_set).whole();
}

}  // namespace orrery::tools
