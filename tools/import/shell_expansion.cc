// See shell_expansion.h.
#include "tools/import/shell_expansion.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>

namespace orrery::tools {

namespace {

using Known = ShellChar::Known;
constexpr std::size_t kLongestWord = 65536;        // characters; variables of variables grow fast
constexpr std::size_t kMostCharacters = 32 << 20;  // made in all
constexpr std::size_t kMostItems = 4096;           // of an array

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

void append(ShellText& to, const ShellText& from, bool quoted) {
  for (ShellChar c : from) {
    c.quoted = c.quoted || quoted;
    to.push_back(c);
  }
}

/// {1..8} and {a,b} of a word that is nothing else.
std::vector<std::string> braces(const std::string& text) {
  const std::size_t open = text.find('{'), close = text.find('}', open == std::string::npos ? 0 : open);
  if (open == std::string::npos || close == std::string::npos) return {text};
  const std::string inside = text.substr(open + 1, close - open - 1);
  const std::string before = text.substr(0, open), behind = text.substr(close + 1);
  std::vector<std::string> all;
  if (const std::size_t dots = inside.find(".."); dots != std::string::npos) {
    int from = 0, to = 0;
    const char *first = inside.data(), *middle = first + dots, *last = first + inside.size();
    const bool numbers = std::from_chars(first, middle, from).ptr == middle && dots > 0 &&
                         std::from_chars(middle + 2, last, to).ptr == last && middle + 2 < last;
    if (!numbers || std::abs(static_cast<long>(from) - to) > static_cast<long>(kMostItems)) return {text};
    for (int i = from;; i += from < to ? 1 : -1) {
      all.push_back(before + std::to_string(i) + behind);
      if (i == to) return all;
    }
  }
  if (inside.find(',') == std::string::npos) return {text};
  for (std::size_t at = 0;;) {
    const std::size_t comma = std::min(inside.find(',', at), inside.size());
    all.push_back(before + inside.substr(at, comma - at) + behind);
    if (comma == inside.size()) return all;
    at = comma + 1;
  }
}

ShellText removed(const ShellText& text, const ShellText& pattern, const std::string& operation) {
  const bool front = operation[0] == '#', longest = operation.size() == 2;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    const std::size_t length = longest ? text.size() - i : i;
    const auto begin = front ? text.begin() : text.end() - static_cast<std::ptrdiff_t>(length);
    const ShellText part(begin, begin + static_cast<std::ptrdiff_t>(length));
    if (!shell_matches(part, pattern)) continue;
    return front ? ShellText(text.begin() + static_cast<std::ptrdiff_t>(length), text.end())
                 : ShellText(text.begin(), text.end() - static_cast<std::ptrdiff_t>(length));
  }
  return text;
}

ShellText replaced(const ShellText& text, const ShellText& pattern, const ShellText& by, bool all) {
  ShellText made;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t length = text.size() - at;
    const auto begin = text.begin() + static_cast<std::ptrdiff_t>(at);
    while (length > 0 && !shell_matches(ShellText(begin, begin + static_cast<std::ptrdiff_t>(length)), pattern))
      --length;
    if (length == 0) {
      made.push_back(text[at++]);
      continue;
    }
    append(made, by, false);
    at += length;
    if (!all) {
      made.insert(made.end(), text.begin() + static_cast<std::ptrdiff_t>(at), text.end());
      break;
    }
  }
  return made;
}

}  // namespace

ShellChar ShellExpansion::place_of(const sim::Place& place) {
  const std::string& file = place.file.text();
  auto found = std::find(files_.begin(), files_.end(), file);
  if (found == files_.end()) found = files_.insert(files_.end(), file);
  ShellChar c;
  c.file = static_cast<std::uint16_t>(found - files_.begin());
  c.line = place.line;
  c.column = place.column;
  return c;
}

sim::Place ShellExpansion::place(const ShellChar& c) const { return {files_.at(c.file), c.line, c.column}; }

void ShellExpansion::spend(std::size_t characters, const sim::Place& place) {
  if (characters > kLongestWord)
    throw sim::UserError(place, "", fmt::format("expands to more than {} characters", kLongestWord));
  spent_ += characters;
  if (spent_ > kMostCharacters)
    throw sim::UserError(place, "", fmt::format("expands to more than {} characters in all", kMostCharacters));
}

namespace {
/// "$*" or "${A[*]}".
bool is_star(const ShellPiece& piece) {
  const bool all = !piece.index.empty() && piece.index[0].pieces.size() == 1;
  return piece.text == "*" || (all && piece.index[0].pieces[0].text == "*");
}
}  // namespace

ShellText ShellExpansion::between(const ShellPiece& piece, const ShellState& state) {
  const ShellValue* separators = is_star(piece) ? variable("IFS", state) : nullptr;
  const bool set = separators != nullptr && !separators->items.empty() && is_known(separators->items[0]);
  const std::string text = set ? plain(separators->items[0]).substr(0, 1) : " ";
  return text_at(text, place_of(piece.place));
}

const ShellValue* ShellExpansion::variable(const std::string& name, const ShellState& state) const {
  const auto found = state.variables.find(name);
  return found != state.variables.end() ? found->second.get() : nullptr;
}

void ShellExpansion::assign(const std::string& name, ShellText text, ShellState& state) {
  if (given_.environment.contains(name)) return;  // what the user says holds
  auto value = std::make_shared<ShellValue>();
  value->items.push_back(std::move(text));
  state.variables[name] = std::move(value);
}

void ShellExpansion::assign(const ShellAssignment& assignment, ShellState& state) {
  const ShellValue* old = variable(assignment.name, state);
  ShellValue value = old != nullptr && (assignment.adds || !assignment.index.empty()) ? *old : ShellValue{};
  if (old != nullptr && old->keyed) value.keyed = value.array = true;
  if (!assignment.index.empty()) {
    const std::string key = plain(joined(assignment.index[0], state));
    ShellText text = joined(assignment.value, state);
    value.array = true;
    if (value.keyed) {
      value.keys[key] = std::move(text);
    } else if (const auto at = sum_of(key, state); at && *at >= 0 && *at < static_cast<std::int64_t>(kMostItems)) {
      value.items.resize(std::max(value.items.size(), static_cast<std::size_t>(*at) + 1));
      value.items[static_cast<std::size_t>(*at)] = std::move(text);
    }
  } else if (assignment.array) {
    value.array = true;
    for (const ShellWord& element : assignment.elements) {
      const bool keyed = !element.pieces.empty() && element.pieces[0].text.starts_with("[") && value.keyed;
      if (!keyed) {
        for (ShellText& text : fields(element, state)) value.items.push_back(std::move(text));
        continue;
      }
      const ShellText whole = joined(element, state);
      const std::string text = plain(whole);
      const std::size_t close = text.find("]=");
      if (close == std::string::npos) continue;
      value.keys[text.substr(1, close - 1)] =
          ShellText(whole.begin() + static_cast<std::ptrdiff_t>(close) + 2, whole.end());
    }
    if (value.items.size() > kMostItems)
      throw sim::UserError(assignment.value.place, assignment.name, fmt::format("has more than {} items", kMostItems));
  } else {
    ShellText text = joined(assignment.value, state);
    if (value.items.empty()) value.items.emplace_back();
    if (assignment.adds)
      append(value.items[0], text, false);
    else
      value.items[0] = std::move(text);
    spend(value.items[0].size(), assignment.value.place);
  }
  if (given_.environment.contains(assignment.name)) return;
  state.variables[assignment.name] = std::make_shared<const ShellValue>(std::move(value));
}

std::optional<std::int64_t> ShellExpansion::sum_of(const std::string& expression, ShellState& state) {
  int deep = 0;
  const std::function<std::optional<std::int64_t>(const std::string&)> value =
      [&](const std::string& name) -> std::optional<std::int64_t> {
    std::string text;
    if (const auto given = given_.environment.find(name); given != given_.environment.end()) {
      text = given->second;
    } else {
      const ShellValue* found = variable(name, state);
      if (found == nullptr) unset_.insert(name);
      if (found == nullptr || found->items.empty() || !is_known(found->items[0]) || ++deep > 8) return std::nullopt;
      text = plain(found->items[0]);
    }
    if (text.empty()) return 0;
    return shell_sum(text, value, [](const std::string&, std::optional<std::int64_t>) {});
  };
  return shell_sum(expression, value, [&](const std::string& name, std::optional<std::int64_t> number) {
    const std::string text = number ? std::to_string(*number) : "$((" + name + "))";
    ShellChar where;
    where.known = number ? Known::known : Known::opaque;
    assign(name, text_at(text, where), state);
  });
}

ShellText ShellExpansion::raw(const ShellPiece& piece, Known known) {
  ShellChar where = place_of(piece.place);
  where.known = known;
  spend(piece.source.size(), piece.place);
  return text_at(piece.source, where);
}

/// Arguments of the script and what a shell sets itself.
ShellText ShellExpansion::special(const ShellPiece& piece, const std::string& name, const ShellState& state) {
  const ShellChar where = place_of(piece.place);
  if (name == "#" && state.arguments_known) return text_at(std::to_string(state.arguments.size()), where);
  if (name == "?") return state.status == ShellState::Status::success ? text_at("0", where) : raw(piece, Known::opaque);
  if (std::isdigit(static_cast<unsigned char>(name[0])) != 0 && name.size() < 4) {
    const std::size_t at = std::stoul(name);
    if (at == 0) return text_at(state.script, where);  // ${00} as well
    if (at <= state.arguments.size()) return state.arguments[at - 1];
    return state.arguments_known ? ShellText() : raw(piece, Known::unset);
  }
  return raw(piece, name == "#" ? Known::unset : Known::opaque);
}

ShellExpansion::Parts ShellExpansion::named(const ShellPiece& piece, ShellState& state) {
  std::string name = piece.text;
  const std::string index = piece.index.empty() ? "" : plain(joined(piece.index[0], state));
  const bool all = index == "@" || index == "*" || name == "@" || name == "*";
  if (name.empty()) return {{raw(piece, Known::opaque)}};
  if (name == "@" || name == "*") {
    if (state.arguments.empty() && !state.arguments_known) return {{raw(piece, Known::unset)}};
    return {state.arguments, true};
  }
  if (std::isalpha(static_cast<unsigned char>(name[0])) == 0 && name[0] != '_') return {{special(piece, name, state)}};
  const bool keys = piece.operation == "indirect" && all;
  if (piece.operation == "indirect" && !all) {
    const ShellValue* pointer = variable(name, state);
    if (pointer == nullptr || pointer->items.empty() || !is_known(pointer->items[0]))
      return {{raw(piece, Known::opaque)}};
    name = plain(pointer->items[0]);
  }
  if (const auto given = given_.environment.find(name); given != given_.environment.end())
    return {{text_at(given->second, place_of(piece.place))}};
  const ShellValue* value = variable(name, state);
  if (value == nullptr) {
    if (name == "BASH_SOURCE") return {{text_at(state.script, place_of(piece.place))}};
    unset_.insert(name);
    return {{raw(piece, Known::unset)}};
  }
  if (all) {
    Parts made{{}, true};
    if (keys && !value->keyed) {
      for (std::size_t i = 0; i < value->items.size(); ++i)
        made.texts.push_back(text_at(std::to_string(i), place_of(piece.place)));
    }
    if (value->keyed) {
      for (const auto& [key, text] : value->keys)
        made.texts.push_back(keys ? text_at(key, place_of(piece.place)) : text);
    } else if (!keys) {
      made.texts = value->items;
    }
    return made;
  }
  if (value->keyed) {
    const auto found = value->keys.find(index);
    return {{found != value->keys.end() ? found->second : ShellText()}};
  }
  const std::optional<std::int64_t> at = index.empty() ? 0 : sum_of(index, state);
  if (!at) return {{raw(piece, Known::opaque)}};
  const std::int64_t size = static_cast<std::int64_t>(value->items.size()), item = *at < 0 ? size + *at : *at;
  return {{item >= 0 && item < size ? value->items[static_cast<std::size_t>(item)] : ShellText()}};
}

ShellText ShellExpansion::operated(const ShellPiece& piece, ShellText text, ShellState& state) {
  const std::string& op = piece.behind.empty() ? piece.operation : piece.behind;
  const auto argument = [&](std::size_t at) {
    return at < piece.arguments.size() ? joined(piece.arguments[at], state) : ShellText();
  };
  const bool empty = is_unset(text) || (op[0] == ':' && text.empty());
  if (op == ":-" || op == "-") return empty ? argument(0) : text;
  if (op == ":=" || op == "=") {
    if (!empty) return text;
    ShellText fallback = argument(0);
    assign(piece.text, fallback, state);
    return fallback;
  }
  if (op == ":+" || op == "+") return empty ? ShellText() : argument(0);
  if (op == ":?" || op == "?" || op == "@") return text;
  if (!is_known(text)) return raw(piece, is_unset(text) ? Known::unset : Known::opaque);
  const ShellText pattern = argument(0);
  if (op[0] == '#' || op[0] == '%') return removed(text, pattern, op);
  if (op == "/" || op == "//") return replaced(text, pattern, argument(1), op == "//");
  if (op == "^^" || op == "^" || op == ",," || op == ",") {
    for (std::size_t i = 0; i < (op.size() == 2 ? text.size() : std::min<std::size_t>(1, text.size())); ++i) {
      const auto c = static_cast<unsigned char>(text[i].c);
      text[i].c = static_cast<char>(op[0] == '^' ? std::toupper(c) : std::tolower(c));
    }
    return text;
  }
  if (op == ":") {
    const auto from = sum_of(plain(pattern), state);
    const auto length = piece.arguments.size() > 1 ? sum_of(plain(argument(1)), state) : std::optional<std::int64_t>();
    if (!from || (piece.arguments.size() > 1 && !length)) return raw(piece, Known::opaque);
    const auto size = static_cast<std::int64_t>(text.size());
    const std::int64_t begin = std::clamp<std::int64_t>(*from < 0 ? size + *from : *from, 0, size);
    const std::int64_t end =
        !length ? size
                : std::clamp<std::int64_t>(*length < 0 ? size + *length : begin + std::min(*length, size), begin, size);
    return {text.begin() + begin, text.begin() + end};
  }
  return raw(piece, Known::opaque);
}

ShellExpansion::Parts ShellExpansion::parts(const ShellPiece& piece, ShellState& state) {
  if (piece.kind == ShellPiece::Kind::opaque) return {{raw(piece, Known::opaque)}};
  if (piece.kind == ShellPiece::Kind::text) {
    ShellText text;
    ShellChar where = place_of(piece.place);
    where.quoted = piece.quoted;
    for (const char c : piece.text) {
      where.c = c;
      text.push_back(where);
      ++where.column;
    }
    return {{std::move(text)}};
  }
  if (piece.kind == ShellPiece::Kind::command) return {{output_of(piece, state)}};
  if (piece.kind == ShellPiece::Kind::arithmetic) {
    const ShellText expression = joined(piece.arguments.at(0), state);
    if (!is_known(expression)) return {{raw(piece, Known::opaque)}};
    const auto value = sum_of(plain(expression), state);
    return {{value ? text_at(std::to_string(*value), place_of(piece.place)) : raw(piece, Known::opaque)}};
  }
  Parts made = named(piece, state);
  const bool keys = piece.operation == "indirect" || piece.operation == "names";
  if (piece.operation == "indirect" && !piece.behind.empty()) {
    for (ShellText& text : made.texts) text = operated(piece, std::move(text), state);
    return made;
  }
  if (piece.operation.empty() || keys) return made;
  if (piece.operation == "length") {
    if (!made.several && !is_known(made.texts.at(0))) return {{raw(piece, Known::opaque)}};
    const std::size_t length = made.several ? made.texts.size() : made.texts.at(0).size();
    return {{text_at(std::to_string(length), place_of(piece.place))}};
  }
  if (made.several && made.texts.empty()) return {{operated(piece, {}, state)}};
  const bool slice = made.several && piece.operation == ":";
  if (slice) {
    const auto from = sum_of(plain(joined(piece.arguments.at(0), state)), state);
    const std::size_t skip =
        std::min<std::size_t>(made.texts.size(), static_cast<std::size_t>(std::max<std::int64_t>(0, from.value_or(0))) -
                                                     (piece.text == "@" && from.value_or(0) > 0 ? 1 : 0));
    made.texts.erase(made.texts.begin(), made.texts.begin() + static_cast<std::ptrdiff_t>(skip));
    return made;
  }
  const bool whole = piece.operation.find('-') != std::string::npos || piece.operation.find('+') != std::string::npos;
  if (made.several && whole)
    return piece.operation.find('+') != std::string::npos ? Parts{{operated(piece, made.texts[0], state)}} : made;
  for (ShellText& text : made.texts) text = operated(piece, std::move(text), state);
  return made;
}

ShellText ShellExpansion::joined(const ShellWord& word, ShellState& state) {
  if (++depth_ > 64) throw sim::UserError(word.place, "", "nests expansions deeper than 64");
  ShellText all;
  for (const ShellPiece& piece : word.pieces) {
    const Parts made = parts(piece, state);
    for (std::size_t i = 0; i < made.texts.size(); ++i) {
      if (i > 0) append(all, between(piece, state), piece.quoted);
      append(all, made.texts[i], piece.quoted);
      spend(made.texts[i].size() + 1, piece.place);
      spend(all.size(), piece.place);
    }
  }
  --depth_;
  return all;
}

std::vector<ShellText> ShellExpansion::fields(const ShellWord& word, ShellState& state) {
  if (++depth_ > 64) throw sim::UserError(word.place, "", "nests expansions deeper than 64");
  std::vector<ShellText> all;
  ShellText field;
  bool there = false;
  const auto flush = [&] {
    if (there || !field.empty()) all.push_back(std::move(field));
    field.clear();
    there = false;
  };
  for (const ShellPiece& piece : word.pieces) {
    const bool literal = piece.kind == ShellPiece::Kind::text;
    Parts made = parts(piece, state);
    if (literal && word.pieces.size() == 1 && !piece.quoted && piece.text.find('{') != std::string::npos) {
      for (const std::string& each : braces(piece.text)) all.push_back(text_at(each, place_of(piece.place)));
      continue;
    }
    const bool star = is_star(piece);
    for (std::size_t i = 0; i < made.texts.size(); ++i) {
      spend(made.texts[i].size() + 1, piece.place);
      if (i > 0 && (!piece.quoted || !star)) flush();
      if (i > 0 && piece.quoted && star) append(field, between(piece, state), true);
      if (literal || piece.quoted) {
        append(field, made.texts[i], piece.quoted);
        there = there || piece.quoted;
        spend(field.size(), piece.place);
        continue;
      }
      for (const ShellChar& c : made.texts[i]) {
        if (is_blank(c.c) && c.known == Known::known)
          flush();
        else
          field.push_back(c);
      }
    }
  }
  flush();
  --depth_;
  return all;
}

std::vector<ShellText> ShellExpansion::fields(const std::vector<ShellWord>& words, ShellState& state) {
  std::vector<ShellText> all;
  for (const ShellWord& word : words) {
    for (ShellText& field : fields(word, state)) all.push_back(std::move(field));
  }
  return all;
}

}  // namespace orrery::tools
