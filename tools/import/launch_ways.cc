// Ways of a launch beside each other (launch_ways.h).
#include "tools/import/launch_ways.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <sstream>
#include <vector>

namespace orrery::tools {

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

std::string how_to_say(const ShellDecision& decision) {
  std::vector<std::string> ways;
  for (const std::string& name : decision.variables) {
    if (name.starts_with("$")) continue;
    const bool argument = name == "#" || std::isdigit(static_cast<unsigned char>(name[0])) != 0;
    ways.push_back(argument ? "-- ARGUMENT... behind the file" : fmt::format("--env {}=VALUE", name));
  }
  return ways.empty() ? "the branch that is meant alone in the file" : fmt::format("{}", fmt::join(ways, " and "));
}

std::string how_to_give(const std::string& text, const std::string& key) {
  std::string how;
  for (std::size_t at = text.find('$'); at != std::string::npos; at = text.find('$', at + 1)) {
    std::size_t begin = at + 1 + (text.compare(at, 2, "${") == 0 ? 1 : 0), end = begin;
    while (end < text.size() && (std::isalnum(static_cast<unsigned char>(text[end])) != 0 || text[end] == '_')) ++end;
    const std::string name = text.substr(begin, end - begin);
    if (name.empty()) continue;
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

}  // namespace orrery::tools
