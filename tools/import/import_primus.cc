// `orrery import primus`: an experiment of AMD's Primus (YAML): the name of a model's file and Megatron-LM's arguments
// with underscores in place of dashes, over which the environment may be laid ("${PRIMUS_TP:8}"). Left out: experiments
// of its other frameworks, and what the model's own file changes beside sizes.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "scenarios/scenario.h"
#include "sim/error.h"
#include "tools/import/import.h"
#include "tools/import/known_recipes.h"

namespace orrery::tools {

using sim::Settings;

namespace {

/// "${NAME:default}" as its default, which is remarked on.
std::string with_defaults(const Settings& value, std::vector<std::string>& defaults) {
  const std::string& text = value.text();
  if (!text.starts_with("${") || !text.ends_with("}")) return text;
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos) return text;
  defaults.push_back(text);
  return text.substr(colon + 1, text.size() - colon - 2);
}

void add_option(LaunchLine& line, std::string name, const Settings& value, std::vector<std::string>& defaults) {
  std::replace(name.begin(), name.end(), '_', '-');
  LaunchOption option{std::move(name), {}, value.place()};
  if (value.is_sequence()) {
    for (const Settings& item : value.items()) option.values.push_back(item.is_scalar() ? item.text() : "");
  } else if (value.is_scalar()) {
    const std::string text = with_defaults(value, defaults);
    if (value.is_null() || text == "null" || text == "false" || text.empty()) return;
    if (text != "true") option.values.push_back(text);
  } else {
    return;
  }
  line.options.push_back(std::move(option));
}

}  // namespace

Draft import_primus(const std::string& file, std::int64_t gpus, const std::vector<std::string>& sets) {
  read_text(file);
  const Settings document = scenarios::read_yaml(file);
  const Settings* trainer = document.is_mapping() ? document.find_path("modules.pre_trainer") : nullptr;
  if (trainer == nullptr || !trainer->is_mapping())
    throw sim::UserError({file, 1, 1}, "modules.pre_trainer", "is not there, expected an experiment of Primus");
  const std::string framework = trainer->get_text("framework", "megatron");
  if (framework != "megatron")
    trainer->at("framework")
        .fail(fmt::format("got {}, expected megatron: Primus's other frameworks are not imported", framework));
  const Settings* named = trainer->find("model");
  const std::string written = named != nullptr && named->is_scalar() ? named->text() : "";
  std::string stem = std::filesystem::path(written).stem().string();
  if (written.starts_with("${")) stem = std::filesystem::path(written.substr(written.rfind(':') + 1)).stem().string();
  const std::string model = model_of_recipe(stem);
  LaunchLine line;
  line.place = {file, 1, 1};
  std::vector<std::string> defaults, other;
  if (const Settings* overrides = trainer->find("overrides"); overrides != nullptr && overrides->is_mapping()) {
    for (const auto& [name, value] : overrides->members()) add_option(line, name, value, defaults);
  }
  line.options.push_back({"world-size", {std::to_string(gpus)}, {file, 1, 1}});
  Draft draft = import_megatron_over(line, model, sets);
  if (model.empty() && !draft.has("model.layers"))
    throw sim::UserError({file, 1, 1}, "model",
                         fmt::format("got {}, which does not ship, expected --set model=NAME", written));
  draft.forget("cluster.device");
  draft.forget("software");
  draft.set("cluster.device", std::string("mi300x"));
  if (gpus > 8) draft.set("cluster.fabric", std::string("amd-400g-rail"));
  draft.set("software", std::string("primus-2026"));
  draft.assumed(
      "cluster",
      fmt::format("{} MI300X on amd-400g-rail; --gpus N, --set cluster.device=NAME for another machine", gpus));
  draft.assumed("software", "primus-2026; --set software=NAME for another generation");
  if (!defaults.empty())
    draft.assumed("variables of the environment", fmt::format("their defaults: {}", fmt::join(defaults, ", ")));
  for (const auto& [name, value] : trainer->members()) {
    if (name != "framework" && name != "model" && name != "overrides") other.push_back("modules.pre_trainer." + name);
  }
  for (const auto& [name, value] : document.at("modules").members()) {
    if (name != "pre_trainer") other.push_back("modules." + name);
  }
  for (const auto& [name, value] : document.members()) {
    if (name != "modules") other.push_back(name);
  }
  if (!other.empty())
    draft.ignored(fmt::format("{}", fmt::join(other, ", ")),
                  "names and files of the experiment; what a file sets beside is not read");
  return draft;
}

}  // namespace orrery::tools
