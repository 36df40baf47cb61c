// Texts, patterns and sums of a shell. See shell_values.h.
#include "tools/import/shell_values.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <limits>

namespace orrery::tools {

namespace {

constexpr int kNestedSum = 32;               // parentheses within sums
constexpr std::size_t kMostTries = 200'000;  // of a pattern's stars

using Known = ShellChar::Known;

/// Backtracking to the last star alone is enough: an earlier one could take no more than the last.
bool matches(const ShellText& text, const ShellText& pattern) {
  std::size_t t = 0, p = 0, star = std::string::npos, behind = 0, tries = 0;
  const auto one = [&](std::size_t& at, char c) {  // whether the pattern's next part takes a character
    const ShellChar& next = pattern[at];
    if (!next.quoted && next.c == '?') {
      ++at;
      return true;
    }
    if (!next.quoted && next.c == '[') {
      std::size_t i = at + 1;
      const bool negated = i < pattern.size() && (pattern[i].c == '!' || pattern[i].c == '^');
      if (negated) ++i;
      bool found = false;
      const std::size_t first = i;
      for (; i < pattern.size() && (pattern[i].c != ']' || i == first); ++i) {
        const bool range = i + 2 < pattern.size() && pattern[i + 1].c == '-' && pattern[i + 2].c != ']';
        found = found || (range ? c >= pattern[i].c && c <= pattern[i + 2].c : c == pattern[i].c);
        if (range) i += 2;
      }
      if (i < pattern.size()) {
        at = i + 1;
        return found != negated;
      }
    }
    return next.c == c ? (++at, true) : false;
  };
  while (t < text.size()) {
    if (++tries > kMostTries) return false;
    std::size_t next = p;
    if (p < pattern.size() && pattern[p].c == '*' && !pattern[p].quoted) {
      star = p++;
      behind = t;
    } else if (p < pattern.size() && one(next, text[t].c)) {
      p = next;
      ++t;
    } else if (star != std::string::npos) {
      p = star + 1;
      t = ++behind;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p].c == '*' && !pattern[p].quoted) ++p;
  return p == pattern.size();
}

class Sum {
 public:
  using Number = std::optional<std::int64_t>;
  Sum(const std::string& text, const std::function<Number(const std::string&)>& value,
      const std::function<void(const std::string&, Number)>& assign)
      : text_(text), value_(value), assign_(assign) {}

  Number whole() {
    Number last = level(0, 0);
    while (peek() == ',') {
      ++at_;
      last = level(0, 0);
    }
    return peek() == '\0' && !wrong_ ? last : std::nullopt;
  }

 private:
  char peek() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(std::string_view word) {
    peek();
    if (!std::string_view(text_).substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }

  static Number apply(std::string_view op, Number left, Number right) {
    if (!left || !right) return std::nullopt;
    const std::int64_t a = *left, b = *right;
    std::int64_t result = 0;
    if (op == "+") return __builtin_add_overflow(a, b, &result) ? std::nullopt : Number(result);
    if (op == "-") return __builtin_sub_overflow(a, b, &result) ? std::nullopt : Number(result);
    if (op == "*") return __builtin_mul_overflow(a, b, &result) ? std::nullopt : Number(result);
    const bool divides = b != 0 && !(b == -1 && a == std::numeric_limits<std::int64_t>::min());
    if (op == "/") return divides ? Number(a / b) : std::nullopt;
    if (op == "%") return divides ? Number(a % b) : std::nullopt;
    if (op == "**") {
      if (b < 0 || b > 63) return std::nullopt;
      result = 1;
      for (std::int64_t i = 0; i < b; ++i) {
        if (__builtin_mul_overflow(result, a, &result)) return std::nullopt;
      }
      return result;
    }
    if (op == "<<" || op == ">>") {
      if (b < 0 || b > 62 || a < 0) return std::nullopt;
      return op == ">>" ? a >> b : a <= (std::numeric_limits<std::int64_t>::max() >> b) ? Number(a << b) : std::nullopt;
    }
    if (op == "==") return a == b ? 1 : 0;
    if (op == "!=") return a != b ? 1 : 0;
    if (op == "<=") return a <= b ? 1 : 0;
    if (op == ">=") return a >= b ? 1 : 0;
    if (op == "<") return a < b ? 1 : 0;
    if (op == ">") return a > b ? 1 : 0;
    if (op == "&&") return a != 0 && b != 0 ? 1 : 0;
    if (op == "||") return a != 0 || b != 0 ? 1 : 0;
    if (op == "&") return a & b;
    if (op == "|") return a | b;
    if (op == "^") return a ^ b;
    return std::nullopt;
  }

  /// Operators by how loosely they bind; a question mark binds loosest.
  Number level(std::size_t at, int depth) {
    static const std::vector<std::vector<std::string_view>> kLevels{
        {"||"},       {"&&"},     {"|"},           {"^"}, {"&"}, {"==", "!="}, {"<=", ">=", "<", ">"},
        {"<<", ">>"}, {"+", "-"}, {"*", "/", "%"}, {"**"}};
    if (depth > kNestedSum) {
      wrong_ = true;
      return std::nullopt;
    }
    if (at == kLevels.size()) return atom(depth);
    Number left = level(at + 1, depth);
    for (;;) {
      std::string_view found;
      for (const std::string_view op : kLevels[at]) {
        peek();
        const std::string_view rest = std::string_view(text_).substr(at_);
        const bool longer = (op.size() == 1 && rest.size() > 1 && rest[0] == op[0] && rest[1] == op[0]) ||
                            (op.size() == 1 && rest.size() > 1 && rest[1] == '=' && op != "<" && op != ">");
        if (found.empty() && !longer && rest.starts_with(op)) found = op;
      }
      if (found.empty()) break;
      at_ += found.size();
      left = apply(found, left, level(at + 1, depth));
    }
    if (at == 0 && peek() == '?') {
      ++at_;
      const Number yes = level(0, depth + 1);
      if (!take(":")) wrong_ = true;
      const Number no = level(0, depth + 1);
      return left ? (*left != 0 ? yes : no) : std::nullopt;
    }
    return left;
  }

  Number atom(int depth) {
    const char c = peek();
    if (depth > kNestedSum) wrong_ = true;
    if (wrong_ || c == '\0') {
      wrong_ = true;
      return std::nullopt;
    }
    if (c == '(') {
      ++at_;
      const Number inner = level(0, depth + 1);
      if (!take(")")) wrong_ = true;
      return inner;
    }
    if (c == '!') {
      ++at_;
      const Number inner = atom(depth + 1);
      return inner ? Number(*inner == 0 ? 1 : 0) : std::nullopt;
    }
    if (take("++") || take("--")) {
      const std::int64_t by = text_[at_ - 1] == '+' ? 1 : -1;
      const std::string name = word();
      const Number changed = apply("+", value_(name), by);
      assign_(name, changed);
      return changed;
    }
    if (c == '-' || c == '+') {
      ++at_;
      const Number inner = atom(depth + 1);
      return c == '+' ? inner : apply("-", 0, inner);
    }
    const std::string name = word();
    if (name.empty()) {
      wrong_ = true;
      return std::nullopt;
    }
    if (std::isdigit(static_cast<unsigned char>(name[0])) != 0) return number(name);
    if (take("++") || take("--")) {
      const Number before = value_(name);
      assign_(name, apply("+", before, text_[at_ - 1] == '+' ? 1 : -1));
      return before;
    }
    for (const std::string_view op : {"+=", "-=", "*=", "/=", "%="}) {
      if (!take(op)) continue;
      const Number changed = apply(op.substr(0, 1), value_(name), level(0, depth + 1));
      assign_(name, changed);
      return changed;
    }
    peek();
    const bool sets = at_ < text_.size() && text_[at_] == '=' && (at_ + 1 >= text_.size() || text_[at_ + 1] != '=');
    if (sets) {
      ++at_;
      const Number given = level(0, depth + 1);
      assign_(name, given);
      return given;
    }
    return value_(name);
  }
  std::string word() {
    peek();
    std::string name;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 || text_[at_] == '_'))
      name += text_[at_++];
    return name;
  }
  Number number(const std::string& digits) {
    std::int64_t result = 0;
    const bool octal =
        digits.size() > 1 && digits[0] == '0' && digits.find_first_not_of("01234567") == std::string::npos;
    for (const char c : digits) {
      const bool digit = std::isdigit(static_cast<unsigned char>(c)) != 0;
      if (!digit || __builtin_mul_overflow(result, octal ? 8 : 10, &result) ||
          __builtin_add_overflow(result, c - '0', &result))
        return std::nullopt;
    }
    return result;
  }

  const std::string& text_;
  const std::function<Number(const std::string&)>& value_;
  const std::function<void(const std::string&, Number)>& assign_;
  std::size_t at_ = 0;
  bool wrong_ = false;
};

}  // namespace

std::string plain(const ShellText& text) {
  std::string all;
  for (const ShellChar& c : text) all += c.c;
  return all;
}
bool is_known(const ShellText& text) {
  return std::all_of(text.begin(), text.end(), [](const ShellChar& c) { return c.known == Known::known; });
}
bool is_unset(const ShellText& text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](const ShellChar& c) { return c.known == Known::unset; });
}
ShellText without_unset(const ShellText& text) {
  ShellText rest;
  std::copy_if(text.begin(), text.end(), std::back_inserter(rest),
               [](const ShellChar& c) { return c.known != Known::unset; });
  return rest;
}
ShellText text_at(std::string_view text, const ShellChar& place) {
  ShellText made;
  for (const char c : text) {
    ShellChar next = place;
    next.c = c;
    made.push_back(next);
  }
  return made;
}

bool shell_matches(const ShellText& text, const ShellText& pattern) { return matches(text, pattern); }

std::optional<std::int64_t> shell_sum(
    const std::string& expression, const std::function<std::optional<std::int64_t>(const std::string&)>& value,
    const std::function<void(const std::string&, std::optional<std::int64_t>)>& assign) {
  if (expression.find_first_not_of(" \t\n") == std::string::npos) return 0;
  return Sum(expression, value, assign).whole();
}

}  // namespace orrery::tools
