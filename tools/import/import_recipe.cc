// `orrery import nemo RECIPE.py` and `orrery import bridge RECIPE`: recipes of NeMo 2 (nemo_run's run.Partial of a
// trainer, a strategy and data; NVIDIA/NeMo v2.5, nemo/lightning and nemo/collections/llm) and of Megatron-Bridge
// (ConfigContainer, in Python or as the YAML that it writes; NVIDIA-NeMo/Megatron-Bridge v0.6). Both speak
// Megatron-Core's names. A recipe of theirs that is called brings its layout along (known_recipes.h). Left out: what a
// performance script of theirs sets by device, unless the file says it, and pipelines laid out by hand.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <map>
#include <numeric>
#include <set>

#include "scenarios/library.h"
#include "scenarios/scenario.h"
#include "tools/import/idle_keys.h"
#include "tools/import/import.h"
#include "tools/import/known_devices.h"
#include "tools/import/known_optimizers.h"
#include "tools/import/known_recipes.h"
#include "tools/import/known_vocabularies.h"
#include "tools/import/launch_commands.h"
#include "tools/import/megatron_flags.h"
#include "tools/import/python_recipe.h"
#include "tools/import/python_values.h"
#include "tools/import/recipe_graphs.h"
#include "tools/import/recipe_keys.h"
#include "tools/import/recipe_layout.h"
#include "tools/import/recipe_model.h"
#include "tools/import/sections.h"
#include "workloads/schedules/schedule.h"

namespace orrery::tools {

using sim::Place;
using sim::Settings;

namespace {

constexpr std::int64_t kMostRecipeRanks = 1 << 20;

/// A recipe on its way into a scenario.
struct Recipe {
  bool bridge = false;
  std::string file, function;
  Settings whole;                    // as it was read, names of objects and all
  std::string model;                 // that the user says it is of; empty: what it says itself
  std::string library;               // the recipe of theirs that it is or changes: llama3_70b; empty: none
  std::vector<std::string> unknown;  // "path = what only a run can say"
  std::vector<std::string> none;     // paths that are set to None
  std::string sizes() const { return bridge ? "model" : "model.config"; }
  std::string layout() const { return bridge ? "model" : "trainer.strategy"; }
};

/// Members without names of objects, and without None and what only a run can say, whose paths are noted.
Settings said_members(const Settings& value, const std::string& path, Recipe& recipe) {
  if (!value.is_mapping()) return value;
  Settings rest = Settings::mapping(value.place());
  for (const auto& [key, member] : value.members()) {
    if (key.starts_with("_") && key.ends_with("_")) continue;
    const std::string here = path.empty() ? key : path + "." + key;
    const bool opaque = member.is_mapping() && member.find("_target_") != nullptr &&
                        std::all_of(member.members().begin(), member.members().end(),
                                    [](const auto& each) { return each.first.starts_with("_"); });
    const std::string target = opaque ? python_target(member) : "";
    static const std::set<std::string> kTypes{"torch.float32", "torch.bfloat16", "torch.float16", "torch.float64",
                                              "torch.uint8",   "torch.float",    "torch.half"};
    if (kTypes.contains(target))
      rest.set(key, Settings::scalar(target, member.place(), true));
    else if (opaque)
      recipe.unknown.push_back(fmt::format("{} = {}", here, python_target(member)));
    else if (member.is_null())
      recipe.none.push_back(here);
    else
      rest.set(key, said_members(member, here, recipe));
  }
  return rest;
}

/// The recipe of theirs in a dotted name: llm.llama3_70b.pretrain_recipe, or a function of Megatron-Bridge, whose names
/// hold GPUs and types as well (llama3_8b_pretrain_16gpu_h100_bf16_16k_config).
std::string library_recipe(const std::string& target) {
  const std::size_t dot = target.rfind('.');
  const std::string name = target.substr(dot == std::string::npos ? 0 : dot + 1);
  if (name.starts_with("pretrain_recipe") || name.starts_with("finetune_recipe") || name == "pretrain_config") {
    if (dot == std::string::npos) return "";
    const std::string module = target.substr(0, dot);
    return module.substr(module.rfind('.') + 1);
  }
  for (const char* task : {"_pretrain", "_finetune", "_sft", "_peft"}) {
    const std::size_t at = name.find(task);
    if (at == std::string::npos) continue;
    std::string stem = name.substr(0, at);
    for (const char* length : {"_16k", "_64k", "_128k"}) {
      if (name.find(length, at) != std::string::npos) stem += length;
    }
    return stem;
  }
  return "";
}

/// The layout that a recipe of theirs brings along, as the recipe would have written it.
Settings layout_document(const RecipeLayout& layout, const Recipe& recipe) {
  Settings document = Settings::mapping({recipe.file, 1, 1});
  const auto set = [&](const std::string& path, std::int64_t value) {
    document.set_path(path, Settings::scalar(std::to_string(value), {recipe.file, 1, 1}));
  };
  const std::string at = recipe.layout() + ".";
  set(at + "tensor_model_parallel_size", layout.tensor);
  set(at + "pipeline_model_parallel_size", layout.pipeline);
  if (layout.chunks > 1) set(at + "virtual_pipeline_model_parallel_size", layout.chunks);
  set(at + "context_parallel_size", layout.context);
  if (layout.expert > 1) set(at + "expert_model_parallel_size", layout.expert);
  document.set_path(at + "sequence_parallel", Settings::scalar(layout.sequence_parallel ? "true" : "false", {}));
  // All of these recipes hide what the sharded optimizer sends.
  const std::string ddp = recipe.bridge ? "ddp." : "trainer.strategy.ddp.";
  for (const char* key : {"overlap_grad_reduce", "overlap_param_gather"})
    document.set_path(ddp + key, Settings::scalar("true", {recipe.file, 1, 1}));
  const std::string batch = recipe.bridge ? "train." : "data.";
  set(recipe.bridge ? "dataset.seq_length" : "data.seq_length", layout.seq);
  set(batch + "global_batch_size", layout.global_batch);
  set(batch + "micro_batch_size", layout.micro_batch);
  if (!recipe.bridge) {
    set("trainer.num_nodes", layout.nodes);
    set("trainer.devices", 8);
  }
  return document;
}

/// Arguments of NeMo 2's recipes, by the attribute that they end in (pretrain_recipe's and trainer's parameters).
constexpr std::pair<const char*, const char*> kArguments[] = {
    {"num_nodes", "trainer.num_nodes"},
    {"num_gpus_per_node", "trainer.devices"},
    {"max_steps", "trainer.max_steps"},
    {"tensor_parallelism", "trainer.strategy.tensor_model_parallel_size"},
    {"pipeline_parallelism", "trainer.strategy.pipeline_model_parallel_size"},
    {"virtual_pipeline_parallelism", "trainer.strategy.virtual_pipeline_model_parallel_size"},
    {"context_parallelism", "trainer.strategy.context_parallel_size"},
    {"expert_parallelism", "trainer.strategy.expert_model_parallel_size"},
    {"sequence_parallelism", "trainer.strategy.sequence_parallel"},
    {"seq_length", "data.seq_length"},
    {"global_batch_size", "data.global_batch_size"},
    {"micro_batch_size", "data.micro_batch_size"}};

void place_arguments(Settings& recipe) {
  for (const auto& [argument, path] : kArguments) {
    for (const std::string& where : {std::string(argument), std::string("trainer.") + argument}) {
      const Settings* given = recipe.find_path(where);
      if (given == nullptr || where == path) continue;
      const Settings value = *given;
      if (recipe.find_path(path) == nullptr) python_assign(recipe, path, value);
      python_assign(recipe, where, Settings::scalar("null", value.place()));
    }
  }
}

std::string known_model(const Recipe& recipe) {
  std::vector<std::string> names;
  const auto add = [&](const char* path) {
    const Settings* value = recipe.whole.find_path(path);
    if (value == nullptr) return;
    names.push_back(python_target(*value));
    const Settings* arguments = value->is_mapping() ? value->find("_args_") : nullptr;
    if (arguments != nullptr && arguments->is_sequence() && !arguments->items().empty())
      names.push_back(python_target(arguments->items().front()));
  };
  for (const char* path : {"model.config", "model", "model.version", "model.config.version", "model.hf_model_id"})
    add(path);
  for (std::string name : names) {
    if (const std::string model = model_of_recipe(name); !model.empty()) return model;
    name = name.substr(name.rfind('.') + 1);
    if (const std::string model = model_of_recipe(name); !model.empty()) return model;
  }
  const std::string model = model_of_recipe(recipe.library);
  return !model.empty() ? model : model_of_recipe(std::filesystem::path(recipe.file).stem().string());
}

/// GPUs that a name states: llama3_70b_pretrain_32gpu_h100_bf16_config.
std::int64_t gpus_in(const std::string& name) {
  const std::size_t at = name.find("gpu_");
  if (at == std::string::npos) return 0;
  const std::size_t digits = name.find_last_not_of("0123456789", at - (at > 0 ? 1 : 0));
  std::int64_t gpus = 0;
  const std::size_t begin = digits == std::string::npos ? 0 : digits + 1;
  std::from_chars(name.data() + begin, name.data() + at, gpus);
  return gpus;
}

/// The device's word in a name of that form, whether it ships or not; empty: it has none.
std::string device_stated_in(const std::string& name) {
  const std::size_t at = name.find("gpu_");
  if (at == std::string::npos || at == 0 || std::isdigit(static_cast<unsigned char>(name[at - 1])) == 0) return "";
  return name.substr(at + 4, name.find('_', at + 4) - at - 4);
}

/// What a recipe calls itself: its function, what it calls, its file.
std::string names_of(const Recipe& recipe) {
  return recipe.function + " " + python_target(recipe.whole) + " " + std::filesystem::path(recipe.file).stem().string();
}

/// `least`: GPUs that hold a replica of the model and of its experts.
std::int64_t take_recipe_cluster(Sections& config, Draft& draft, const Recipe& recipe, std::int64_t asked,
                                 std::int64_t least) {
  std::int64_t gpus = asked;
  if (recipe.bridge) {
    if (gpus == 0) gpus = gpus_in(names_of(recipe) + "_");
    if (gpus == 0) {
      gpus = (std::max<std::int64_t>(8, least) + least - 1) / least * least;
      draft.assumed("cluster.gpus", fmt::format("{}; the recipe does not say; --gpus N does", gpus));
    }
  } else {
    const std::int64_t devices = config.count({"trainer.devices"}, 8), nodes = config.count({"trainer.num_nodes"}, 1);
    const bool possible =
        devices <= kMostRecipeRanks && nodes <= kMostRecipeRanks && devices * nodes <= kMostRecipeRanks;
    if (!possible)
      config.any({"trainer.num_nodes", "trainer.devices"})
          ->fail(fmt::format("got {} nodes of {} GPUs, expected at most 1048576 GPUs", nodes, devices));
    if (gpus == 0) gpus = devices * nodes;
    draft.set("cluster.gpus_per_node", devices);
  }
  const KnownDevice* named = device_in(names_of(recipe));
  const std::string device = named != nullptr ? named->device : "h100-sxm-80gb";
  draft.set("cluster.device", device);
  draft.set("cluster.gpus", gpus);
  const std::int64_t node = named != nullptr ? named->per_node : 8;
  if (gpus > node) draft.set("cluster.fabric", std::string(usual_fabric(device)));
  if (named != nullptr) {
    draft.assumed("cluster.device", fmt::format("{}, by the recipe's name", named->device));
  } else if (const std::string stated = device_stated_in(recipe.function); !stated.empty()) {
    draft.first(
        fmt::format("cluster.device: the recipe's name says {}, which does not ship here: another stands in for "
                    "it; --set cluster.device=NAME says which",
                    stated));
  } else {
    draft.assumed("cluster.device",
                  "h100-sxm-80gb; --set cluster.device=NAME, cluster.fabric=NAME for another machine");
  }
  return gpus;
}

void take_sharding(Sections& config, Draft& draft, const Recipe& recipe, std::int64_t gpus) {
  const std::string ddp = recipe.bridge ? "ddp." : "trainer.strategy.ddp.";
  const bool sharded = config.flag({ddp + "use_distributed_optimizer", "optimizer.use_distributed_optimizer",
                                    "optim.config.use_distributed_optimizer"},
                                   true) ||
                       // Megatron-Core shares out the states of Muon by layers, whatever the flag says.
                       config.word({"optimizer.optimizer"}, "").starts_with("dist_");
  const bool fsdp =
      config.flag({ddp + "use_megatron_fsdp", ddp + "use_custom_fsdp", "dist.use_megatron_fsdp"}, false) ||
      config.word({recipe.layout() + ".fsdp"}, "") == "megatron";
  const std::string strategy = config.word({ddp + "data_parallel_sharding_strategy"}, "optim_grads_params");
  std::string kind = sharded ? "optimizer" : "none";
  if (fsdp) {
    kind = strategy == "optim_grads_params" ? "parameters"
           : strategy == "optim_grads"      ? "gradients"
           : strategy == "optim"            ? "optimizer"
                                            : "none";
  }
  draft.set("parallelism.sharding", kind);
  const std::int64_t copies = config.count({ddp + "num_distributed_optimizer_instances"}, 1);
  if (copies > 1) {
    const std::int64_t replicas =
        gpus / std::max<std::int64_t>(1, draft.document().at("parallelism").get_int("tensor", 1) *
                                             draft.document().at("parallelism").get_int("pipeline", 1));
    if (replicas % copies != 0)
      config.find(ddp + "num_distributed_optimizer_instances")
          ->fail(fmt::format("got {}, expected a divisor of the {} replicas", copies, replicas));
    draft.set("parallelism.shard_group", replicas / copies);
  }
  const auto overlaps = [&](const char* key) {
    return config.flag({std::string("comm_overlap.") + key, ddp + key}, false);
  };
  draft.set("overlap.gradients", overlaps("overlap_grad_reduce"));
  draft.set("overlap.parameters", overlaps("overlap_param_gather"));
}

/// Tensor-parallel overlap stands in the model, in comm_overlap, or in a callback of the trainer.
bool overlaps_tensor(Sections& config, const Recipe& recipe) {
  bool overlap = config.flag({"comm_overlap.tp_comm_overlap", recipe.sizes() + ".tp_comm_overlap"}, false);
  const Settings* callbacks = recipe.whole.find_path("trainer.callbacks");
  if (callbacks == nullptr || !callbacks->is_sequence()) return overlap;
  for (const Settings& callback : callbacks->items()) {
    const Settings* given = callback.is_mapping() ? callback.find("tp_comm_overlap") : nullptr;
    if (given != nullptr && given->is_scalar()) overlap = given->as_bool();
  }
  return overlap;
}

void take_layout(Sections& config, Draft& draft, const Recipe& recipe, std::int64_t asked, bool mixture) {
  const std::string at = recipe.layout() + ".", sizes = recipe.sizes() + ".";
  const auto degree = [&](const char* key) {
    const std::int64_t value = config.count({at + key, sizes + key}, 1);
    if (value > kMostRecipeRanks) config.any({at + key, sizes + key})->fail("expected at most 1048576");
    return value;
  };
  const std::int64_t tensor = degree("tensor_model_parallel_size"), stages = degree("pipeline_model_parallel_size"),
                     context = degree("context_parallel_size"), expert = degree("expert_model_parallel_size"),
                     said_chunks = degree("virtual_pipeline_model_parallel_size");
  const std::int64_t expert_tensor = config.count({at + "expert_tensor_parallel_size"}, mixture ? 0 : 1, 0);
  draft.set("parallelism.tensor", tensor);
  draft.set("parallelism.pipeline", stages);
  draft.set("parallelism.context", context);
  if (const std::string by = config.word({at + "cp_comm_type", sizes + "cp_comm_type"}, "p2p"); context > 1) {
    if (by == "a2a" || by == "all_gather" || by == "allgather")
      draft.set("parallelism.context_method", std::string(by == "a2a" ? "all_to_all" : "all_gather"));
    else if (by != "p2p")
      draft.ignored("cp_comm_type " + by, "a ring is simulated");
  }
  const std::int64_t by_hand = stages > 1 ? take_layout_by_hand(config, draft, at, stages) : 0;
  const std::int64_t chunks = by_hand > 0 ? by_hand : said_chunks;
  if (by_hand == 0) take_uneven_ends(config, draft, at, stages, stages > 1 ? chunks : 1);
  draft.set("parallelism.virtual_pipeline", stages > 1 ? chunks : 1);
  draft.set("parallelism.schedule", std::string(workloads::usual_schedule(stages > 1 ? chunks : 1).name));
  if (expert > 1) {
    draft.set("parallelism.expert", expert);
    if (expert_tensor > 0) draft.set("parallelism.expert_tensor", expert_tensor);
  }
  draft.set("parallelism.sequence_parallel", config.flag({at + "sequence_parallel"}, false) && tensor > 1);
  const bool possible = tensor * stages <= kMostRecipeRanks && tensor * stages * context <= kMostRecipeRanks;
  if (!possible)
    throw sim::UserError({recipe.file, 1, 1}, at + "pipeline_model_parallel_size",
                         "makes more than 1048576 ranks with the others, expected fewer");
  const std::int64_t replica = tensor * stages * context;
  const std::int64_t experts = std::min(kMostRecipeRanks, expert * std::max<std::int64_t>(1, expert_tensor));
  const std::int64_t least = std::min(kMostRecipeRanks, stages * std::lcm(tensor * context, mixture ? experts : 1));
  const std::int64_t gpus = take_recipe_cluster(config, draft, recipe, asked, std::max(replica, least));
  if (gpus % replica != 0) {
    throw sim::UserError({recipe.file, 1, 1}, "parallelism",
                         fmt::format("got {} GPUs, expected a multiple of tensor {} x pipeline {} x context {}; --gpus "
                                     "says another number",
                                     gpus, tensor, stages, context));
  }
  take_sharding(config, draft, recipe, gpus);
  const std::string batch = recipe.bridge ? "train." : "data.";
  const std::int64_t micro = config.count({batch + "micro_batch_size"}, recipe.bridge ? 2 : 1);
  draft.set("batch.micro", micro);
  draft.set("batch.global", config.count({batch + "global_batch_size"}, recipe.bridge ? 32 : 512));
  draft.set("overlap.tensor", overlaps_tensor(config, recipe));
  draft.set("overlap.pipeline",
            config.flag({"comm_overlap.overlap_p2p_comm", sizes + "overlap_p2p_comm"}, chunks > 1) && chunks > 1);
  if (config.flag({"comm_overlap.overlap_moe_expert_parallel_comm", sizes + "overlap_moe_expert_parallel_comm"}, false))
    draft.set("overlap.experts", true);
}

/// A type from the name of a function or of a plugin: bf16_with_fp8_current_scaling_mixed, fp8_mx; empty: it has none.
std::string named_type(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  const auto has = [&](const char* word) { return name.find(word) != std::string::npos; };
  if (has("fp8_mx") || has("fp8mx")) return "mxfp8";
  if (has("fp8_sc") || has("fp8sc")) return "fp8-blockwise";
  if (has("nvfp4")) return "nvfp4";
  if (has("mxfp8")) return "mxfp8";
  if (has("subchannel")) return "fp8-blockwise";
  if (has("fp8")) return "fp8";
  if (has("fp16")) return "fp16";
  return has("bf16") || has("megatronmixedprecision") || has("mixedprecisionconfig") ? "bf16" : "";
}

/// The type that a text handed to a function of another file names: perf_precision("fp8_cs").
std::string type_of_arguments(const Settings& call) {
  if (!call.is_mapping()) return "";
  for (const auto& [key, value] : call.members()) {
    if (key == "_target_") continue;
    if (value.is_scalar() && !named_type(value.text()).empty()) return named_type(value.text());
    if (!value.is_sequence()) continue;
    for (const Settings& item : value.items()) {
      if (item.is_scalar() && !named_type(item.text()).empty()) return named_type(item.text());
    }
  }
  return "";
}

/// The type by the name of what makes it, by what that is handed, or by the recipe's own name; whatever is not known is
/// said first, since a wrong type makes every product wrong.
std::string type_of(const std::string& name, const Settings* given, const Recipe& recipe, const std::string& at,
                    Draft& draft) {
  const std::string by_recipe = recipe.bridge ? named_type(names_of(recipe)) : "";
  const std::string by_name = given == nullptr ? "" : named_type(name);
  if (!by_name.empty()) {
    if (!by_recipe.empty() && by_recipe != by_name)
      draft.first(
          fmt::format("{} = {}: {} is taken, which the recipe's name contradicts ({})", at, name, by_name, by_recipe));
    return by_name;
  }
  if (given == nullptr) return by_recipe.empty() ? "bf16" : by_recipe;
  const std::string by_argument = type_of_arguments(*given);
  const std::string taken = !by_argument.empty() ? by_argument : !by_recipe.empty() ? by_recipe : "bf16";
  draft.first(fmt::format("{} = {}: what it makes is not in this file; {} is taken{}; --set precision=NAME for another",
                          at, name.empty() ? "(a value that only a run can say)" : name, taken,
                          !by_argument.empty() ? ", as its argument says"
                          : !by_recipe.empty() ? ", as the recipe's name says"
                                               : ""));
  return taken;
}

void take_precision(Sections& config, Draft& draft, const Recipe& recipe) {
  const std::string at = recipe.bridge ? "mixed_precision" : "trainer.plugins";
  const Settings* given = recipe.whole.find_path(at);
  std::string name = given != nullptr ? python_target(*given) : "bf16_mixed";
  if (given != nullptr && given->is_sequence() && !given->items().empty()) name = python_target(given->items().front());
  if (given != nullptr && given->is_scalar()) config.find(at);
  config.find(at + ".precision");
  // A mixed_precision lays its own over what the model says.
  const std::string sizes = recipe.sizes() + ".", from = given == nullptr ? sizes : at + ".";
  const Settings* eight = config.find(from + "fp8");
  const Settings* four = config.find(from + "fp4");
  for (const char* key : {"fp8", "fp8_recipe", "fp8_param", "fp4", "fp4_recipe"}) {
    const Settings* own = config.find(sizes + key);
    if (given != nullptr && own != nullptr)
      draft.ignored(fmt::format("{}{} = {}", sizes, key, own->is_scalar() ? own->text() : "..."),
                    at + " stands instead");
  }
  std::string type = eight == nullptr && four == nullptr ? type_of(name, given, recipe, at, draft) : "";
  if (eight != nullptr) {
    eight->as_choice({"e4m3", "hybrid"});
    const std::string way = config.word({from + "fp8_recipe"}, "delayed");
    type = way == "mxfp8" ? "mxfp8" : way == "blockwise" ? "fp8-blockwise" : "fp8";
  }
  if (four != nullptr) type = "nvfp4";
  if (const std::string stated = recipe.bridge ? named_type(names_of(recipe)) : "";
      (eight != nullptr || four != nullptr) && !stated.empty() && stated != type)
    draft.first(fmt::format("{}: {} is taken, which the recipe's name contradicts ({})", at, type, stated));
  const bool half = config.flag({at + ".fp16"}, type == "fp16" || name.find("fp16") != std::string::npos);
  const KnownDevice* named = device_in(names_of(recipe));
  const std::string_view device = named != nullptr ? named->device : "";
  const bool newer = device.starts_with("b") || device.starts_with("gb") || device.starts_with("vr");
  if ((type == "mxfp8" || type == "nvfp4") && !newer) {  // which Hopper has no arithmetic for
    draft.set("cluster.device", std::string("b200-sxm-180gb"));
    draft.assumed("cluster.device", "b200-sxm-180gb, as " + type + " needs Blackwell");
  }
  const std::string wide = half ? "fp16" : "bf16", ddp = recipe.bridge ? "ddp." : "trainer.strategy.ddp.";
  draft.set("precision.matmul", type == "bf16" ? wide : type);
  draft.set("precision.activations", wide);
  const bool fp32 = config.flag({at + ".grad_reduce_in_fp32", ddp + "grad_reduce_in_fp32"}, true);
  draft.set("precision.gradients", fp32 ? std::string("fp32") : wide);
  if (config.flag({at + ".fp8_param_gather", from + "fp8_param", ddp + "fp8_param_gather"}, false))
    draft.set("precision.parameters", std::string("fp8"));
}

void take_recomputation(Sections& config, Draft& draft, const Recipe& recipe) {
  const std::string at = recipe.sizes() + ".";
  const std::string granularity = config.word({at + "recompute_granularity"}, "none");
  const std::int64_t layers = config.count({at + "recompute_num_layers"}, 0, 0);
  if (granularity != "none" && granularity != "full" && granularity != "selective")
    config.find(at + "recompute_granularity")
        ->fail(fmt::format("got {}, expected selective, full or null", granularity));
  const bool block = config.word({at + "recompute_method"}, "uniform") == "block";
  if (granularity == "full" && block && layers > 0) {
    draft.set("recompute.kind", granularity);
    draft.set("recompute.layers", layers);
  } else if (granularity == "selective" && config.find(at + "recompute_modules") != nullptr) {
    const Settings& given = *config.find(at + "recompute_modules");
    if (!given.is_sequence()) given.expected("a list such as [core_attn]");
    std::vector<std::string> modules;
    for (const Settings& module : given.items()) modules.push_back(module.text());
    take_recomputed_modules(modules, "recompute_modules", draft);
  } else {
    draft.set("recompute", granularity);
  }
  const bool offloads = config.flag({at + "cpu_offloading"}, false);
  const std::int64_t offloaded = config.count({at + "cpu_offloading_num_layers"}, 0, 0);
  if (!offloads && offloaded > 0)
    draft.ignored("cpu_offloading_num_layers", "without effect: cpu_offloading is not on");
  if (offloads && offloaded > 0) draft.set("offload.activation_layers", offloaded);
}

/// Megatron-Core's OptimizerConfig (core/optimizer/optimizer_config.py), where a share that is not said is none.
void take_recipe_offload(Sections& config, Draft& draft) {
  const auto either = [](const std::string& key) {
    return std::vector<std::string>{"optimizer." + key, "optim.config." + key};
  };
  const Settings* share = config.any(either("optimizer_offload_fraction"));
  const bool overlaps = config.flag(either("overlap_cpu_optimizer_d2h_h2d"), false);
  if (!config.flag(either("optimizer_cpu_offload"), false)) return;
  const double fraction = share == nullptr ? 0 : share->as_number(0, 1);
  if (fraction == 0)
    return draft.ignored("optimizer_cpu_offload", "optimizer_offload_fraction is 0: no states lie with the host");
  draft.set("offload.optimizer", true);
  if (fraction < 1) draft.set("offload.optimizer_fraction", fmt::format("{:g}", fraction), share->place());
  if (overlaps) draft.set("offload.optimizer_overlap", true);
}

/// By its name, or by that of a function of another file that makes it: distributed_muon_with_cosine_annealing.
void take_recipe_optimizer(Sections& config, Draft& draft, const Recipe& recipe) {
  std::string name = config.word({"optimizer.optimizer", "optim.config.optimizer"}, "");
  const Settings* whole = recipe.whole.find("optimizer");
  const std::string maker = whole != nullptr ? python_target(*whole) : "";
  const bool made = name.empty() && !maker.empty() && maker != "optimizer" && !maker.ends_with("OptimizerConfig");
  if (made) {
    name = maker.find("muon") != std::string::npos ? "muon" : "adam";
    draft.first(fmt::format("optimizer = {}: what it makes is not in this file; {} is taken", maker, name));
  }
  take_optimizer(name.empty() ? "adam" : name, draft);
}

void take_recipe_training(Sections& config, Draft& draft, const Recipe& recipe) {
  const std::int64_t global = draft.document().at("batch").get_int("global", 1),
                     seq = draft.document().at("model").get_int("seq", 1);
  const std::int64_t steps = config.count({recipe.bridge ? "train.train_iters" : "trainer.max_steps"}, 0, -1);
  if (steps > 0) {
    draft.set("training.tokens", fmt::format("{:.0f}", static_cast<double>(steps) * static_cast<double>(global) *
                                                           static_cast<double>(seq)));
  }
  // Megatron-Bridge's older names lie over the newer ones.
  const Settings* every = config.any({"train.eval_interval", "validation.eval_interval", "trainer.val_check_interval"});
  const Settings* passes = config.any({"train.eval_iters", "validation.eval_iters", "trainer.limit_val_batches"});
  const auto whole = [](const Settings* value) {
    return value != nullptr && value->text().find('.') == std::string::npos;
  };
  if (whole(every) && whole(passes) && every->as_int(0, 1'000'000'000) > 0 && passes->as_int(0, 1'000'000) > 0) {
    draft.set("evaluation.every_steps", every->as_int(), every->place());
    draft.set("evaluation.sequences", passes->as_int() * std::min<std::int64_t>(global, 1'000'000'000));
  }
  const Settings* adapter = recipe.whole.find("peft");
  if (adapter != nullptr && adapter->is_mapping()) {
    std::string kind = python_target(*adapter);
    if (kind == "peft" && names_of(recipe).find("_peft") != std::string::npos) {
      const Settings* scheme = recipe.whole.find("peft_scheme");
      kind = scheme != nullptr && scheme->is_scalar() ? scheme->text() : "lora";
      draft.first(fmt::format("peft: what the recipe that is called makes is not in this file; {} of rank {} is taken",
                              kind, config.count({"peft.dim"}, 32)));
    }
    const bool known = kind.ends_with("LoRA") || kind.ends_with("[lora]") || kind == "lora";
    if (!known || kind.ends_with("CanonicalLoRA")) adapter->fail(fmt::format("got {}, expected LoRA, or none", kind));
    draft.set("finetune.kind", std::string("lora"));
    draft.set("finetune.rank", config.count({"peft.dim"}, 32));
    // Theirs are linear_qkv and linear_proj beside attention, linear_fc1 and linear_fc2 beside the MLP.
    const Settings* modules = config.find("peft.target_modules");
    std::set<std::string> named{"linear_qkv", "linear_proj", "linear_fc1", "linear_fc2"};
    if (modules != nullptr && modules->is_sequence()) {
      named.clear();
      for (const Settings& each : modules->items()) named.insert(each.is_scalar() ? each.text() : "?");
    }
    const bool mlp = std::any_of(named.begin(), named.end(),
                                 [](const std::string& name) { return name.find("fc") != std::string::npos; });
    draft.set("finetune.modules", std::string(mlp ? "all" : "attention"));
    std::set<std::string> taken{"linear_qkv", "linear_proj"};
    if (mlp) taken.insert({"linear_fc1", "linear_fc2"});
    if (named != taken)
      draft.ignored("peft.target_modules", fmt::format("adapters stand beside all products of {} here",
                                                       mlp ? "attention and the MLP" : "attention"));
  } else if (adapter != nullptr && adapter->is_scalar() && adapter->text() == "lora") {
    draft.apply("finetune={kind: lora, rank: 32, modules: all}");
  }
  take_recipe_optimizer(config, draft, recipe);
  take_recipe_offload(config, draft);
}

/// What an MLP applies inside, which is a function of a library's: torch.nn.functional.silu.
void take_activation(Sections& config, Draft& draft, const Recipe& recipe) {
  const Settings* given = recipe.whole.find_path(recipe.sizes() + ".activation_func");
  config.find(recipe.sizes() + ".activation_func");
  if (given == nullptr || given->is_null()) return;
  const std::string target = python_target(*given), name = target.substr(target.rfind('.') + 1);
  const auto has = [&](const char* word) { return name.find(word) != std::string::npos; };
  if (draft.has("model.inherits"))
    return draft.ignored("activation_func = " + name, "the model that ships has its own");
  const Settings* gated = draft.document().find_path("model.gated_mlp");
  const bool gate = gated != nullptr && gated->as_bool();
  if (has("squared_relu") || has("relu2"))
    draft.set("model.activation", std::string("squared_relu"));
  else if (has("gelu"))
    draft.set("model.activation", std::string("gelu"));
  else if (name == "relu")
    draft.set("model.activation", std::string("relu"));
  else if (!(gate && (has("silu") || has("swiglu"))))
    draft.first(fmt::format("activation_func = {}: not known to orrery with{} a gate; the usual one is simulated", name,
                            gate ? "" : "out"));
}

/// Keys of mixtures in the recipe of a dense model, which Megatron-Core does not read.
void take_idle_experts(Sections& config, Draft& draft, const std::string& at) {
  std::vector<std::string> idle;
  const Settings* section = config.document().find_path(at);
  if (section == nullptr || !section->is_mapping()) return;
  for (const auto& [key, value] : section->members()) {
    if (!key.starts_with("moe_")) continue;
    config.find(at + "." + key);
    idle.push_back(key);
  }
  if (!idle.empty())
    draft.ignored(fmt::format("{}", fmt::join(idle, ", ")), "without effect: the model has no experts");
}

/// What a recipe in Python sets to None and nothing here reads. A container that is written as YAML says None of all
/// that has no value.
void take_none(const Sections& config, Draft& draft, const Recipe& recipe) {
  const bool python = recipe.file.ends_with(".py");
  std::vector<std::string> rest;
  for (const std::string& path : recipe.none) {
    const bool moved = std::any_of(std::begin(kArguments), std::end(kArguments), [&](const auto& argument) {
      return path == argument.first || path == std::string("trainer.") + argument.first;  // to where it belongs
    });
    if (python && !config.asked(path) && !moved) rest.push_back(path);
  }
  if (!rest.empty())
    draft.ignored(fmt::format("{} = None", fmt::join(rest, ", ")), "what stands without it is simulated");
}

void take_remarks(Sections& config, Draft& draft, const Recipe& recipe, const std::vector<std::string>& not_followed) {
  tell_not_followed(draft, recipe.file, not_followed);
  std::vector<std::string> rest, weigh;
  static const std::set<std::string> kTaken{
      "model",   "model.config", "mixed_precision",   "trainer.plugins",      "peft", "trainer.strategy",
      "trainer", "data",         "trainer.callbacks", "model.activation_func"};
  for (const std::string& each : recipe.unknown) {
    const std::string path = each.substr(0, each.find(" = "));
    if (kTaken.contains(path)) continue;
    // The size of a vocabulary that is that of the model which is named.
    const bool weighs = config.asked(path) && !each.ends_with(".vocab_size");
    (weighs ? weigh : rest).push_back(each);
  }
  if (!rest.empty())
    draft.ignored(fmt::format("{}", fmt::join(rest, "; ")), "only a run can say, or not known to orrery");
  take_none(config, draft, recipe);
  tell_recipe_keys(config, draft, recipe.bridge);
  if (!weigh.empty())
    draft.first(fmt::format("{}: only a run can say; what stands without it is simulated", fmt::join(weigh, "; ")));
}

/// Rows of the vocabulary beyond its words: Megatron-Bridge fills up only where it is asked to
/// (models/gpt_provider.py, should_pad_vocab), NeMo always.
void take_recipe_padding(Sections& config, Draft& draft, const Recipe& recipe) {
  const Settings* pads = config.find(recipe.sizes() + ".should_pad_vocab");
  const std::int64_t multiple = config.count({recipe.sizes() + ".make_vocab_size_divisible_by"}, 128);
  if (draft.document().find_path("model.vocab") == nullptr) return;
  if (!recipe.bridge || (pads != nullptr && pads->as_bool()))
    pad_vocabulary(draft, multiple);
  else if (pads != nullptr)
    pad_vocabulary(draft, 1);
}

Draft recipe_draft(Recipe recipe, std::int64_t gpus, const std::vector<std::string>& not_followed) {
  recipe.library = library_recipe(python_target(recipe.whole));
  if (recipe.library.empty()) recipe.library = library_recipe(recipe.function);
  if (!recipe.bridge) place_arguments(recipe.whole);
  const RecipeLayout* layout = layout_of_recipe(recipe.library);
  if (layout == nullptr && layout_of_recipe(recipe.library.substr(0, recipe.library.rfind('_'))) != nullptr)
    layout = layout_of_recipe(recipe.library.substr(0, recipe.library.rfind('_')));
  const bool called = !library_recipe(python_target(recipe.whole)).empty();
  Settings document = said_members(recipe.whole, "", recipe);
  // A recipe whose trainer another file makes has the layout of that file.
  const Settings* trainer = recipe.whole.find("trainer");
  const std::string maker = trainer != nullptr ? python_target(*trainer) : "";
  const bool elsewhere = maker == "trainer" || maker.ends_with(".trainer") || maker.ends_with("_trainer");
  if (elsewhere && layout == nullptr) layout = layout_of_recipe(std::filesystem::path(recipe.file).stem().string());
  if (layout != nullptr && (called || elsewhere)) document = sim::overlay(layout_document(*layout, recipe), document);
  // None takes the place of what the layout brought along; said_members() left it out.
  for (const char* key : {"virtual_pipeline_model_parallel_size", "context_parallel_size"}) {
    const Settings* section = recipe.whole.find_path(recipe.layout());
    if (section == nullptr || !section->is_mapping()) continue;
    for (const auto& [name, value] : section->members()) {
      if (name == key && value.is_null()) document.set_path(recipe.layout() + "." + key, value);
    }
  }
  Sections config(document);
  Draft draft(fmt::format("{} ({})", std::filesystem::path(recipe.file).filename().string(),
                          recipe.bridge ? "Megatron-Bridge" : "NeMo 2"),
              {recipe.file, 1, 1});
  draft.set("name", std::filesystem::path(recipe.file).stem().string());
  const std::string named = recipe.model.empty() ? known_model(recipe) : recipe.model;
  const bool mixture = take_recipe_model(config, draft, recipe.sizes(), named, recipe.file);
  const Settings* made = recipe.whole.find("model");
  const Settings* by = made != nullptr && made->is_mapping() ? made->find("_args_") : nullptr;
  const std::string of =
      by != nullptr && by->is_sequence() && !by->items().empty() ? python_target(by->items()[0]) : "";
  if (names_of(recipe).find("_vl") != std::string::npos || of.find("VL-") != std::string::npos)
    draft.first("vision encoder: left out, with the tokens of images; the language model alone is simulated");
  const Settings* seq =
      config.any({"data.seq_length", "dataset.seq_length", "dataset.sequence_length", recipe.sizes() + ".seq_length"});
  draft.set("model.seq", seq != nullptr ? seq->as_int(1, 100'000'000) : 4096, seq != nullptr ? seq->place() : Place{});
  if (seq == nullptr) draft.assumed("model.seq", "4096; the recipe names no length; --set model.seq=N");
  take_layout(config, draft, recipe, gpus, mixture);
  take_activation(config, draft, recipe);
  if (mixture) take_recipe_experts(config, draft, recipe.sizes());
  if (!mixture) take_idle_experts(config, draft, recipe.sizes());
  take_precision(config, draft, recipe);
  take_recomputation(config, draft, recipe);
  take_recipe_training(config, draft, recipe);
  const auto [release, why] =
      recipe.bridge ? bridge_release(recipe.file) : std::pair<std::string, std::string>("nemo-25.04", "nemo-25.04");
  draft.set("software", release);
  draft.assumed("software", why + "; --set software=NAME for another release");
  take_recipe_graphs(config, draft, recipe.sizes(), mixture);
  take_recipe_padding(config, draft, recipe);
  take_remarks(config, draft, recipe, not_followed);
  return draft;
}

Draft import_recipe(const Recipe& recipe, std::int64_t gpus, const std::vector<std::string>& not_followed) {
  return tell_idle_keys(recipe.whole, [&](const Settings& whole) {
    Recipe said = recipe;
    said.whole = whole;
    return recipe_draft(std::move(said), gpus, not_followed);
  });
}

Recipe read_recipe(const std::string& file, const std::string& function, bool bridge,
                   std::vector<std::string>& not_followed) {
  Recipe recipe;
  recipe.bridge = bridge;
  recipe.file = file;
  if (file.ends_with(".yaml") || file.ends_with(".yml")) {
    read_text(file);
    recipe.whole = read_python_yaml(file);
    if (recipe.whole.is_mapping() && recipe.whole.find("ConfigContainer") != nullptr)
      recipe.whole = Settings(recipe.whole.at("ConfigContainer"));
    if (!recipe.whole.is_mapping() || recipe.whole.find("model") == nullptr || !recipe.whole.at("model").is_mapping())
      throw sim::UserError({file, 1, 1}, "model", "is not there, expected a ConfigContainer of Megatron-Bridge");
    return recipe;
  }
  const std::string text = read_text(file);
  const bool command = !bridge && !file.ends_with(".py") && text.find("nemo llm ") != std::string::npos;
  PythonRecipe read =
      read_python_recipe(command ? nemo_command_as_recipe(text, file) : text, file, function, module_near);
  recipe.whole = std::move(read.recipe);
  recipe.function = std::move(read.function);
  not_followed = std::move(read.remarks);
  return recipe;
}

/// "model=llama3-8b" of what the user lays over it, where that model ships.
std::string model_of_sets(const std::vector<std::string>& sets) {
  std::string model;
  for (const std::string& set : sets) {
    if (!set.starts_with("model=") || set.find('{') != std::string::npos) continue;
    model = set.substr(6);
    scenarios::resolve(scenarios::shelf_of("models"), Settings::scalar(model, {"--set model", 1, 1}, true));
  }
  return model;
}

}  // namespace

Draft import_nemo_recipe(const std::string& file, std::int64_t gpus, const std::string& function,
                         const std::vector<std::string>& sets) {
  std::vector<std::string> not_followed;
  Recipe recipe = read_recipe(file, function, false, not_followed);
  recipe.model = model_of_sets(sets);
  return import_recipe(recipe, gpus, not_followed);
}

Draft import_bridge(const std::string& file, std::int64_t gpus, const std::string& function,
                    const std::vector<std::string>& overrides, const std::vector<std::string>& sets) {
  std::vector<std::string> not_followed;
  Recipe recipe = read_recipe(file, function, true, not_followed);
  recipe.model = model_of_sets(sets);
  for (const std::string& override_text : overrides) {
    const std::size_t equals = override_text.find('=');
    if (equals == std::string::npos || equals == 0)
      throw sim::UserError(
          fmt::format("orrery: import bridge: got {}, expected an override such as "
                      "model.tensor_model_parallel_size=2",
                      override_text));
    std::string path = override_text.substr(0, equals);
    path.erase(0, path.find_first_not_of('+'));
    const Place place{"arguments", 1, 1};
    const std::string text = override_text.substr(equals + 1);
    python_assign(recipe.whole, path, Settings::scalar(text == "None" ? "null" : text, place));
  }
  return import_recipe(recipe, gpus, not_followed);
}

}  // namespace orrery::tools
