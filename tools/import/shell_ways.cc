// States of a script beside each other, and words that need no shell to be known (shell_ways.h).
#include "tools/import/shell_ways.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <set>
#include <utility>

namespace orrery::tools {

namespace {

bool same(const ShellState& a, const ShellState& b) {
  const auto equal = [](const auto& x, const auto& y) {
    return x.first == y.first && (x.second == y.second || *x.second == *y.second);
  };
  const auto run = [](const ShellRun& x, const ShellRun& y) {
    return x.words.size() == y.words.size() &&
           std::equal(x.words.begin(), x.words.end(), y.words.begin(),
                      [](const ShellField& u, const ShellField& v) { return u.text == v.text && u.known == v.known; });
  };
  return a.flow == b.flow && a.status == b.status && a.arguments == b.arguments && a.folder == b.folder &&
         a.functions == b.functions && a.output == b.output && a.output_known == b.output_known &&
         a.variables.size() == b.variables.size() && a.runs.size() == b.runs.size() &&
         std::equal(a.variables.begin(), a.variables.end(), b.variables.begin(), equal) &&
         std::equal(a.runs.begin(), a.runs.end(), b.runs.begin(), run);
}

bool decided_alike(const ShellDecision& a, const ShellDecision& b) {
  return a.place.line == b.place.line && a.place.column == b.place.column && a.holds == b.holds &&
         a.condition == b.condition;
}

}  // namespace

std::vector<ShellState> alone(ShellState state) {
  std::vector<ShellState> one;
  one.push_back(std::move(state));
  return one;
}

void merge(std::vector<ShellState>& states) {
  std::vector<ShellState> kept;
  for (ShellState& state : states) {
    const auto found =
        std::find_if(kept.begin(), kept.end(), [&](const ShellState& each) { return same(each, state); });
    if (found == kept.end()) {
      kept.push_back(std::move(state));
      continue;
    }
    std::erase_if(found->decisions, [&](const ShellDecision& decision) {
      return std::none_of(state.decisions.begin(), state.decisions.end(),
                          [&](const ShellDecision& each) { return decided_alike(decision, each); });
    });
  }
  states = std::move(kept);
}

ShellWay shell_way(ShellState state, const std::map<std::string, std::string>& environment,
                   const std::function<sim::Place(const ShellChar&)>& place) {
  ShellWay made;
  made.runs = std::move(state.runs);
  made.decisions = std::move(state.decisions);
  made.documents = std::move(state.documents);
  for (const auto& [name, value] : state.variables) {
    if (!value->array && value->items.size() == 1 && is_known(value->items[0]))
      made.variables[name] = plain(value->items[0]);
    ShellRun held;
    for (const ShellText& item : value->items) {
      ShellText word;
      const auto flush = [&] {
        if (!word.empty()) held.words.push_back({plain(word), place(word[0]), is_known(word)});
        word.clear();
      };
      for (const ShellChar& c : item) {
        if (c.known == ShellChar::Known::known && std::isspace(static_cast<unsigned char>(c.c)) != 0)
          flush();
        else
          word.push_back(c);
      }
      flush();
    }
    const bool options = std::any_of(held.words.begin(), held.words.end(),
                                     [](const ShellField& each) { return each.text.find("--") != std::string::npos; });
    if (options) made.held.push_back(std::move(held));
  }
  for (const auto& [name, value] : environment) made.variables[name] = value;
  return made;
}

std::vector<std::string> shell_names_in(const std::string& text) {
  std::vector<std::string> names;
  for (std::size_t at = text.find('$'); at != std::string::npos; at = text.find('$', at + 1)) {
    std::size_t begin = at + 1;
    if (begin < text.size() && text[begin] == '(') {
      if (text.compare(begin, 2, "((") != 0) names.push_back(text.substr(at, text.find(')', at) - at + 1));
      continue;
    }
    if (begin < text.size() && text[begin] == '{') ++begin;
    std::size_t end = begin;
    while (end < text.size() && (std::isalnum(static_cast<unsigned char>(text[end])) != 0 || text[end] == '_')) ++end;
    if (end > begin) names.push_back(text.substr(begin, end - begin));
    if (end < text.size() && end == begin && text[end] == '#') names.emplace_back("#");
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

bool changes_no_launch(const std::string& command) {
  static const std::set<std::string> kSuch{"mkdir", "sleep", "wait",  "ulimit", "trap", "umask", "shopt",  "rm",
                                           "cp",    "mv",    "touch", "chmod",  "date", "hash",  "module", "alias"};
  return kSuch.contains(command);
}

std::string path_word(const std::string& command, std::string path, const std::string& suffix) {
  if (command == "dirname") {
    path = std::filesystem::path(path).parent_path().string();
    if (path.empty()) path = ".";
  } else if (command == "basename") {
    path = std::filesystem::path(path).filename().string();
    if (!suffix.empty() && path.ends_with(suffix)) path.resize(path.size() - suffix.size());
  }
  return path;
}

std::string how_to_decide(const std::vector<ShellDecision>& decisions) {
  std::string variables;
  std::set<int> numbers;
  std::set<std::string> seen;
  for (const ShellDecision& each : decisions) {
    for (const std::string& name : each.variables) {
      const bool number = name.size() < 4 && name.find_first_not_of("0123456789") == std::string::npos;
      if (number && !name.empty())
        numbers.insert(std::stoi(name));
      else if (seen.insert(name).second)
        variables += (variables.empty() ? "" : ", ") + name;
    }
  }
  std::string how;
  for (const int number : numbers) how += fmt::format("{}${}", how.empty() ? "" : ", ", number);
  if (!how.empty()) how = "the script's arguments behind the file for " + how + ": -- ARGUMENT...";
  if (variables.empty()) return how;
  return fmt::format("{}{}--env NAME=VALUE for {}", how, how.empty() ? "" : " and ", variables);
}

std::optional<std::string> formatted_words(const std::vector<ShellText>& words, std::size_t first) {
  if (first >= words.size()) return std::nullopt;
  const std::string format = plain(words[first]);
  std::string out;
  std::size_t next = first + 1;
  do {
    const std::size_t before = next;
    for (std::size_t at = 0; at < format.size(); ++at) {
      const bool more = at + 1 < format.size();
      if (format[at] == '\\' && more && (format[at + 1] == 'n' || format[at + 1] == 't')) {
        out += format[++at] == 'n' ? '\n' : '\t';
      } else if (format[at] == '%' && more) {
        const char kind = format[++at];
        if (kind != 's' && kind != 'd' && kind != '%') return std::nullopt;
        if (kind == '%') out += '%';
        if (kind != '%' && next < words.size()) out += plain(words[next++]);
      } else {
        out += format[at];
      }
    }
    if (next == before) break;  // a format that takes no words
  } while (next < words.size());
  return out;
}

ShellText with_spaces(const std::vector<ShellText>& words, std::size_t from) {
  ShellText all;
  for (std::size_t i = from; i < words.size(); ++i) {
    if (i > from) all.push_back(text_at(" ", words[i].empty() ? ShellChar{} : words[i][0])[0]);
    all.insert(all.end(), words[i].begin(), words[i].end());
  }
  return all;
}

}  // namespace orrery::tools
