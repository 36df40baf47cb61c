// `orrery help`: a key of the scenario language, or a column that a command writes; without a word, a page.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "scenarios/schema.h"
#include "sim/error.h"
#include "tools/columns.h"
#include "tools/command_options.h"
#include "tools/commands/commands.h"
#include "tools/report/output.h"
#include "tools/report/text.h"
#include "tools/shipped_names.h"

namespace orrery::tools {

namespace {

/// A page: the sections of a scenario, and where to go on.
void write_sections() {
  std::cout << "A scenario is a mapping of these keys; those with keys below are sections:\n";
  for (const scenarios::Key& key : scenarios::schema()) {
    if (key.path.find('.') != std::string::npos || key.path.find('[') != std::string::npos) continue;
    std::string head = "  " + key.path;
    head.resize(16, ' ');
    const std::string first = key.meaning.substr(0, key.meaning.find_first_of(".:;"));
    std::cout << wrapped(first, head + ' ', std::string(17, ' '));
  }
  std::cout << "orrery help KEY says what a key means (parallelism.tensor, tensor, tp, zero3), and what a column says "
               "(mfu_pct)\nor the name of what ships (h100); orrery list keys lists all keys, orrery list what ships, "
               "orrery --help the commands.\n";
}

std::string about_columns(const std::string& word) {
  std::string text;
  for (const ColumnDoc& column : columns()) {
    if (column.name != word) continue;
    text += fmt::format("{} (column): {}\n", column.name, column.meaning);
    if (!column.unit.empty()) text += fmt::format("  unit: {}\n", column.unit);
    text += fmt::format("  written by: {}\n", fmt::join(column.commands, ", "));
  }
  return text;
}

std::string about_command(const std::string& word) {
  for (const Command& command : commands()) {
    if (command.name == word)
      return fmt::format("{0} (command): {1}; orrery {0} --help says more\n", command.name, command.summary);
  }
  return {};
}

/// What is known about a word: as a key, a command or a column, else as the name of what ships; the nearest key is
/// named when there is nothing.
std::string about(const std::string& word) {
  std::string found = about_command(word) + about_columns(word);
  if (found.empty() && word.find('.') == std::string::npos) found = about_columns(word + "_pct");  // mfu, hfu
  try {
    return scenarios::help(word) + found;
  } catch (const sim::UserError&) {
    if (found.empty()) found = about_shipped(word);
    if (found.empty()) throw;
  }
  return found;
}

nlohmann::ordered_json key_json(const scenarios::Key& key) {
  nlohmann::ordered_json json{{"key", key.path}, {"type", key.type}};
  json["unit"] = key.unit.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(key.unit);
  json["required"] = key.fallback.empty();
  const bool has_default = !key.fallback.empty() && key.fallback != "-";
  json["default"] = has_default ? nlohmann::ordered_json(key.fallback) : nlohmann::ordered_json();
  json["choices"] = key.choices;
  const auto bound = [](std::string_view text) {
    return text.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(text);
  };
  json["least"] = bound(key.bounds.low);
  json["most"] = bound(key.bounds.high);
  json["meaning"] = key.meaning;
  return json;
}

nlohmann::ordered_json all_json(const std::string& word) {
  nlohmann::ordered_json json{{"keys", nlohmann::ordered_json::array()}, {"columns", nlohmann::ordered_json::array()}};
  for (const scenarios::Key& key : scenarios::schema()) {
    if (word.empty() || key.path == word || key.path.ends_with("." + word)) json["keys"].push_back(key_json(key));
  }
  for (const ColumnDoc& column : columns()) {
    if (!word.empty() && column.name != word) continue;
    const nlohmann::ordered_json unit =
        column.unit.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(column.unit);
    json["columns"].push_back({{"column", column.name},
                               {"unit", unit},
                               {"meaning", column.meaning},
                               {"commands", std::vector<std::string>(column.commands.begin(), column.commands.end())}});
  }
  return json;
}

}  // namespace

Action declare_help(CommandOptions app) {
  const auto key = std::make_shared<std::string>(), json = std::make_shared<std::string>();
  app.add_option(
      "key", *key,
      "dotted path, as in parallelism.tensor; its last part; a column, as in mfu_pct; a name that ships, as in "
      "nemo-26.08");
  app.add_option("--json", *json, "write keys and columns as JSON to FILE, or to standard output for -")
      .type_name("FILE");
  return [key, json] {
    const std::string text = key->empty() ? "" : about(*key);  // refuses unknown words first
    if (!json->empty()) {
      write_output(*json, [&](std::ostream& out) { out << all_json(*key).dump(2) << '\n'; });
      if (*json == "-") return static_cast<int>(kDone);
    }
    if (key->empty()) {
      write_sections();
    } else {
      std::cout << text;
    }
    return static_cast<int>(kDone);
  };
}

}  // namespace orrery::tools
