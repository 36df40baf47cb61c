// Keys without effect, by leaving each out in turn. See idle_keys.h.
#include "tools/import/idle_keys.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "sim/error.h"

namespace orrery::tools {

using sim::Settings;

namespace {

bool is_of_a_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-'; }

/// Whether a remark holds the name as a word of its own; a short and plain one ("bf16") as one of those that it is of.
bool holds_name(const std::string& remark, const std::string& name) {
  constexpr std::size_t kShort = 8;
  const bool plain = name.size() < kShort && name.find_first_of("_.-") == std::string::npos;
  for (std::size_t at = remark.find(name); at != std::string::npos; at = remark.find(name, at + 1)) {
    const std::size_t end = at + name.size();
    const bool begins = at == 0 || !is_of_a_name(remark[at - 1]),
               ends = end == remark.size() || !is_of_a_name(remark[end]);
    const std::string ahead = at < 2 ? "" : remark.substr(at - 2, 2);
    if (begins && ends && (!plain || at == 0 || ahead == ", ")) return true;
    if (ends && ahead == "--") return true;
  }
  return false;
}

bool is_named(const Draft& draft, const SaidKey& key) {
  const auto by_one = [&](const std::vector<std::string>& remarks) {
    return std::any_of(remarks.begin(), remarks.end(), [&](const std::string& remark) {
      return std::any_of(key.names.begin(), key.names.end(),
                         [&](const std::string& name) { return holds_name(remark, name); });
    });
  };
  return by_one(draft.ignored()) || by_one(draft.assumed());
}

using Path = std::vector<std::string>;

void collect_leaves(const Settings& node, Path& path, std::vector<std::pair<Path, const Settings*>>& leaves) {
  if (!node.is_mapping()) {
    if (!path.empty()) leaves.emplace_back(path, &node);
    return;
  }
  for (const auto& [key, member] : node.members()) {
    if (key.starts_with("_") && key.ends_with("_")) continue;  // what made an object of Python's, no key of the file
    path.push_back(key);
    collect_leaves(member, path, leaves);
    path.pop_back();
  }
}

Settings without_leaf(const Settings& node, const Path& path, std::size_t depth) {
  Settings rest = Settings::mapping(node.place(), node.path());
  for (const auto& [key, member] : node.members()) {
    if (key != path[depth])
      rest.set(key, member);
    else if (depth + 1 < path.size())
      rest.set(key, without_leaf(member, path, depth + 1));
  }
  return rest;
}

}  // namespace

void tell_idle(Draft& draft, const std::vector<SaidKey>& said, const std::function<Draft(std::size_t i)>& without) {
  const std::string values = draft.values();
  std::vector<std::string> idle;
  for (std::size_t i = 0; i < said.size(); ++i) {
    if (is_named(draft, said[i])) continue;
    try {
      if (without(i).values() == values) idle.push_back(said[i].shown);
    } catch (const sim::UserError&) {
      continue;  // it has to be there
    }
  }
  if (!idle.empty())
    draft.ignored(fmt::format("{}", fmt::join(idle, ", ")),
                  "the scenario is the same without: a default, or nothing that it acts on is here");
}

Draft tell_idle_keys(const Settings& document, const std::function<Draft(const Settings&)>& import) {
  constexpr std::size_t kShortest = 8;  // of a key whose name alone, without its sections, says which is meant
  Draft draft = import(document);
  std::vector<std::pair<Path, const Settings*>> leaves;
  Path path;
  collect_leaves(document, path, leaves);
  std::vector<SaidKey> said;
  for (const auto& [keys, value] : leaves) {
    SaidKey key{{fmt::format("{}", fmt::join(keys, "."))}, ""};
    key.shown = key.names[0];
    if (value->is_scalar()) key.shown += " = " + value->text();
    if (keys.back().size() >= kShortest) key.names.push_back(keys.back());
    // A section that is named whole names its keys.
    for (std::size_t sections = 2; sections < keys.size(); ++sections)
      key.names.push_back(
          fmt::format("{}", fmt::join(keys.begin(), keys.begin() + static_cast<std::ptrdiff_t>(sections), ".")));
    said.push_back(std::move(key));
  }
  tell_idle(draft, said, [&](std::size_t i) { return import(without_leaf(document, leaves[i].first, 0)); });
  return draft;
}

}  // namespace orrery::tools
