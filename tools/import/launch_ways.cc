// Ways of a launch beside each other (launch_ways.h).
#include "tools/import/launch_ways.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <set>
#include <sstream>
#include <vector>

namespace orrery::tools {

using sim::UserError;

namespace {

/// A way through the script and what it makes, or why it makes nothing.
struct Way {
  const LaunchLine* line = nullptr;
  std::optional<Draft> draft;
  std::string outcome;  // the scenario, or the complaint
};

}  // namespace

const ShellDecision* parting(const LaunchLine& a, const LaunchLine& b) {
  for (const ShellDecision& each : a.decisions) {
    const bool shared = std::any_of(b.decisions.begin(), b.decisions.end(), [&](const ShellDecision& other) {
      return other.place.line == each.place.line && other.place.column == each.place.column &&
             other.condition == each.condition && other.holds == each.holds;
    });
    if (!shared) return &each;
  }
  return b.decisions.empty() ? nullptr : &b.decisions.front();
}

std::string difference(const std::string& a, const std::string& b) {
  std::istringstream one(a), two(b);
  std::set<std::string> left, right;
  for (std::string line; std::getline(one, line);) left.insert(line);
  for (std::string line; std::getline(two, line);) right.insert(line);
  std::vector<std::string> differing;
  const auto add = [&](const std::set<std::string>& these, const std::set<std::string>& those) {
    for (const std::string& line : these) {
      const std::size_t begin = line.find_first_not_of(' ');
      if (!those.contains(line) && begin != std::string::npos && differing.size() < 4)
        differing.push_back(line.substr(begin));
    }
  };
  add(left, right);
  add(right, left);
  return fmt::format("{}", fmt::join(differing, "; "));
}

namespace {
/// The variables that a text of the script's asks: "$A", "${A:-1}".
std::vector<std::string> names_in(const std::string& text) {
  std::vector<std::string> names;
  for (std::size_t at = text.find('$'); at != std::string::npos; at = text.find('$', at + 1)) {
    std::size_t begin = at + 1 + (text.compare(at, 2, "${") == 0 ? 1 : 0), end = begin;
    while (end < text.size() && (std::isalnum(static_cast<unsigned char>(text[end])) != 0 || text[end] == '_')) ++end;
    if (end > begin) names.push_back(text.substr(begin, end - begin));
  }
  return names;
}
}  // namespace

std::string how_to_say(const ShellDecision& decision) {
  std::vector<std::string> ways;
  for (const std::string& name : decision.variables) {
    if (name.starts_with("$")) continue;
    const bool argument = name == "#" || std::isdigit(static_cast<unsigned char>(name[0])) != 0;
    ways.push_back(argument ? "-- ARGUMENT... behind the file" : fmt::format("--env {}=VALUE", name));
  }
  // A variable that is assigned what nobody knows, as the status of a command: what the user says of it holds.
  if (ways.empty()) {
    for (const std::string& name : names_in(decision.condition)) {
      if (std::isdigit(static_cast<unsigned char>(name[0])) == 0) ways.push_back(fmt::format("--env {}=VALUE", name));
    }
  }
  return ways.empty() ? "the branch that is meant alone in the file" : fmt::format("{}", fmt::join(ways, " and "));
}

std::string how_to_give(const std::string& text, const std::string& key) {
  std::string how;
  for (const std::string& name : names_in(text)) {
    const bool argument = std::isdigit(static_cast<unsigned char>(name[0])) != 0;
    how += (how.empty() ? "" : " ") +
           (argument ? "-- ARGUMENT... behind the file for $" + name : fmt::format("--env {}=VALUE", name));
  }
  if (!key.empty()) how += fmt::format("{}--set {}=VALUE", how.empty() ? "" : ", or ", key);
  return fmt::format("got {}, which the script does not assign, expected its value: {}", text,
                     how.empty() ? "written in the script" : how);
}

bool as_usual(const LaunchLine& line) {
  return std::all_of(line.decisions.begin(), line.decisions.end(),
                     [](const ShellDecision& each) { return !each.usual || *each.usual == each.holds; });
}

Draft draft_of_ways(const LaunchScript& script, const std::function<Draft(std::size_t way)>& draft_of) {
  std::vector<Way> ways;
  std::optional<UserError> complaint;
  for (std::size_t i = 0; i < script.ways.size(); ++i) {
    Way way{&script.ways[i], {}, {}};
    try {
      way.draft = draft_of(i);
      way.outcome = way.draft->values();
    } catch (const UserError& error) {
      if (!complaint) complaint = error;
      way.outcome = error.what();
    }
    ways.push_back(std::move(way));
  }
  const bool alike =
      std::all_of(ways.begin(), ways.end(), [&](const Way& way) { return way.outcome == ways[0].outcome; });
  const std::vector<Way> all = ways;
  std::erase_if(ways, [&](const Way& way) { return !alike && !as_usual(*way.line); });
  if (ways.empty()) ways = all;
  for (const Way& way : ways) {
    if (way.outcome == ways[0].outcome) continue;
    const ShellDecision* at = parting(*ways[0].line, *way.line);
    if (at == nullptr) break;
    throw UserError(at->place, "if",
                    fmt::format("{} is not decided by the script, and the scenario depends on it ({}), expected {}",
                                at->condition, difference(ways[0].outcome, way.outcome), how_to_say(*at)));
  }
  if (!ways[0].draft) throw *complaint;
  Draft draft = *std::move(ways[0].draft);
  if (!alike) {
    for (const Way& way : all) {
      const ShellDecision* at = parting(*ways[0].line, *way.line);
      if (way.outcome == ways[0].outcome || at == nullptr) continue;
      draft.first(fmt::format("line {}: {}: taken as if what is not assigned were unset; otherwise {}; {} says it",
                              at->place.line, at->condition, difference(way.outcome, ways[0].outcome),
                              how_to_say(*at)));
      break;
    }
  }
  for (const std::string& what : script.remarks) draft.ignored(what);
  if (!script.unset.empty())
    draft.assumed("not assigned in the script, taken as unset",
                  fmt::format("{}; --env NAME=VALUE says it", fmt::join(script.unset, ", ")));
  return draft;
}

}  // namespace orrery::tools
