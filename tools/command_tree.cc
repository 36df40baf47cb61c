// Reads the table of commands and options off CLI11's declarations; see command_tree.h.
#include "tools/command_tree.h"

#include <CLI/CLI.hpp>

#include "tools/commands/commands.h"

namespace orrery::tools {

namespace {

/// CLI11 writes the choices of IsMember behind the type: "TEXT:{folded,full}".
std::vector<std::string> choices_in(std::string& type) {
  const std::size_t open = type.find('{'), close = type.find('}');
  if (open == std::string::npos || close == std::string::npos) return {};
  std::vector<std::string> choices;
  std::string inside = type.substr(open + 1, close - open - 1);
  for (std::size_t begin = 0; begin <= inside.size();) {
    const std::size_t comma = std::min(inside.find(',', begin), inside.size());
    choices.push_back(inside.substr(begin, comma - begin));
    begin = comma + 1;
  }
  type = type.substr(0, open);
  while (!type.empty() && (type.back() == ':' || type.back() == ' ')) type.pop_back();
  return choices;
}

OptionDoc doc_of(const CLI::Option& option) {
  OptionDoc doc;
  for (const std::string& name : option.get_lnames()) doc.names.push_back("--" + name);
  for (const std::string& name : option.get_snames()) doc.names.push_back("-" + name);
  if (doc.names.empty()) doc.positional = option.get_name(true);
  doc.meaning = option.get_description();
  doc.required = option.get_required();
  doc.repeats = option.get_items_expected_max() > 1 ||
                (option.get_items_expected_max() > 0 && option.get_type_name() == "KEY=VALUE");
  if (option.get_items_expected_max() > 0) {
    doc.value = option.get_type_name();
    doc.choices = choices_in(doc.value);
    if (doc.value.empty()) doc.value = "TEXT";
  }
  return doc;
}

void add_docs(const CLI::App& app, const std::vector<std::string>& path, std::vector<CommandDoc>& docs) {
  CommandDoc doc;
  doc.path = path;
  doc.summary = app.get_description();
  for (const CLI::Option* option : app.get_options()) doc.options.push_back(doc_of(*option));
  const std::vector<const CLI::App*> below = app.get_subcommands([](const CLI::App*) { return true; });
  for (const CLI::App* sub : below) doc.subcommands.push_back(sub->get_name());
  docs.push_back(std::move(doc));
  for (const CLI::App* sub : below) {
    std::vector<std::string> deeper = path;
    deeper.push_back(sub->get_name());
    add_docs(*sub, deeper, docs);
  }
}

}  // namespace

std::string CommandDoc::name() const {
  std::string name = "orrery";
  for (const std::string& part : path) name += " " + part;
  return name;
}

std::vector<CommandDoc> command_docs() {
  CLI::App app;
  Action unused;
  declare_program(app, unused);
  std::vector<CommandDoc> docs;
  add_docs(app, {}, docs);
  return docs;
}

}  // namespace orrery::tools
