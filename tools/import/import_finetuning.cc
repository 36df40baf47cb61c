// `orrery import axolotl|llamafactory`: configurations of Axolotl and of LLaMA-Factory, which fine-tune models of
// Hugging Face's with its Trainer. What a key means, and its default, is that of Axolotl's schema
// (src/axolotl/utils/schemas) and of LLaMA-Factory's arguments (src/llamafactory/hparams) over transformers'
// TrainingArguments. The GPUs stand in neither: --gpus. Left out: preference data, several stages of one file.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <set>

#include "scenarios/library.h"
#include "scenarios/scenario.h"
#include "sim/error.h"
#include "tools/import/idle_keys.h"
#include "tools/import/import.h"
#include "tools/import/known_optimizers.h"
#include "tools/import/known_recipes.h"
#include "tools/import/sections.h"
#include "tools/import/trainer_command.h"
#include "tools/import/trainer_keys.h"
#include "tools/import/trainer_layout.h"

namespace orrery::tools {

using sim::Settings;

namespace {

/// Their names of the same things.
struct TrainerKeys {
  const char *model, *length, *micro, *method, *rank, *all_modules, *flash;
  std::int64_t usual_length, usual_micro, usual_rank;
};
constexpr TrainerKeys kAxolotl{"base_model",
                               "sequence_len",
                               "micro_batch_size",
                               "adapter",
                               "lora_r",
                               "lora_target_linear",
                               "flash_attention",
                               2048,
                               1,
                               8};
constexpr TrainerKeys kLlamaFactory{"model_name_or_path",
                                    "cutoff_len",
                                    "per_device_train_batch_size",
                                    "finetuning_type",
                                    "lora_rank",
                                    "lora_target",
                                    "flash_attn",
                                    2048,
                                    8,
                                    8};
// LLaMA-Factory's second version (src/llamafactory/v1/config).
constexpr TrainerKeys kLlamaFactoryV1{"model",
                                      "cutoff_len",
                                      "micro_batch_size",
                                      "peft_config.name",
                                      "peft_config.r",
                                      "peft_config.target_modules",
                                      "flash_attn",
                                      2048,
                                      1,
                                      8};

bool contains(std::string text, const char* word) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text.find(word) != std::string::npos;
}

/// Letters and digits of a name, in lower case.
std::string bare(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return out;
}

struct BaseModel {
  std::string ships;  // empty: none
  bool sees = false;  // a model of images and text, whose language model ships
};

/// The model that ships of "NousResearch/Llama-2-70b-chat-hf" or "Qwen/Qwen3-4B-Instruct-2507", which is trained on as
/// its base is: what a name says of a tuning, a date or the type of its weights changes no size.
BaseModel shipped_model(std::string name) {
  static const std::set<std::string> kNoSize{
      "nvidia",   "chat",      "instruct", "it",   "hf",      "base",       "pt",         "meta", "sft",
      "thinking", "reasoning", "bnb",      "nf4",  "4bit",    "bf16",       "fp16",       "fp8",  "gptq",
      "nvfp4",    "awq",       "aqlm",     "2bit", "1x16",    "v0.1",       "v1.0",       "v0.2", "v0.3",
      "rl",       "dpo",       "8bit",     "int4", "unsloth", "linearized", "dequantized"};
  name = name.substr(name.rfind('/') + 1);
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  BaseModel found;
  std::string rest;
  for (std::size_t at = 0; at <= name.size();) {
    const std::size_t end = std::min(name.find_first_of("-_", at), name.size());
    const std::string word = name.substr(at, end - at);
    const bool date = word.size() == 4 && word.find_first_not_of("0123456789") == std::string::npos;
    if (word == "vl") found.sees = true;
    if (!date && word != "vl" && !kNoSize.contains(word)) rest += (rest.empty() ? "" : "-") + word;
    at = end + 1;
  }
  // Of the same sizes.
  if (rest == "llama-3.3-70b") rest = "llama-3.1-70b";
  if (rest.starts_with("deepseek-r1") || rest.starts_with("deepseek-v3.1")) rest = "deepseek-v3";
  found.ships = model_of_recipe(rest);
  if (!found.ships.empty()) return found;
  for (const std::string& ships : scenarios::shipped("models")) {
    if (bare(ships) == bare(rest)) found.ships = ships;
  }
  return found;
}

void take_trainer_model(Sections& config, Draft& draft, const TrainerKeys& keys, const std::vector<std::string>& sets,
                        const std::string& file) {
  const Settings* base = config.find(keys.model);
  const bool said =
      std::any_of(sets.begin(), sets.end(), [](const std::string& set) { return set.starts_with("model="); });
  const BaseModel named = base != nullptr && base->is_scalar() ? shipped_model(base->text()) : BaseModel{};
  const std::string& model = named.ships;
  for (const std::string& set : sets) {
    if (set.starts_with("model=")) draft.apply(set);
  }
  if (!said && model.empty())
    throw sim::UserError(
        base != nullptr ? base->place() : sim::Place{file, 1, 1}, keys.model,
        fmt::format("got {}, which does not ship, expected --set model=NAME (orrery list models; orrery import "
                    "hf config.json makes one)",
                    base != nullptr && base->is_scalar() ? base->text() : "none"));
  if (!said) {
    draft.apply("model=" + model);
    draft.assumed("model", fmt::format("{}, whose sizes {} has", model, base->text()));
    if (named.sees)
      draft.first("vision encoder: left out, with the tokens of images; the language model alone is simulated");
  }
  if (said && base != nullptr && base->is_scalar() && model.empty())
    draft.ignored(fmt::format("{} {}", keys.model, base->text()), "does not ship; --set model=NAME stands for it");
  const Settings* written = config.find(keys.length);
  const std::int64_t length = written == nullptr ? keys.usual_length : written->as_int(1, 1'000'000'000'000);
  draft.apply(fmt::format("model.seq={}", std::min<std::int64_t>(length, 100'000'000)));
  const Settings whole = scenarios::resolve(scenarios::shelf_of("models"), draft.document().at("model")).document;
  if (whole.get_int("attention_window", 0) > length) draft.set("model.attention_window", length);  // which none reaches
  if (whole.get_int("mtp_layers", 0) > 0) {
    draft.set("model.mtp_layers", std::int64_t{0});
    draft.assumed("model.mtp_layers", "0: transformers' models have no layers that predict further tokens");
  }
  const bool packs = config.flag({"sample_packing", "packing"}, false);
  draft.assumed("sequences",
                packs ? "packed to the full length"
                      : fmt::format("all of {} tokens, though without packing the data's own are shorter", length));
}

/// Adapters stand beside all products of attention, or of the MLP too; a text is a pattern, or a list by commas.
void take_target_modules(const Settings* modules, Draft& draft) {
  const auto is_word = [&](const char* word) { return modules->is_scalar() && modules->text() == word; };
  if (modules == nullptr || is_word("false"))
    draft.assumed("finetune.modules", "all products of attention and the MLP: no module is named");
  if (modules == nullptr || is_word("false") || is_word("all") || is_word("true"))
    return draft.apply("finetune.modules=all");
  std::vector<std::string> named;
  if (modules->is_sequence()) {
    for (const Settings& each : modules->items()) named.push_back(each.is_scalar() ? each.text() : "?");
  } else {
    named.push_back(modules->is_scalar() ? modules->text() : "?");
  }
  const std::string text = fmt::format("{}", fmt::join(named, ", "));
  // Names of MLPs: of Llama and its kin, of GPT-2's and OPT's, of Falcon's and BLOOM's, of Mixtral's.
  static const std::vector<const char*> kOfMlps{"gate", "up_", "down_", "fc", "mlp", "4h", "w1", "w2", "all-linear"};
  const bool mlp = std::any_of(kOfMlps.begin(), kOfMlps.end(), [&](const char* name) { return contains(text, name); });
  draft.apply(mlp ? "finetune.modules=all" : "finetune.modules=attention");
  draft.assumed("finetune.modules", fmt::format("adapters beside all products of {}, for {}",
                                                mlp ? "attention and the MLP" : "attention", text));
}

void take_adapter_of(Sections& config, Draft& draft, const TrainerKeys& keys) {
  const std::string method = config.word({keys.method}, "full");
  const bool four =
      config.flag({"load_in_4bit"}, false) || config.count({"quantization_bit"}, 16) == 4 || method == "qlora";
  const bool eight = config.flag({"load_in_8bit"}, false) || config.count({"quantization_bit"}, 16) == 8;
  if (method != "full" && method != "lora" && method != "qlora" && method != "none")
    config.find(keys.method)->fail(fmt::format("got {}, expected lora, qlora or full", method));
  if (method == "full" || method == "none") {
    if (four || eight)
      draft.ignored("load_in_4bit, load_in_8bit, quantization_bit", "without effect here: there is no adapter");
    return;
  }
  draft.set("finetune.kind", std::string(four ? "qlora" : "lora"));
  if (four) {
    const char* by = config.flag({"load_in_4bit"}, false)          ? "load_in_4bit"
                     : config.count({"quantization_bit"}, 16) == 4 ? "quantization_bit"
                                                                   : "qlora";
    draft.assumed("finetune.kind", fmt::format("qlora, by {}: frozen weights are held in 4 bits", by));
  }
  draft.set("finetune.rank", config.count({keys.rank}, keys.usual_rank));
  const Settings* modules = config.any({keys.all_modules, "lora_target_modules"});
  take_target_modules(modules, draft);
  const std::string base = config.word({keys.model}, "");
  for (const char* format : {"nvfp4", "fp8", "awq", "gptq", "int4", "4bit", "nf4"}) {
    if (four || !contains(base, format)) continue;
    draft.first(
        fmt::format("{}: weights in {} by its name: frozen weights are in 16 bits here; --set finetune.kind=qlora "
                    "holds them in 4",
                    base, format));
    break;
  }
  if (eight)
    draft.first(
        "load_in_8bit: frozen weights of 8 bits are simulated in 16: their memory is twice as much here, and what "
        "makes "
        "16 bits of them is not counted");
}

/// Axolotl's keys of FSDP, with or without the prefix that FSDP 1 has.
void take_fsdp_section(Sections& config, Draft& draft, std::string& kind) {
  const auto keys = [](const char* name) {
    return std::vector<std::string>{std::string("fsdp_config.") + name, std::string("fsdp_config.fsdp_") + name};
  };
  const std::string strategy = config.word(keys("sharding_strategy"), "FULL_SHARD"),
                    reshards = config.word(keys("reshard_after_forward"), "true");
  if (strategy == "SHARD_GRAD_OP" || reshards == "false")
    kind = "gradients";
  else if (strategy == "NO_SHARD")
    kind = "none";
  else if (strategy != "FULL_SHARD" || (reshards != "true" && reshards != "True"))
    draft.first(
        fmt::format("fsdp_config: sharding_strategy {}, reshard_after_forward {}: parameters are sharded over "
                    "all GPUs here",
                    strategy, reshards));
  if (config.flag(keys("activation_checkpointing"), false)) draft.set("recompute", std::string("full"));
  if (config.flag(keys("offload_params"), false)) {
    draft.set("offload.optimizer", true);
    if (kind == "parameters" && draft.document().at("cluster").get_int("gpus", 1) > 1)
      draft.set("offload.parameters", true);
  }
}

void take_trainer_sharding(Sections& config, Draft& draft) {
  const std::string dist = config.word({"dist_config.name"}, "");  // of LLaMA-Factory's second version
  const std::string deepspeed =
      dist == "deepspeed" ? config.word({"dist_config.config_file"}, "deepspeed") : config.word({"deepspeed"}, "");
  const Settings *fsdp = config.find("fsdp"), *settings = config.document().find_path("fsdp_config");
  const bool sections = settings != nullptr && settings->is_mapping();
  if (settings != nullptr && !sections) {
    config.find("fsdp_config");
    draft.assumed("fsdp_config", "the shards of parameters; a file that it names is not read");
  }
  std::string kind = "none";
  if (fsdp != nullptr || settings != nullptr || dist.starts_with("fsdp")) kind = "parameters";
  if (fsdp != nullptr && fsdp->is_sequence() &&
      std::any_of(fsdp->items().begin(), fsdp->items().end(),
                  [](const Settings& each) { return each.is_scalar() && each.text() == "shard_grad_op"; }))
    kind = "gradients";
  if (sections) take_fsdp_section(config, draft, kind);
  if (!deepspeed.empty()) {
    kind = contains(deepspeed, "3")   ? "parameters"
           : contains(deepspeed, "2") ? "gradients"
           : contains(deepspeed, "1") ? "optimizer"
                                      : "none";
    draft.assumed("parallelism.sharding",
                  fmt::format("{}, by the name of {}; orrery import deepspeed reads that file", kind, deepspeed));
    if (contains(deepspeed, "offload") || contains(deepspeed, "cpu")) draft.set("offload.optimizer", true);
  }
  draft.set("parallelism.sharding", kind);
  draft.set("software", std::string(deepspeed.empty() ? "accelerate-2026" : "deepspeed-2026"));
  draft.assumed("software", deepspeed.empty() ? "accelerate-2026" : "deepspeed-2026");
}

/// Whether all layers are made again, which LLaMA-Factory does unless it is told not to; Megatron-Core's own argument
/// and FSDP's are taken before.
void take_trainer_recompute(Sections& config, Draft& draft, Trainer trainer) {
  const Settings* again = config.find("gradient_checkpointing");
  const std::string text = again != nullptr && again->is_scalar() ? again->text() : "";
  const bool off =
      config.flag({"disable_gradient_checkpointing"}, false) || !config.flag({"enable_activation_checkpointing"}, true);
  const bool full = trainer == Trainer::axolotl ? !text.empty() && text != "false" && !again->is_null() : !off;
  const Settings* software = draft.document().find("software");
  const bool own = software != nullptr && software->is_scalar() && software->text().starts_with("megatron-core");
  if (text.starts_with("offload"))
    draft.first("gradient_checkpointing: " + text + ": what layers keep stays on the GPU here");
  if (!own && (full || !draft.has("recompute"))) draft.set("recompute", std::string(full ? "full" : "none"));
}

Draft import_trainer(const std::string& file, const Settings& document, Trainer trainer, const char* name,
                     std::int64_t gpus, const std::vector<std::string>& sets) {
  const TrainerKeys& keys = trainer == Trainer::axolotl         ? kAxolotl
                            : trainer == Trainer::llama_factory ? kLlamaFactory
                                                                : kLlamaFactoryV1;
  if (!document.is_mapping() || document.find(keys.model) == nullptr)
    throw sim::UserError({file, 1, 1}, keys.model, fmt::format("is not there, expected a configuration of {}", name));
  Sections config(document);
  Draft draft(fmt::format("{} ({})", std::filesystem::path(file).filename().string(), name), {file, 1, 1});
  draft.set("name", std::filesystem::path(file).stem().string());
  draft.set("cluster.device", std::string("h100-sxm-80gb"));
  draft.set("cluster.gpus", gpus);
  if (gpus > 8) draft.set("cluster.fabric", std::string("ndr-rail"));
  draft.assumed("cluster", "H100 on ndr-rail; --gpus N, --set cluster.device=NAME, --set cluster.fabric=NAME");
  take_trainer_model(config, draft, keys, sets, file);
  take_adapter_of(config, draft, keys);
  take_trainer_sharding(config, draft);
  const std::int64_t data = take_trainer_degrees(config, draft, trainer, gpus);
  const std::int64_t micro = std::min<std::int64_t>(config.count({keys.micro}, keys.usual_micro), 1'000'000),
                     steps = std::min<std::int64_t>(config.count({"gradient_accumulation_steps"}, 1), 1'000'000);
  draft.set("batch.micro", micro);
  draft.set("batch.global", config.count({"global_batch_size"}, micro * steps * data));
  take_trainer_precision(config, draft, trainer);
  take_trainer_recompute(config, draft, trainer);
  const Settings* flash = config.any({keys.flash, "attn_implementation"});
  const std::string how = flash != nullptr && flash->is_scalar() ? flash->text() : "";
  if (how == "eager")
    draft.set("attention", std::string("unfused"));
  else if (how == "flex_attention")
    draft.first("attn_implementation: flex_attention: flash attention is simulated");
  else if (!how.empty() && how != "false" && how != "disabled")
    draft.set("attention", std::string("flash"));
  take_optimizer(config.word({"optimizer", "optim", "optim_config.name"}, "adamw_torch"), draft);
  take_trainer_method(config, draft);
  tell_trainer_keys(config, draft);
  return draft;
}

}  // namespace

Draft import_axolotl(const std::string& file, std::int64_t gpus, const std::vector<std::string>& sets) {
  read_text(file);
  return tell_idle_keys(read_python_yaml(file), [&](const Settings& document) {
    return import_trainer(file, document, Trainer::axolotl, "Axolotl", gpus, sets);
  });
}
Draft import_llamafactory(const std::string& file, std::int64_t gpus, const std::vector<std::string>& sets) {
  const std::string text = read_text(file);
  const bool script = text.find("llamafactory-cli train") != std::string::npos;
  const Settings document = script ? trainer_command(text, file) : read_python_yaml(file);
  const bool second =
      document.is_mapping() && document.find("model") != nullptr && document.find(kLlamaFactory.model) == nullptr;
  return tell_idle_keys(document, [&](const Settings& keys) {
    return import_trainer(file, keys, second ? Trainer::llama_factory_v1 : Trainer::llama_factory, "LLaMA-Factory",
                          gpus, sets);
  });
}

}  // namespace orrery::tools
