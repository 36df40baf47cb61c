// `orrery list KIND`: what there is to name in a scenario or on the command line, and what each is, one line each.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <iostream>
#include <memory>
#include <utility>

#include "scenarios/schema.h"
#include "sim/error.h"
#include "sim/settings.h"
#include "tools/command_options.h"
#include "tools/commands/commands.h"
#include "tools/report/text.h"
#include "tools/shipped_names.h"

namespace orrery::tools {

namespace {

/// Of names that ship, and the keys of the language.
const std::vector<std::string>& kinds() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> names = shipped_kinds();
    names.emplace_back("keys");
    return names;
  }();
  return all;
}

void write_keys() {
  std::size_t width = 0;
  for (const scenarios::Key& key : scenarios::schema()) width = std::max(width, key.path.size());
  std::cout << "Keys of the scenario language; `orrery help KEY` says more, `orrery --help` lists the commands.\n";
  for (const scenarios::Key& key : scenarios::schema()) {
    std::string head = "  " + key.path;
    head.resize(width + 3, ' ');
    std::cout << wrapped(key.meaning, head + ' ', std::string(width + 4, ' '));
  }
}

/// gpus for devices, model for models.
std::string kind_meant(const std::string& word) {
  constexpr std::array kSynonyms{std::pair("gpu", "devices"),        std::pair("gpus", "devices"),
                                 std::pair("cluster", "fabrics"),    std::pair("clusters", "fabrics"),
                                 std::pair("network", "fabrics"),    std::pair("networks", "fabrics"),
                                 std::pair("framework", "software"), std::pair("frameworks", "software")};
  for (const auto& [synonym, kind] : kSynonyms) {
    if (word == synonym) return kind;
  }
  const bool several = std::find(kinds().begin(), kinds().end(), word + "s") != kinds().end();
  return several ? word + "s" : word;
}

/// What ships with that in its name, of every kind.
void write_named(const std::string& part) {
  std::string word = part;
  std::transform(word.begin(), word.end(), word.begin(), [](unsigned char c) { return std::tolower(c); });
  std::vector<std::pair<std::string, ShippedName>> found;
  std::size_t width = 0;
  for (const std::string& kind : kinds()) {
    if (kind == "keys") continue;
    for (ShippedName& line : shipped_names(kind)) {
      if (line.name.find(word) == std::string::npos) continue;
      width = std::max(width, line.name.size());
      found.emplace_back(kind, std::move(line));
    }
  }
  if (found.empty()) {
    const std::string near = sim::nearest_word(part, kinds());
    throw sim::UserError(fmt::format("orrery: list: kind: got {}, expected one of {}, or part of a name{}", part,
                                     fmt::join(kinds(), ", "),
                                     near.empty() ? "" : fmt::format("; did you mean {}?", near)));
  }
  for (const auto& [kind, line] : found)
    std::cout << fmt::format("{:<12} {:<{}}  {}\n", kind, line.name, width, line.about);
}

}  // namespace

Action declare_list(CommandOptions app) {
  const auto kind = std::make_shared<std::string>();
  app.add_option("kind", *kind, "what to list; or part of a name, for all that has it")
      .type_name(fmt::format("TEXT:{{{}}}", fmt::join(kinds(), ",")));
  return [kind] {
    if (kind->empty()) {
      std::cout << "What ships by name; `orrery list KIND` lists it:\n";
      for (const std::string& one : kinds())
        std::cout << fmt::format("  {:<12} {}\n", one,
                                 one == "keys" ? scenarios::schema().size() : shipped_names(one).size());
      return static_cast<int>(kDone);
    }
    *kind = kind_meant(*kind);
    if (std::find(kinds().begin(), kinds().end(), *kind) == kinds().end()) {
      write_named(*kind);
      return static_cast<int>(kDone);
    }
    if (*kind == "keys") {
      write_keys();
      return static_cast<int>(kDone);
    }
    const std::vector<ShippedName> lines = shipped_names(*kind);
    std::size_t width = 0;
    for (const ShippedName& line : lines) width = std::max(width, line.name.size());
    for (const ShippedName& line : lines) std::cout << fmt::format("{:<{}}  {}\n", line.name, width, line.about);
    return static_cast<int>(kDone);
  };
}

}  // namespace orrery::tools
