// `orrery import primus`: an experiment of AMD's Primus (YAML): the name of a model's file and Megatron-LM's arguments
// with underscores in place of dashes, over which the environment may be laid ("${PRIMUS_TP:8}"). A model that does not
// ship is read from its file in the tree around the experiment (primus/configs/models/megatron), with those that it
// extends, and so is what the experiment's trainer has by default (primus/configs/modules/megatron). Left out:
// experiments of its other frameworks.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <set>

#include "scenarios/scenario.h"
#include "sim/error.h"
#include "tools/import/idle_keys.h"
#include "tools/import/import.h"
#include "tools/import/known_recipes.h"
#include "tools/import/megatron_flags.h"
#include "tools/import/sections.h"

namespace orrery::tools {

using sim::Settings;

namespace {

/// Each "${NAME:default}" as its default, which is remarked on.
std::string with_defaults(const Settings& value, std::vector<std::string>& defaults) {
  const std::string& text = value.text();
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.compare(at, 2, "${") == 0 ? text.find('}', at) : std::string::npos;
    const std::size_t colon = end != std::string::npos ? text.find(':', at) : std::string::npos;
    if (colon == std::string::npos || colon > end) {
      out += text[at++];
      continue;
    }
    defaults.push_back(text.substr(at, end + 1 - at));
    out += text.substr(colon + 1, end - colon - 1);
    at = end + 1;
  }
  return out;
}

/// Of Python's arguments: numbers that stand for a flag, counts that stand for none, and what a flag says the other
/// way.
bool says_nothing(const std::string& name, const std::string& text) {
  return text == "null" || text == "None" || text == "false" || text == "False" || text.empty() ||
         (text == "0" && (name == "recompute-num-layers" || name == "sequence-parallel"));
}

void add_option(LaunchLine& line, std::string name, const Settings& value, std::vector<std::string>& defaults) {
  std::replace(name.begin(), name.end(), '_', '-');
  std::erase_if(line.options, [&](const LaunchOption& each) { return each.name == name; });
  if (name == "add-bias-linear") {
    std::erase_if(line.options, [](const LaunchOption& each) { return each.name == "disable-bias-linear"; });
    if (value.is_scalar() && value.text() == "false")
      line.options.push_back({"disable-bias-linear", {}, value.place()});
    return;
  }
  LaunchOption option{std::move(name), {}, value.place()};
  if (value.is_sequence()) {
    for (const Settings& item : value.items()) option.values.push_back(item.is_scalar() ? item.text() : "");
  } else if (value.is_scalar()) {
    const std::string text = with_defaults(value, defaults);
    if (value.is_null() || says_nothing(option.name, text)) return;
    const bool flag = text == "true" || text == "True" || (text == "1" && option.name == "sequence-parallel");
    if (!flag) option.values.push_back(text);
  } else {
    return;
  }
  line.options.push_back(std::move(option));
}

/// Options of a model's file, those that it extends first. Of these many arguments the ones that a step hangs on; the
/// others by name, with those that are off left out.
void add_model_file(const std::filesystem::path& file, int depth, LaunchLine& line, std::vector<std::string>& defaults,
                    std::set<std::string>& others_named) {
  constexpr int kDeepest = 8;
  const Settings document = read_python_yaml(file.string());
  if (!document.is_mapping()) return;
  if (depth > kDeepest) document.fail("extends files deeper than 8");
  for (const char* key : {"extends", "bases", "includes"}) {
    const Settings* others = document.find(key);
    if (others == nullptr || !others->is_sequence()) continue;
    for (const Settings& other : others->items()) {
      std::error_code none;
      const std::filesystem::path base = file.parent_path() / other.text();
      if (!std::filesystem::is_regular_file(base, none)) other.fail("is not there, expected a file beside this one");
      add_model_file(base, depth + 1, line, defaults, others_named);
    }
  }
  for (const auto& [name, value] : document.members()) {
    std::string flag = name;
    std::replace(flag.begin(), flag.end(), '_', '-');
    const bool list = name == "extends" || name == "bases" || name == "includes";
    const bool off = value.is_null() || (value.is_scalar() && (value.text() == "false" || value.text() == "null"));
    if (taken_flags().contains(flag) || flag == "add-bias-linear")
      add_option(line, name, value, defaults);
    else if (!list && !off)
      others_named.insert(name);
  }
}

/// The file that an experiment names, of a model or of a module's defaults, in the folders around it.
std::filesystem::path file_around(const std::string& experiment, const char* kind, const std::string& name) {
  std::error_code none;
  std::filesystem::path folder = std::filesystem::absolute(experiment, none).parent_path();
  for (int up = 0; up < 8 && folder.has_relative_path(); ++up, folder = folder.parent_path()) {
    const std::filesystem::path there = folder / "primus/configs" / kind / "megatron" / name;
    if (!name.empty() && std::filesystem::is_regular_file(there, none)) return there;
  }
  return {};
}

/// AMD's devices as folders of its examples name them.
std::string device_of(const std::string& file) {
  for (const char* device : {"MI300X", "MI325X", "MI350X", "MI355X"}) {
    if (file.find(device) == std::string::npos) continue;
    std::string name = device;
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
    return name;
  }
  return "";
}

Draft primus_draft(const std::string& file, const Settings& document, std::int64_t gpus,
                   const std::vector<std::string>& sets) {
  const Settings* trainer = document.is_mapping() ? document.find_path("modules.pre_trainer") : nullptr;
  if (trainer == nullptr || !trainer->is_mapping())
    throw sim::UserError({file, 1, 1}, "modules.pre_trainer", "is not there, expected an experiment of Primus");
  const std::string framework = trainer->get_text("framework", "megatron");
  if (framework != "megatron")
    trainer->at("framework")
        .fail(fmt::format("got {}, expected megatron: Primus's other frameworks are not imported", framework));
  const Settings* named = trainer->find("model");
  const std::string written = named != nullptr && named->is_scalar() ? named->text() : "";
  LaunchLine line;
  line.place = {file, 1, 1};
  std::vector<std::string> defaults, other;
  const std::string meant = named != nullptr && named->is_scalar() ? with_defaults(*named, defaults) : "";
  const std::string model = model_of_recipe(std::filesystem::path(meant).stem().string());
  const std::filesystem::path own = model.empty() ? file_around(file, "models", meant) : std::filesystem::path();
  const Settings* config = trainer->find("config");
  const bool says = config != nullptr && config->is_scalar();
  const std::filesystem::path base = file_around(file, "modules", says ? with_defaults(*config, defaults) : "");
  std::set<std::string> unread;
  if (!base.empty()) add_model_file(base, 0, line, defaults, unread);
  if (base.empty()) line.options.push_back({"bf16", {}, line.place});  // primus/configs/modules/megatron: all have it
  if (!own.empty()) add_model_file(own, 0, line, defaults, unread);
  if (const Settings* overrides = trainer->find("overrides"); overrides != nullptr && overrides->is_mapping()) {
    for (const auto& [name, value] : overrides->members()) add_option(line, name, value, defaults);
  }
  line.options.push_back({"world-size", {std::to_string(gpus)}, {file, 1, 1}});
  Draft draft = import_megatron_over(line, model, sets);
  if (base.empty())
    draft.assumed("what the experiment does not override",
                  "bf16, as Primus's trainers have it, the rest as Megatron-LM has it: the file of modules.pre_trainer."
                  "config is not there");
  else
    draft.assumed("what the experiment does not override", fmt::format("as in {}", base.filename().string()));
  if (!own.empty()) draft.assumed("model", fmt::format("{} and the files that it extends", own.filename().string()));
  if (model.empty() && !draft.has("model.layers") && !draft.has("model.blocks"))
    throw sim::UserError({file, 1, 1}, "model",
                         fmt::format("got {}, which does not ship, expected --set model=NAME", written));
  draft.forget("cluster.device");
  draft.forget("software");
  const std::string device = device_of(file);
  draft.set("cluster.device", device.empty() ? std::string("mi300x") : device);
  if (gpus > 8) draft.set("cluster.fabric", std::string("amd-400g-rail"));
  // What goes with the options, whose software is another.
  const bool filled = draft.document().find_path("software.pads_vocabulary") != nullptr,
             fused = draft.document().find_path("software.recipe.loss") != nullptr,
             whole = draft.document().find_path("software.features") != nullptr;
  const Settings* graphs = draft.document().find_path("software.host.graphs");
  const std::string replayed = graphs != nullptr ? graphs->text() : "";
  draft.set("software", std::string("primus-2026"));
  if (filled) draft.apply("software.pads_vocabulary=false");
  if (fused) draft.apply("software.recipe.loss=fused");
  if (whole) draft.apply("software.features=[cuda-graphs]");
  if (!replayed.empty()) draft.apply("software.graphs=" + replayed);
  draft.assumed("cluster",
                fmt::format("{} {} on amd-400g-rail; --gpus N, --set cluster.device=NAME for another machine", gpus,
                            device.empty() ? "MI300X" : device + ", by the file's path,"));
  draft.assumed("software", "primus-2026; --set software=NAME for another generation");
  if (!defaults.empty())
    draft.assumed("variables of the environment", fmt::format("their defaults: {}", fmt::join(defaults, ", ")));
  for (const auto& [name, value] : trainer->members()) {
    const bool read =
        name == "framework" || name == "model" || name == "overrides" || (name == "config" && !base.empty());
    if (!read) other.push_back("modules.pre_trainer." + name);
  }
  for (const auto& [name, value] : document.at("modules").members()) {
    if (name != "pre_trainer") other.push_back("modules." + name);
  }
  for (const auto& [name, value] : document.members()) {
    if (name != "modules") other.push_back(name);
  }
  if (!unread.empty())
    draft.ignored(fmt::format("{}", fmt::join(unread, ", ")),
                  "of the files of defaults and of the model, not among the arguments that a step hangs on here");
  if (!other.empty())
    draft.ignored(fmt::format("{}", fmt::join(other, ", ")),
                  "names and files of the experiment; what a file sets beside is not read");
  return draft;
}

}  // namespace

Draft import_primus(const std::string& file, std::int64_t gpus, const std::vector<std::string>& sets) {
  read_text(file);
  return tell_idle_keys(read_python_yaml(file),
                        [&](const Settings& document) { return primus_draft(file, document, gpus, sets); });
}

}  // namespace orrery::tools
