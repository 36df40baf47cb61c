// Plain YAML: block mappings and sequences, flow collections, plain words that may go on over lines, quoted ones of a
// line without escapes, folded text of lines that are indented alike (>-), comments. Whatever else it meets, a mistake
// above all, it leaves to the parser of the whole language, so that there is one place that says what is wrong: what
// this reader takes is what that one takes, and a test compares the two on every shipped document and on texts made of
// them by chance.
//
// Left out, among others: tabs, several documents, anchors, tags, explicit keys, quoted scalars over several lines, and
// collections that close with a comma.
#include "scenarios/plain_yaml.h"

#include <yaml-cpp/mark.h>

#include <algorithm>
#include <string_view>

namespace orrery::scenarios {

namespace {

constexpr std::size_t kLongestPlainKey = 128;  // YAML's own limit lies at 1024

// Every function that reads something returns whether that was plain, and stands behind it.

/// A place in the text, and the lines around it.
class Cursor {
 public:
  explicit Cursor(const std::string& text) : text_(text) {}

 protected:
  bool done() const { return at_ == text_.size(); }
  char peek(std::size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\n'; }
  bool ends_word(std::size_t ahead) const { return peek(ahead) == ' ' || peek(ahead) == '\n'; }
  bool is_dash() const { return peek() == '-' && ends_word(1); }
  int column() const { return static_cast<int>(at_ - line_begin_); }
  YAML::Mark mark() const {
    YAML::Mark mark;
    mark.pos = static_cast<int>(at_);
    mark.line = line_;
    mark.column = column();
    return mark;
  }
  /// A line that begins or ends a document, or speaks to the parser.
  bool has_marker() const {
    const std::string_view rest = std::string_view(text_).substr(at_, 3);
    return rest == "---" || rest == "..." || peek() == '%';
  }

  void skip_spaces() {
    while (peek() == ' ') ++at_;
  }
  void take_line_break() {
    ++at_;
    ++line_;
    line_begin_ = at_;
  }
  /// From the beginning of a line, or its end, to the next character that is neither space nor comment.
  void skip_to_content() {
    while (!done()) {
      skip_spaces();
      if (done()) return;
      if (peek() == '#') at_ = std::min(text_.find('\n', at_), text_.size());
      if (done() || peek() != '\n') return;
      take_line_break();
    }
  }
  /// The rest of a line behind a value: spaces and a comment.
  bool ends_line() {
    const std::size_t from = at_;
    skip_spaces();
    if (done() || peek() == '\n') return true;
    return peek() == '#' && at_ > from;
  }
  /// To the line that follows a value of a collection whose entries begin at `indent`: it belongs to it, or to one
  /// further out.
  bool leave_value(int indent) {
    if (!ends_line()) return false;
    skip_to_content();
    return done() || (column() <= indent && !(column() == 0 && has_marker()));
  }

  void skip_in_flow() {
    skip_spaces();
    while (!done() && peek() == '\n') {
      take_line_break();
      skip_spaces();
    }
  }
  /// Whether a line of a flow collection begins where no collection of a document does.
  bool lies_inside() const { return !done() && column() > 0 && peek() != '#'; }

  const std::string& text_;
  std::size_t at_ = 0, line_begin_ = 0;
  int line_ = 0;
};

/// Reads words, quoted ones, and folded text.
class Words : public Cursor {
 public:
  using Cursor::Cursor;

 protected:
  struct Scalar {
    YAML::Mark mark;
    std::string_view text;
    bool quoted = false;
  };

  bool scalar(Scalar& read, bool in_flow) {
    if (done()) return false;
    return peek() == '"' || peek() == '\'' ? quoted(read) : plain(read, in_flow);
  }

  bool quoted(Scalar& read) {
    read.mark = mark();
    read.quoted = true;
    const char quote = peek();
    const std::size_t begin = at_ + 1;
    const std::size_t end = text_.find_first_of(quote == '"' ? "\"\\\n" : "'\n", begin);
    if (end == std::string::npos || text_[end] != quote) return false;
    at_ = end + 1;
    if (quote == '\'' && peek() == '\'') return false;
    read.text = std::string_view(text_).substr(begin, end - begin);
    return true;
  }

  bool plain(Scalar& read, bool in_flow) {
    static constexpr std::string_view kIndicators = ",[]{}#&*!|>'\"%@`?:";
    const char first = peek();
    if (done() || first == ' ' || first == '\n' || kIndicators.find(first) != std::string_view::npos) return false;
    if (first == '-' && (ends_word(1) || kIndicators.find(peek(1)) != std::string_view::npos || peek(1) == '-'))
      return false;
    read.mark = mark();
    read.quoted = false;
    const std::size_t begin = at_;
    std::size_t end = at_;  // behind the last character that is no space
    for (; !done() && peek() != '\n'; ++at_) {
      const char c = peek();
      if (c == ' ') continue;
      if (c == '#' && end < at_) break;
      if (c == ':' && (ends_word(1) || (in_flow && kIndicators.find(peek(1)) != std::string_view::npos))) break;
      if (in_flow && (c == ',' || c == '[' || c == ']' || c == '{' || c == '}' || c == '?')) break;
      end = at_ + 1;
    }
    if (peek() == ':' && end < at_) return false;  // a colon that stands alone
    at_ = end;
    read.text = std::string_view(text_).substr(begin, end - begin);
    return true;
  }

  /// Whether a plain scalar that ends its line goes on with a word of the next one.
  bool goes_on(int indent) const {
    if (peek() != '\n' || at_ + 1 >= text_.size()) return false;
    const std::size_t word = text_.find_first_not_of(' ', at_ + 1);
    if (word == std::string::npos || static_cast<int>(word - at_ - 1) <= indent) return false;
    const char c = text_[word];
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '(';
  }

  /// Lines of text, indented alike and further than the collection that they belong to, which become one.
  bool folded(int indent, std::string& text) {
    if (peek(1) != '-') return false;
    at_ += 2;
    if (!ends_line() || peek() == '#' || done()) return false;
    int margin = -1;
    while (!done()) {
      const std::size_t end_of_line = at_;
      const int line = line_;
      const std::size_t line_begin = line_begin_;
      take_line_break();
      skip_spaces();
      if (done() || column() <= indent || peek() == '\n') {
        // The end, where the lines that follow are for others: leave_value() looks at them.
        at_ = end_of_line;
        line_ = line;
        line_begin_ = line_begin;
        break;
      }
      if (margin < 0) margin = column();
      if (column() != margin) return false;
      const std::size_t end = std::min(text_.find('\n', at_), text_.size());
      if (text_[end - 1] == ' ') return false;
      if (!text.empty()) text += ' ';
      text.append(text_, at_, end - at_);
      at_ = end;
    }
    return !text.empty();
  }
};

/// Reads collections, and tells of them.
class PlainReader : public Words {
 public:
  PlainReader(const std::string& text, PlainEvents& out) : Words(text), out_(out) {}

  bool document() {
    if (text_.find_first_of("\t\r") != std::string::npos || text_.starts_with("\xef")) return false;
    skip_to_content();
    return !done() && column() == 0 && !has_marker() && block(-1) && done();
  }

 private:
  bool block(int parent) {
    if (done() || column() <= parent) return false;
    return is_dash() ? sequence(column()) : mapping(column());
  }

  bool mapping(int indent) {
    out_.on_begin(mark(), false);
    while (!done() && column() == indent) {
      Scalar key;
      if (!block_key(key)) return false;
      send(key);
      if (!member(indent)) return false;
    }
    if (!done() && column() > indent) return false;
    out_.on_end();
    return true;
  }

  /// What stands behind a colon.
  bool member(int indent) {
    const YAML::Mark colon = mark();
    const std::size_t from = at_;
    skip_spaces();
    if (!done() && peek() != '\n' && !(peek() == '#' && at_ > from)) return value(indent) && leave_value(indent);
    skip_to_content();
    if (!done() && column() == 0 && has_marker()) return false;
    if (!done() && column() > indent) return block(indent);
    if (!done() && column() == indent && is_dash()) return sequence(indent);
    out_.on_scalar(colon, "", false);
    return true;
  }

  bool sequence(int indent) {
    out_.on_begin(mark(), true);
    while (!done() && column() == indent && is_dash()) {  // behind it may come the next key, as far left
      ++at_;
      if (!item(indent)) return false;
    }
    if (!done() && column() > indent) return false;
    out_.on_end();
    return true;
  }

  /// What stands behind a dash.
  bool item(int indent) {
    skip_spaces();
    if (done() || peek() == '#') return false;
    if (peek() == '\n') {
      skip_to_content();
      return !done() && column() > indent && block(indent);
    }
    if (is_dash()) return false;
    const std::size_t from = at_;
    Scalar key;
    const bool has_key = peek() != '[' && peek() != '{' && block_key(key);
    at_ = from;
    return has_key ? mapping(column()) : value(indent) && leave_value(indent);
  }

  /// A word and the colon behind it.
  bool block_key(Scalar& key) {
    if (!scalar(key, false) || peek() != ':' || !ends_word(1) || key.text.size() > kLongestPlainKey) return false;
    ++at_;
    return true;
  }

  /// Of a collection whose entries begin at `indent`.
  bool value(int indent) {
    if (peek() == '[') return flow_sequence();
    if (peek() == '{') return flow_mapping();
    Scalar read;
    std::string lines;
    if (peek() == '>') {
      read.mark = mark();
      read.quoted = true;
      if (!folded(indent, lines)) return false;
      read.text = lines;
      send(read);
      return true;
    }
    if (!scalar(read, false) || peek() == ':') return false;
    while (!read.quoted && goes_on(indent)) {
      if (lines.empty()) lines = read.text;
      skip_to_content();
      Scalar more;
      if (!scalar(more, false) || peek() == ':') return false;
      lines += ' ';
      lines += more.text;
    }
    if (!lines.empty()) read.text = lines;
    send(read);
    return true;
  }

  void send(const Scalar& read) {
    const std::string_view text = read.text;
    const bool null = !read.quoted && (text == "~" || text == "null" || text == "Null" || text == "NULL");
    out_.on_scalar(read.mark, null ? std::string_view{} : text, read.quoted);
  }

  bool flow_sequence() {
    return flow(']', [this] { return flow_value(); });
  }
  bool flow_mapping() {
    const auto entry = [this] {
      Scalar key;
      if (!scalar(key, true) || peek() != ':' || !ends_word(1) || key.text.size() > kLongestPlainKey) return false;
      ++at_;
      send(key);
      skip_in_flow();
      return lies_inside() && flow_value();
    };
    return flow('}', entry);
  }

  template <class Entry>
  bool flow(char close, const Entry& entry) {
    out_.on_begin(mark(), close == ']');
    ++at_;
    skip_in_flow();
    for (bool first = true; !(first && peek() == close); first = false) {
      if (!lies_inside() || !entry()) return false;
      skip_in_flow();
      if (!lies_inside()) return false;
      if (peek() == close) break;
      if (peek() != ',') return false;
      ++at_;
      skip_in_flow();
    }
    if (!lies_inside()) return false;
    ++at_;
    out_.on_end();
    return true;
  }

  bool flow_value() {
    if (peek() == '[') return flow_sequence();
    if (peek() == '{') return flow_mapping();
    Scalar read;
    if (!scalar(read, true)) return false;
    send(read);
    return true;
  }

  PlainEvents& out_;
};

}  // namespace

bool read_plain_yaml(const std::string& text, PlainEvents& out) { return PlainReader(text, out).document(); }

}  // namespace orrery::scenarios
