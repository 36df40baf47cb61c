// C++ text as the laws read it: comments and literals blanked out, cut into statements and types by its brackets. No
// parser: it knows no names, so what tells a declaration from an expression is its form, as clang-format writes it.
#pragma once

#include <algorithm>
#include <cctype>
#include <regex>
#include <string>
#include <vector>

namespace orrery::laws {

/// `text` without comments, literals and lines of the preprocessor; every line break stays where it is.
inline std::string code_of(const std::string& text) {
  std::string code = text;
  const auto blank = [&](std::size_t from, std::size_t to) {
    for (; from < to && from < code.size(); ++from) {
      if (code[from] != '\n') code[from] = ' ';
    }
  };
  bool line_begins = true;
  for (std::size_t i = 0; i < text.size();) {
    std::size_t end = i + 1;
    const char c = text[i];
    const bool in_word = i > 0 && (std::isalnum(static_cast<unsigned char>(text[i - 1])) != 0 || text[i - 1] == '_');
    if (text.compare(i, 2, "//") == 0) {
      end = std::min(text.find('\n', i), text.size());
    } else if (text.compare(i, 2, "/*") == 0) {
      end = std::min(text.find("*/", i), text.size() - 2) + 2;
    } else if (c == '#' && line_begins) {
      do end = std::min(text.find('\n', end), text.size() - 1) + 1;
      while (end < text.size() && text[end - 2] == '\\');
    } else if (text.compare(i, 2, "R\"") == 0 && !in_word) {
      const std::size_t open = text.find('(', i);
      const std::string close = ")" + text.substr(i + 2, open - i - 2) + "\"";
      end = std::min(text.find(close, open), text.size() - close.size()) + close.size();
    } else if (c == '"' || (c == '\'' && !in_word)) {
      while (end < text.size() && text[end] != c && text[end] != '\n') end += text[end] == '\\' ? 2 : 1;
      ++end;
    } else {
      if (c == '\n') line_begins = true;
      if (std::isspace(static_cast<unsigned char>(c)) == 0) line_begins = false;
      ++i;
      continue;
    }
    blank(i, end);
    i = end;
  }
  return code;
}

/// One statement, what stands in its brackets taken out: "best = std::max()", "std::vector<int> a_{}".
struct Statement {
  std::string text;
  std::size_t line = 0;  // where it begins, from 0
};

/// A struct or a class with what it declares.
struct Type {
  std::string name;
  std::size_t line = 0, lines = 0;
  std::vector<Statement> declarations;
};

struct Code {
  std::vector<Statement> statements;  // of functions and types alike; not what a for loop has in its brackets
  std::vector<Type> types;
};

/// Cuts code into statements and types.
inline Code parse(const std::string& text) {
  struct Frame {
    char open = '{';
    bool type = false;
    bool ended = false;  // it holds a whole statement, so that it is a block and no initialiser
    Statement now;
    Type as_type;
  };
  static const std::regex kType(R"(^(?:template ?<.*> ?)?(?:struct|class|union) ([\w:]+)(?: final)?(?: ?: [^:].*)?$)");
  Code out;
  std::vector<Frame> frames(1);
  std::size_t line = 0;
  const auto end_statement = [&](Frame& frame) {
    while (!frame.now.text.empty() && frame.now.text.back() == ' ') frame.now.text.pop_back();
    if (frame.open == '{' && !frame.now.text.empty()) {
      out.statements.push_back(frame.now);
      if (frame.type) frame.as_type.declarations.push_back(frame.now);
    }
    frame.now = {};
  };
  for (const char c : code_of(text)) {
    Frame& top = frames.back();
    if (c == '\n') ++line;
    if (c == '(' || c == '[' || c == '{') {
      Frame frame;
      frame.open = c;
      std::smatch match;
      std::string head = top.now.text;
      while (!head.empty() && head.back() == ' ') head.pop_back();
      if (c == '{' && std::regex_match(head, match, kType)) {
        frame.type = true;
        frame.as_type.name = match[1];
        frame.as_type.line = top.now.line;
      }
      frames.push_back(frame);
    } else if (c == ')' || c == ']' || c == '}') {
      if (frames.size() == 1) continue;
      Frame inner = frames.back();
      frames.pop_back();
      Frame& outer = frames.back();
      if (inner.type) {
        inner.as_type.lines = line - inner.as_type.line + 1;
        out.types.push_back(inner.as_type);
      }
      const std::string& head = outer.now.text;
      const bool body = head.ends_with(") ") || head.ends_with("const ") || head.ends_with("else ");
      if (c == '}' && outer.open == '{' && (inner.type || inner.ended || (body && inner.now.text.empty()))) {
        outer.ended = true;
        outer.now = {};
        if (inner.type) outer.now = {inner.as_type.name, line};  // what follows up to the semicolon is of this type
      } else {
        outer.now.text += c == ')' ? "()" : c == ']' ? "[]" : "{}";
      }
    } else if (c == ';') {
      top.ended = true;
      end_statement(top);
    } else if (c == ' ' || c == '\n') {
      if (!top.now.text.empty() && top.now.text.back() != ' ') top.now.text += ' ';
    } else {
      if (top.now.text.empty()) top.now.line = line;
      top.now.text += c;
    }
    if (c == ':' && (frames.back().now.text == "public:" || frames.back().now.text == "private:"))
      frames.back().now = {};
  }
  return out;
}

/// Without template arguments, innermost first.
inline std::string without_arguments(std::string text) {
  static const std::regex kArguments(R"(<[\w:*& ,()\[\]{}.]*>)");
  for (std::string next; (next = std::regex_replace(text, kArguments, "")) != text;) text = next;
  return text;
}

/// The name of a function that a line of the first column declares or defines, as clang-format lays it out; empty for
/// everything else, members defined apart among it.
inline std::string function_begun(const std::string& line) {
  static const std::regex kFunction(
      R"(^(?:template <[^>]*> )?(?!return |using |static_assert|namespace )[A-Za-z_][\w:<>,&* ()\[\]]*?[ &*](\w+)\()");
  std::smatch match;
  if (!std::regex_search(line, match, kFunction)) return "";
  return line.substr(0, static_cast<std::size_t>(match.position(1))).find('=') == std::string::npos ? match.str(1) : "";
}

/// Functions that a file declares at the level of a namespace.
struct Functions {
  std::vector<Statement> unnamed;  // in an anonymous namespace: the name, and the line from 0
  std::vector<Statement> named;    // the name with its namespace, as "orrery::sim sum"
  std::string space;               // the last namespace that has a name
};

inline Functions functions_of(const std::vector<std::string>& lines) {
  Functions out;
  std::vector<std::string> spaces;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string& line = lines[i];
    if (line.starts_with("namespace ") && line.ends_with(" {")) {
      spaces.push_back(line == "namespace {" ? "" : line.substr(10, line.size() - 12));
      if (!spaces.back().empty()) out.space = spaces.back();
    } else if (!spaces.empty() && (line.starts_with("}  // namespace") ||
                                   (line == "}" && i >= 2 && lines[i - 2] == "namespace {"))) {  // no comment then
      spaces.pop_back();
    } else if (const std::string name = function_begun(line); !name.empty() && !spaces.empty()) {
      (spaces.back().empty() ? out.unnamed : out.named).push_back({out.space + " " + name, i});
    }
  }
  return out;
}

/// Whether a comma joins expressions to one statement: "a = 1, b = 2".
inline bool joins_by_comma(const Statement& statement) {
  static const std::regex kBefore(
      R"(^(?:(?:if(?: constexpr)?|for|while|switch) ?\(\) |else |do |case [\w:()]+: |default: )+)");
  static const std::regex kExpression(
      R"(^(?:return .*,|(?:\+\+|--|\*)*[\w.:()\[\]]+(?:->[\w.:()\[\]]+)*(?:\+\+|--)?(?:,| (?:[-+*/|&^%]|<<|>>)?= )))");
  if (statement.text.find(',') == std::string::npos) return false;
  const std::string text = without_arguments(std::regex_replace(statement.text, kBefore, ""));
  return text.find(',') != std::string::npos && std::regex_search(text, kExpression);
}

/// How many data members a declaration of a type declares; 0 for functions, types and what is static.
inline std::size_t members_of(const Statement& declaration) {
  static const std::regex kOther(
      R"(^(?:using|friend|static|enum|struct|class|union|template|typedef|explicit|virtual|constexpr|__extension__) )");
  static const std::regex kInitial(R"( = [^,]*)");
  if (std::regex_search(declaration.text, kOther) || declaration.text.find("operator") != std::string::npos) return 0;
  const std::string text = std::regex_replace(without_arguments(declaration.text), kInitial, "");
  // A function has its arguments in brackets; a pointer to one has two pairs.
  if (text.find("()") != std::string::npos && text.find("()()") == std::string::npos) return 0;
  if (text.find(' ') == std::string::npos) return 0;  // no type: the rest of something else
  return 1 + static_cast<std::size_t>(std::count(text.begin(), text.end(), ','));
}

}  // namespace orrery::laws
