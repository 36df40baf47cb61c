// See titan_python.h. Parts that became classes are the sections and keys of the TOML that they were before
// (pytorch/torchtitan, torchtitan/config/configs.py, trainer.py and distributed/activation_checkpoint.py of August
// 2026): a policy of recomputation is activation_checkpoint.mode, a converter of the model is a name in
// model.converters with its options below quantize, an optimizer's groups are their names. Left out: what other classes
// of a trainer's components change.
#include "tools/import/titan_python.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "tools/import/import.h"
#include "tools/import/python_recipe.h"

namespace orrery::tools {

using sim::Settings;

namespace {

bool of_python(const std::string& key) { return key.starts_with("_") && key.ends_with("_"); }

/// "torchtitan.distributed.activation_checkpoint.SelectiveAC.Config" is a SelectiveAC.
std::string class_of(const Settings& value) {
  std::string target = python_target(value);
  if (target.ends_with(".Config")) target.resize(target.size() - 7);
  return target.substr(target.rfind('.') + 1);
}

/// Whether a value is a name alone, with nothing that was handed to it.
bool is_opaque(const Settings& value) {
  return value.is_mapping() && std::all_of(value.members().begin(), value.members().end(),
                                           [](const auto& each) { return of_python(each.first); });
}

class TitanSections {
 public:
  explicit TitanSections(const Settings& whole) : whole_(whole), document_(Settings::mapping(whole.place())) {}

  TitanConfig sections() {
    for (const auto& [key, value] : whole_.members()) {
      if (of_python(key)) continue;
      if (key == "model_spec")
        take_model(value);
      else if (key == "model_converters")
        take_converters(value.is_mapping() ? value.find("converters") : nullptr, false);
      else if (key == "activation_checkpoint")
        take_checkpointing(value);
      else if (key == "optimizer")
        take_optimizer_groups(value);
      else
        lay(renamed(key), value);
      if (key == "loss" && class_of(value) == "ChunkedLossWrapper" && value.find("num_chunks") == nullptr)
        set("loss.num_chunks", "8");
    }
    // SelectiveAC is what a configuration has that says nothing, and it works by operations.
    const Settings* mode = document_.find_path("activation_checkpoint.mode");
    const bool selective = mode == nullptr || (mode->is_scalar() && mode->text() == "selective");
    if (selective && document_.find_path("activation_checkpoint.selective_ac_option") == nullptr)
      set("activation_checkpoint.selective_ac_option", "op");
    return {std::move(document_), {}, {}, std::move(open_), std::move(none_)};
  }

 private:
  static std::string renamed(const std::string& key) {
    static const std::map<std::string, std::string> kSections{{"profiler", "profiling"}, {"validator", "validation"}};
    const auto found = kSections.find(key);
    return found != kSections.end() ? found->second : key;
  }
  void set(const std::string& path, std::string text) {
    document_.set_path(path, Settings::scalar(std::move(text), whole_.place(), true));
  }
  /// A value of any form at a path; what only a run can say stays open where a step hangs on it.
  void lay(const std::string& path, const Settings& value) {
    static const std::set<std::string> kWeigh{"training", "parallelism", "compile", "activation_checkpoint"};
    const bool weighs = kWeigh.contains(path.substr(0, path.find('.')));
    if (is_opaque(value)) {
      const bool bare = path.find('.') == std::string::npos && class_of(value).ends_with("Config");
      if (!weighs) set(path, python_target(value));
      if (weighs && !bare) open_.push_back(fmt::format("{} = {}", path, python_target(value)));
      return;
    }
    if (value.is_mapping()) {
      for (const auto& [key, member] : value.members())
        if (!of_python(key)) lay(path + "." + key, member);
      return;
    }
    if (value.is_null()) {
      none_.push_back(path);
      return;
    }
    document_.set_path(path, plain(value));
  }
  /// Lists as they are, with objects in them by their names.
  static Settings plain(const Settings& value) {
    if (value.is_mapping()) return Settings::scalar(python_target(value), value.place(), true);
    if (!value.is_sequence()) return value;
    Settings list = Settings::sequence(value.place());
    for (const Settings& item : value.items()) list.append(plain(item));
    return list;
  }

  /// model_registry("8B", converters=[...]) of torchtitan.models.llama3, or the ModelSpec that it returns.
  void take_model(const Settings& spec) {
    if (!spec.is_mapping()) return;
    std::string target = python_target(spec);
    const Settings* arguments = spec.find("_args_");
    if (arguments != nullptr && arguments->is_sequence() && !arguments->items().empty() &&
        arguments->items().front().is_scalar())
      document_.set_path("model.flavor", arguments->items().front());
    if (target.ends_with(".model_registry")) {
      target.resize(target.size() - 15);
      document_.set_path("model.name", Settings::scalar(target.substr(target.rfind('.') + 1), spec.place(), true));
    }
    for (const auto& [key, value] : spec.members()) {
      static const std::set<std::string> kOfClass{"model", "parallelize_fn", "pipelining_fn", "post_optimizer_build_fn",
                                                  "state_dict_adapter"};
      if (of_python(key) || kOfClass.contains(key)) continue;
      if (value.is_null())
        none_.push_back("model." + key);
      else if (key == "converters")
        take_converters(&value, true);
      else
        document_.set_path("model." + key, plain(value));
    }
  }

  /// `newer`: handed to the registry (June 2026 on), where float8 is by rows unless another way is said.
  void take_converters(const Settings* list, bool newer) {
    static const std::map<std::string, std::string> kConverters{
        {"Float8LinearConverter", "quantize.linear.float8"},
        {"MXFP8LinearConverter", "quantize.linear.mx"},
        {"NVFP4LinearConverter", "quantize.linear.nvfp4"},
        {"Float8GroupedExpertsConverter", "quantize.grouped_mm.float8"},
        {"Float8GroupedMMConverter", "quantize.grouped_mm.float8"},
        {"MXFP8GroupedExpertsConverter", "quantize.grouped_mm.mx"},
        {"MXFP8Converter", "quantize.linear.mx"},
        {"LoRAConverter", "lora"}};
    if (list == nullptr) return;
    if (!list->is_sequence()) return set("model.converters", python_target(*list));
    Settings names = Settings::sequence(list->place());
    for (const Settings& item : list->items()) {
      const auto known = kConverters.find(class_of(item));
      const std::string name = known != kConverters.end() ? known->second : python_target(item);
      names.append(Settings::scalar(name, item.place(), true));
      if (name == "quantize.linear.float8" && newer && (!item.is_mapping() || item.find("recipe_name") == nullptr))
        set(name + ".recipe_name", "rowwise");
      if (known == kConverters.end() || !item.is_mapping()) continue;
      for (const auto& [key, value] : item.members())
        if (value.is_null())
          none_.push_back(name + "." + key);
        else if (!of_python(key))
          document_.set_path(name + "." + key, plain(value));
    }
    document_.set_path("model.converters", std::move(names));
  }

  void take_checkpointing(const Settings& policy) {
    static const std::map<std::string, std::string> kModes{
        {"SelectiveAC", "selective"}, {"FullAC", "full"}, {"MemoryBudgetAC", "memory_budget"}};
    if (policy.is_null()) return set("activation_checkpoint.mode", "none");
    const auto known = kModes.find(class_of(policy));
    if (known != kModes.end()) set("activation_checkpoint.mode", known->second);
    if (known == kModes.end() && class_of(policy) != "ActivationCheckpointConfig")
      set("activation_checkpoint.mode", python_target(policy));
    if (!is_opaque(policy)) lay("activation_checkpoint", policy);
  }

  /// OptimizersContainer.Config(name=...), one of groups with a name each, or default_adamw(lr=...).
  void take_optimizer_groups(const Settings& optimizer) {
    const std::string maker = class_of(optimizer);
    if (maker.starts_with("default_")) set("optimizer.name", maker.substr(8));
    if (maker == "OptimizersInBackwardContainer") set("optimizer.early_step_in_backward", "true");
    const Settings* groups = optimizer.is_mapping() ? optimizer.find("param_groups") : nullptr;
    std::set<std::string> names;
    if (groups != nullptr && groups->is_sequence()) {
      for (const Settings& group : groups->items()) {
        const Settings* name = group.is_mapping() ? group.find("optimizer_name") : nullptr;
        if (name != nullptr && name->is_scalar()) names.insert(name->text());
      }
    }
    // Muon is of matrices, and what else there is has AdamW.
    if (names.size() > 1) names.erase("AdamW");
    if (!names.empty()) set("optimizer.name", *names.begin());
    if (names.size() > 1) open_.push_back("optimizer.param_groups = several optimizers");
    if (!optimizer.is_mapping()) return;
    for (const auto& [key, value] : optimizer.members())
      if (!of_python(key) && key != "param_groups") lay("optimizer." + key, value);
  }

  const Settings& whole_;
  Settings document_;
  std::vector<std::string> open_, none_;
};

/// "llama3_70b" of a function is the model and its flavour, where a configuration is one that another file makes.
void name_by_function(const std::string& function, Settings& document) {
  if (document.find_path("model.flavor") != nullptr) return;
  document.set_path("model.function", Settings::scalar(function, document.place(), true));
}

}  // namespace

TitanConfig read_titan_python(const std::string& file, const std::string& function) {
  PythonRecipe read = read_python_recipe(read_text(file), file, function, module_near);
  TitanConfig config = TitanSections(read.recipe).sections();
  config.remarks = std::move(read.remarks);
  config.function = read.function;
  const std::string maker = python_target(read.recipe);
  const bool called = !maker.ends_with(".Config") && !maker.ends_with("JobConfig");
  name_by_function(called ? maker.substr(maker.rfind('.') + 1) : read.function, config.document);
  if (called) config.open.push_back(fmt::format("what {} says, which is not in this file", maker));
  return config;
}

}  // namespace orrery::tools
