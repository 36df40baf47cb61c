// Recursive descent over the characters of a script, since what a character means depends on what it stands in. See
// shell_syntax.h.
#include "tools/import/shell_syntax.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <initializer_list>
#include <string_view>

#include "sim/error.h"

namespace orrery::tools {

namespace {

constexpr int kDeepestScript = 100;  // commands within commands, expansions within expansions

bool name_start(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool name_char(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

class Parser {
 public:
  using Kind = ShellPiece::Kind;
  Parser(const std::string& text, const sim::Place& place) : text_(text), place_(place) {}

  ShellList whole() {
    ShellList all = list({});
    if (!end()) broken("a command");
    return all;
  }

 private:
  /// Guards the recursion.
  struct Deeper {
    explicit Deeper(Parser& parser) : parser_(parser) {
      if (++parser_.depth_ > kDeepestScript)
        throw sim::UserError(parser_.place_, "", fmt::format("nests deeper than {}", kDeepestScript));
    }
    ~Deeper() { --parser_.depth_; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;
    Parser& parser_;
  };
  struct Here {
    std::string mark;
    bool strips, expands;
    std::shared_ptr<ShellWord> word;
  };

  bool end() const { return at_ >= text_.size(); }
  char peek(std::size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  bool starts(std::string_view what) const { return std::string_view(text_).substr(at_).starts_with(what); }
  void step(std::size_t count = 1) {
    for (; count > 0 && !end(); --count, ++at_) {
      if (text_[at_] == '\n') {
        ++place_.line;
        place_.column = 1;
      } else {
        ++place_.column;
      }
    }
  }
  bool take(std::string_view what) {
    if (!starts(what)) return false;
    step(what.size());
    return true;
  }
  [[noreturn]] void broken(const std::string& expected) const {
    std::string got = end() ? "the script's end" : text_.substr(at_, text_.find_first_of(" \t\n", at_ + 1) - at_);
    throw sim::UserError(place_, "", fmt::format("got {}, expected {}", got.substr(0, 40), expected));
  }
  /// The first line of what stands from `begin` to here.
  std::string since(std::size_t begin) const {
    std::string words = text_.substr(begin, at_ - begin);
    words.resize(std::min(words.size(), words.find('\n')));
    while (!words.empty() && (std::isspace(static_cast<unsigned char>(words.back())) != 0 || words.back() == ';'))
      words.pop_back();
    return words;
  }

  void blanks() {
    while (!end()) {
      if (peek() == ' ' || peek() == '\t' || peek() == '\r') {
        step();
      } else if (starts("\\\n")) {
        step(2);
      } else if (starts("\\\r\n")) {
        step(3);
      } else {
        return;
      }
    }
  }
  void comment() {
    while (!end() && peek() != '\n') step();
  }
  void newline() {
    step();
    std::vector<Here> waiting;
    waiting.swap(here_);
    for (Here& each : waiting) body_of(each);
  }
  /// Blanks, comments and ends of lines.
  void gap() {
    for (;;) {
      blanks();
      if (peek() == '#' && !end()) {
        comment();
      } else if (!end() && peek() == '\n') {
        newline();
      } else {
        return;
      }
    }
  }

  void body_of(Here& here) {
    const sim::Place begin = place_;
    std::string body;
    for (;;) {
      if (end()) break;  // as shells take it, with a warning
      const std::size_t stop = std::min(text_.find('\n', at_), text_.size());
      std::string line = text_.substr(at_, stop - at_);
      if (here.strips) line.erase(0, line.find_first_not_of('\t'));
      std::string bare = line;
      if (!bare.empty() && bare.back() == '\r') bare.pop_back();
      step(stop - at_ + 1);
      if (bare == here.mark) break;
      body += line + "\n";
    }
    here.word->place = begin;
    if (!here.expands) {
      here.word->pieces.push_back(literal(body, true, begin));
      return;
    }
    Parser inner(body, begin);
    inner.depth_ = depth_;
    const Deeper deeper(inner);
    while (!inner.end()) inner.within_quotes(*here.word);
  }

  static ShellPiece literal(std::string text, bool quoted, const sim::Place& place) {
    ShellPiece piece;
    piece.text = std::move(text);
    piece.quoted = quoted;
    piece.place = place;
    return piece;
  }
  static void add(ShellWord& word, char c, bool quoted, const sim::Place& place) {
    if (!word.pieces.empty() && word.pieces.back().kind == Kind::text && word.pieces.back().quoted == quoted &&
        c != '\n' && word.pieces.back().place.line == place.line) {
      word.pieces.back().text += c;
      return;
    }
    word.pieces.push_back(literal(std::string(1, c), quoted, place));
  }

  // Words.

  /// One character or expansion as it stands between double quotes.
  void within_quotes(ShellWord& word) {
    const sim::Place here = place_;
    if (peek() == '\\' && at_ + 1 < text_.size()) {
      const char next = peek(1);
      if (next == '\n') {
        step(2);
      } else if (next == '$' || next == '`' || next == '"' || next == '\\') {
        step(2);
        add(word, next, true, here);
      } else {
        step();
        add(word, '\\', true, here);
      }
    } else if (peek() == '$' || peek() == '`') {
      expansion(word, true);
    } else {
      add(word, peek(), true, here);
      step();
    }
  }
  void double_quoted(ShellWord& word) {
    const sim::Place opened = place_;
    step();
    word.pieces.push_back(literal("", true, opened));
    while (!end() && peek() != '"') within_quotes(word);
    if (end()) throw sim::UserError(opened, "", "opens a text with \" and does not close it");
    step();
  }
  void single_quoted(ShellWord& word, bool escapes) {
    const sim::Place opened = place_;
    step();
    word.pieces.push_back(literal("", true, opened));
    while (!end() && peek() != '\'') {
      if (escapes && peek() == '\\' && at_ + 1 < text_.size()) {
        step();
        const char c = peek();
        add(word, c == 'n' ? '\n' : c == 't' ? '\t' : c, true, place_);
      } else {
        add(word, peek(), true, place_);
      }
      step();
    }
    if (end()) throw sim::UserError(opened, "", "opens a text with ' and does not close it");
    step();
  }
  /// Whatever stands at the cursor, unquoted.
  void unquoted(ShellWord& word) {
    const sim::Place here = place_;
    if (peek() == '\\' && at_ + 1 < text_.size()) {
      step();
      if (peek() != '\n') add(word, peek(), true, here);
      step();
    } else if (peek() == '"') {
      double_quoted(word);
    } else if (peek() == '\'') {
      single_quoted(word, false);
    } else if (starts("$'")) {
      step();
      single_quoted(word, true);
    } else if (starts("$\"")) {
      step();
    } else if (peek() == '$' || peek() == '`') {
      expansion(word, false);
    } else {
      add(word, peek(), false, here);
      step();
    }
  }
  /// A word up to one of `stops`, which is not taken.
  ShellWord word_until(std::string_view stops) {
    ShellWord word;
    word.place = place_;
    while (!end() && stops.find(peek()) == std::string_view::npos) {
      if (peek() == '\r' && (peek(1) == '\n' || peek(1) == '\0')) break;
      const bool substitution = (peek() == '<' || peek() == '>') && peek(1) == '(';
      if (substitution) break;
      unquoted(word);
    }
    return word;
  }
  ShellWord word() {
    static constexpr std::string_view kMeta = " \t\n;&|()<>";
    ShellWord made = word_until(kMeta);
    if (made.pieces.empty() && (starts("<(") || starts(">("))) {
      const std::size_t begin = at_;
      const sim::Place here = place_;
      step(2);
      list({")"});
      if (!take(")")) broken(")");
      ShellPiece piece = literal("", true, here);
      piece.kind = Kind::opaque;
      piece.source = text_.substr(begin, at_ - begin);
      made.pieces.push_back(std::move(piece));
    }
    return made;
  }

  void expansion(ShellWord& word, bool quoted) {
    const Deeper deeper(*this);
    const std::size_t begin = at_;
    ShellPiece piece;
    piece.place = place_;
    piece.quoted = quoted;
    if (peek() == '`') {
      backquoted(piece);
    } else if (starts("$((")) {
      step(3);
      piece.kind = Kind::arithmetic;
      piece.arguments.push_back(sum_until());
    } else if (starts("$(")) {
      step(2);
      piece.kind = Kind::command;
      piece.commands = std::make_shared<ShellList>(list({")"}));
      if (!take(")")) throw sim::UserError(piece.place, "", "opens $( and does not close it");
    } else if (starts("${")) {
      step(2);
      piece.kind = Kind::variable;
      parameter(piece, quoted);
    } else {
      step();
      const char c = peek();
      const bool special = std::isdigit(static_cast<unsigned char>(c)) != 0 ||
                           (c != '\0' && std::string_view("@*#?$!-").find(c) != std::string_view::npos);
      if (!special && !name_start(c)) return add(word, '$', quoted, piece.place);
      piece.kind = Kind::variable;
      do {
        piece.text += peek();
        step();
      } while (!special && name_char(peek()));
    }
    piece.source = text_.substr(begin, at_ - begin);
    word.pieces.push_back(std::move(piece));
  }
  void backquoted(ShellPiece& piece) {
    step();
    const sim::Place inside = place_;
    std::string commands;
    while (!end() && peek() != '`') {
      if (peek() == '\\' && (peek(1) == '`' || peek(1) == '$' || peek(1) == '\\')) step();
      commands += peek();
      step();
    }
    if (!take("`")) throw sim::UserError(piece.place, "", "opens a text with ` and does not close it");
    piece.kind = Kind::command;
    Parser inner(commands, inside);
    inner.depth_ = depth_;
    piece.commands = std::make_shared<ShellList>(inner.whole());
  }
  /// An expression of $(( )) or (( )), to the two parentheses behind it, which are taken.
  ShellWord sum_until() {
    ShellWord word;
    word.place = place_;
    int open = 0;
    while (!end()) {
      if (open == 0 && starts("))")) {
        step(2);
        return word;
      }
      if (peek() == '(') ++open;
      if (peek() == ')') --open;
      if (open < 0) break;
      if (peek() == '"')
        step();
      else
        within_quotes(word);
    }
    throw sim::UserError(word.place, "", "opens (( and does not close it with ))");
  }
  /// An argument of ${NAME...}: up to one of `stops`.
  ShellWord argument(std::string_view stops, bool quoted) {
    ShellWord word;
    word.place = place_;
    while (!end() && stops.find(peek()) == std::string_view::npos) {
      if (peek() == '"')
        double_quoted(word);
      else if (quoted && peek() == '\'')
        within_quotes(word);
      else if (quoted && peek() == '\\' && peek(1) == '}')
        unquoted(word);
      else if (quoted)
        within_quotes(word);
      else
        unquoted(word);
    }
    return word;
  }
  void parameter(ShellPiece& piece, bool quoted) {
    const sim::Place opened = piece.place;
    const bool length = peek() == '#' && peek(1) != '}' && peek(1) != ':' && peek(1) != '#';
    const bool indirect = peek() == '!' && name_start(peek(1));
    if (length || indirect) {
      piece.operation = length ? "length" : "indirect";
      step();
    }
    if (name_start(peek()) || std::isdigit(static_cast<unsigned char>(peek())) != 0) {
      while (name_char(peek())) {
        piece.text += peek();
        step();
      }
    } else if (!end() && std::string_view("@*#?$!-").find(peek()) != std::string_view::npos) {
      piece.text = std::string(1, peek());
      step();
    }
    if (peek() == '[') {
      step();
      piece.index.push_back(argument("]", false));
      if (!take("]")) broken("]");
    }
    if (indirect && (take("@") || take("*"))) piece.operation = "names";
    for (const char* each : {":-", ":=", ":?", ":+", "##", "%%", "//", "/#", "/%", "^^", ",,",
                             "-",  "=",  "?",  "+",  "#",  "%",  "/",  "^",  ",",  "@",  ":"}) {
      const bool follows = piece.operation == "indirect" && piece.behind.empty();
      if ((!piece.operation.empty() && !follows) || !take(each)) continue;
      (follows ? piece.behind : piece.operation) = each;
      const bool parts = each[0] == '/' || std::string_view(each) == ":";
      piece.arguments.push_back(argument(parts ? (each[0] == '/' ? "/}" : ":}") : "}", quoted && !parts));
      if (parts && (peek() == '/' || peek() == ':')) {
        step();
        piece.arguments.push_back(argument("}", quoted));
      }
    }
    if (!take("}")) {
      if (end()) throw sim::UserError(opened, "", "opens ${ and does not close it");
      broken("}");
    }
  }

  // Commands.

  /// The reserved word at the cursor, or nothing.
  bool reserved(std::string_view word) const {
    if (!starts(word)) return false;
    const char behind = peek(word.size());
    return behind == '\0' || std::string_view(" \t\r\n;&|()<>").find(behind) != std::string_view::npos;
  }
  bool stops(std::initializer_list<const char*> words) const {
    for (const char* word : words) {
      if (std::string_view(word) == ")" || std::string_view(word) == ";;" ? starts(word) : reserved(word)) return true;
    }
    return false;
  }
  void need(const char* word) {
    gap();
    if (!reserved(word)) broken(word);
    step(std::string_view(word).size());
  }

  ShellList list(std::initializer_list<const char*> until) {
    const Deeper deeper(*this);
    ShellList all;
    auto joint = ShellStep::Joint::always;
    for (;;) {
      gap();
      while (peek() == ';' && !starts(";;")) {
        step();
        gap();
      }
      if (end() || stops(until)) return all;
      if (starts(";;")) return all;  // of a case around it
      ShellStep next;
      next.joint = joint;
      next.pipeline = pipeline();
      all.push_back(std::move(next));
      joint = ShellStep::Joint::always;
      blanks();
      if (take("&&"))
        joint = ShellStep::Joint::after_success;
      else if (take("||"))
        joint = ShellStep::Joint::after_failure;
      else if (peek() == '&' || (peek() == ';' && !starts(";;")))
        step();
      else if (!end() && peek() == '#')
        comment();
      else if (!end() && peek() != '\n' && !starts(";;") && !stops(until) && peek() != ')')
        broken("the end of a command");
      if (peek() == ')' && !stops(until)) broken("a command");
    }
  }
  ShellPipeline pipeline() {
    ShellPipeline made;
    blanks();
    while (reserved("!")) {
      step();
      made.negated = !made.negated;
      blanks();
    }
    if (reserved("time")) {
      step(4);
      blanks();
    }
    made.commands.push_back(command());
    for (;;) {
      blanks();
      if (peek() != '|' || starts("||")) return made;
      step(starts("|&") ? 2 : 1);
      gap();
      made.commands.push_back(command());
    }
  }
  ShellCommand command() {
    const Deeper deeper(*this);
    const std::size_t begin = at_;
    ShellCommand made;
    made.place = place_;
    if (reserved("if")) {
      branch(made);
    } else if (reserved("case")) {
      choice(made);
    } else if (reserved("for") || reserved("select")) {
      loop(made);
    } else if (reserved("while") || reserved("until")) {
      repeat(made);
    } else if (reserved("function")) {
      step(8);
      blanks();
      made.name = plain_name();
      blanks();
      if (take("(")) {
        blanks();
        if (!take(")")) broken(")");
      }
      function(made);
    } else if (reserved("[[")) {
      test(made);
    } else if (starts("((")) {
      step(2);
      made.kind = ShellCommand::Kind::arithmetic;
      made.words.push_back(sum_until());
    } else if (peek() == '(') {
      step();
      made.kind = ShellCommand::Kind::subshell;
      made.body = std::make_shared<ShellList>(list({")"}));
      if (!take(")")) broken(")");
    } else if (reserved("{")) {
      step();
      made.kind = ShellCommand::Kind::group;
      made.body = std::make_shared<ShellList>(list({"}"}));
      need("}");
    } else {
      simple(made);
      made.source = since(begin);
      return made;
    }
    made.source = since(begin);
    for (blanks(); redirection(made);) blanks();
    return made;
  }
  std::string plain_name() {
    std::string name;
    while (!end() && std::string_view(" \t\r\n;&|()<>{}").find(peek()) == std::string_view::npos) {
      name += peek();
      step();
    }
    if (name.empty()) broken("a name");
    return name;
  }
  void function(ShellCommand& made) {
    made.kind = ShellCommand::Kind::function;
    gap();
    ShellStep body;
    body.pipeline.commands.push_back(command());
    made.body = std::make_shared<ShellList>();
    made.body->push_back(std::move(body));
  }
  void branch(ShellCommand& made) {
    made.kind = ShellCommand::Kind::branch;
    step(2);
    for (;;) {
      ShellClause clause;
      clause.condition = list({"then"});
      need("then");
      clause.body = list({"elif", "else", "fi"});
      made.clauses.push_back(std::move(clause));
      if (reserved("elif")) {
        step(4);
        continue;
      }
      if (reserved("else")) {
        step(4);
        ShellClause last;
        last.body = list({"fi"});
        made.clauses.push_back(std::move(last));
      }
      return need("fi");
    }
  }
  void choice(ShellCommand& made) {
    made.kind = ShellCommand::Kind::choice;
    step(4);
    blanks();
    made.words.push_back(word());
    need("in");
    for (gap(); !reserved("esac"); gap()) {
      if (end()) broken("esac");
      ShellClause clause;
      blanks();
      take("(");
      do {
        blanks();
        clause.pattern.push_back(word_until(" \t\n|)"));
        blanks();
      } while (take("|"));
      if (!take(")")) broken(")");
      clause.body = list({"esac"});
      made.clauses.push_back(std::move(clause));
      if (starts(";;")) step(peek(2) == '&' ? 3 : 2);
    }
    step(4);
  }
  void loop(ShellCommand& made) {
    step(reserved("for") ? 3 : 6);
    blanks();
    made.kind = ShellCommand::Kind::for_each;
    if (starts("((")) {
      step(2);
      made.kind = ShellCommand::Kind::for_sum;
      made.words.push_back(sum_until());
    } else {
      made.name = plain_name();
      gap();
      made.over_arguments = !reserved("in");
      if (!made.over_arguments) {
        step(2);
        for (blanks(); !end() && peek() != ';' && peek() != '\n' && peek() != '#'; blanks()) {
          ShellWord next = word();
          if (next.pieces.empty()) broken("a word of the loop's list");
          made.words.push_back(std::move(next));
        }
      }
    }
    gap();
    while (take(";")) gap();
    const bool braces = reserved("{");
    if (braces)
      step();
    else
      need("do");
    made.body = std::make_shared<ShellList>(list({braces ? "}" : "done"}));
    need(braces ? "}" : "done");
  }
  void repeat(ShellCommand& made) {
    made.kind = ShellCommand::Kind::repeat;
    made.until = reserved("until");
    step(5);
    ShellClause clause;
    clause.condition = list({"do"});
    need("do");
    clause.body = list({"done"});
    need("done");
    made.clauses.push_back(std::move(clause));
  }
  /// [[ ]]: words, and its operators as words of their own.
  void test(ShellCommand& made) {
    made.kind = ShellCommand::Kind::test;
    step(2);
    bool pattern = false;
    for (gap(); !reserved("]]"); gap()) {
      if (end()) broken("]]");
      ShellWord next;
      next.place = place_;
      const char* const operators[] = {"&&", "||", "(", ")", "<", ">"};
      const auto found = std::find_if(std::begin(operators), std::end(operators),
                                      [&](const char* each) { return !pattern && starts(each); });
      if (found != std::end(operators)) {
        next.pieces.push_back(literal(*found, false, place_));
        step(std::string_view(*found).size());
      } else {
        next = pattern ? word_until(" \t\n") : word_until(" \t\n;&|()<>");
        if (next.pieces.empty()) broken("a word of the condition");
      }
      pattern = next.pieces.size() == 1 && !next.pieces[0].quoted && next.pieces[0].text == "=~";
      made.words.push_back(std::move(next));
    }
    step(2);
  }

  /// What is to be filled in, <PATH TO CHECKPOINTS>: its length at the cursor, or 0. A shell reads a redirection out of
  /// it that takes the next flag for a file, which nobody means.
  std::size_t to_fill_in() const {
    if (peek() != '<' || std::isalpha(static_cast<unsigned char>(peek(1))) == 0) return 0;
    std::size_t length = 1;
    while (std::string_view("<>\n\"'$`;|&()").find(peek(length)) == std::string_view::npos && peek(length) != '\0')
      ++length;
    const bool closed = peek(length) == '>' && peek(length - 1) != ' ';
    return closed && std::string_view(" \t\r\n\0", 5).find(peek(length + 1)) != std::string_view::npos ? length + 1 : 0;
  }
  /// A redirection at the cursor; here-documents are kept, the rest goes nowhere.
  bool redirection(ShellCommand& made) {
    std::size_t digits = 0;
    while (std::isdigit(static_cast<unsigned char>(peek(digits))) != 0) ++digits;
    const bool both = peek(digits) == '&' && peek(digits + 1) == '>' && digits == 0;
    const char c = peek(digits + (both ? 1 : 0));
    if (c != '<' && c != '>') return false;
    if (peek(digits + 1) == '(' && !both) return false;  // a substitution, which is a word
    step(digits + (both ? 1 : 0));
    if (starts("<<") && !starts("<<<")) {
      step(2);
      Here here{"", take("-"), true, std::make_shared<ShellWord>()};
      blanks();
      const ShellWord mark = word();
      for (const ShellPiece& piece : mark.pieces) {
        here.mark += piece.kind == Kind::text ? piece.text : piece.source;
        here.expands = here.expands && !piece.quoted;
      }
      made.here.push_back(here.word);
      here_.push_back(std::move(here));
      return true;
    }
    if (take("<<<")) {
      blanks();
      made.here.push_back(std::make_shared<ShellWord>(word()));
      return true;
    }
    while (!end() && std::string_view("<>&|").find(peek()) != std::string_view::npos) step();
    blanks();
    word();
    return true;
  }
  /// NAME=, NAME+=, NAME[index]= at the cursor.
  bool assignment(ShellCommand& made) {
    std::size_t length = 0;
    if (!name_start(peek())) return false;
    while (name_char(peek(length))) ++length;
    std::size_t behind = length;
    if (peek(behind) == '[') {
      while (peek(behind) != ']' && peek(behind) != '\n' && peek(behind) != '\0') ++behind;
      ++behind;
    }
    const bool adds = peek(behind) == '+' && peek(behind + 1) == '=';
    if (!adds && peek(behind) != '=') return false;
    ShellAssignment next;
    next.adds = adds;
    next.name = text_.substr(at_, length);
    step(length);
    if (take("[")) {
      next.index.push_back(argument("]", false));
      if (!take("]")) broken("]");
    }
    step(adds ? 2 : 1);
    next.value.place = place_;
    if (take("(")) {
      next.array = true;
      for (gap(); peek() != ')'; gap()) {
        if (end()) broken(")");
        ShellWord element = word();
        if (element.pieces.empty()) broken("an element of the array");
        next.elements.push_back(std::move(element));
      }
      step();
    } else {
      next.value = word();
    }
    made.assignments.push_back(std::move(next));
    return true;
  }
  void simple(ShellCommand& made) {
    static constexpr std::string_view kEnds = "\n;&|)";
    bool declares = false;
    for (blanks(); !end(); blanks()) {
      if (const std::size_t length = to_fill_in(); length > 0) {
        ShellWord blank;
        blank.place = place_;
        for (std::size_t i = 0; i < length; ++i, step()) add(blank, peek(), true, blank.place);
        made.words.push_back(std::move(blank));
        continue;
      }
      if (redirection(made)) continue;
      if (kEnds.find(peek()) != std::string_view::npos) break;
      if (peek() == '#') break;
      if ((made.words.empty() || declares) && assignment(made)) continue;
      if (peek() == '(') {
        const bool names = made.words.size() == 1 && made.assignments.empty() && made.words[0].pieces.size() == 1;
        step();
        blanks();
        if (!names || !take(")")) broken("a command");
        made.name = made.words[0].pieces[0].text;
        made.words.clear();
        return function(made);
      }
      ShellWord next = word();
      if (next.pieces.empty()) broken("a word");
      made.words.push_back(std::move(next));
      const ShellWord& first = made.words[0];
      if (made.words.size() == 1 && first.pieces.size() == 1 && !first.pieces[0].quoted) {
        for (const char* each : {"export", "declare", "local", "readonly", "typeset"})
          declares = declares || first.pieces[0].text == each;
      }
    }
    if (made.words.empty() && made.assignments.empty() && made.here.empty() && end()) return;
  }

  const std::string text_;
  sim::Place place_;
  std::size_t at_ = 0;
  int depth_ = 0;
  std::vector<Here> here_;  // whose bodies stand behind the line at hand
};

}  // namespace

ShellList parse_shell(const std::string& text, const sim::Place& place) { return Parser(text, place).whole(); }

}  // namespace orrery::tools
