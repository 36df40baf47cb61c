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
#include "tools/import/published_models.h"
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

void take_trainer_model(Sections& config, Draft& draft, const TrainerKeys& keys, const std::vector<std::string>& sets,
                        const std::string& file) {
  const Settings* base = config.find(keys.model);
  const bool said =
      std::any_of(sets.begin(), sets.end(), [](const std::string& set) { return set.starts_with("model="); });
  const PublishedModel named = base != nullptr && base->is_scalar() ? published_model(base->text()) : PublishedModel{};
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
    if (!named.inferred.empty())
      draft.first(
          fmt::format("model: {}, by the part {} of the name {}, which alone says so; --set model=NAME for another",
                      model, named.inferred, base->text()));
    if (!named.beside.empty())
      draft.first(named.beside + ": left out, with its tokens; the language model alone is simulated");
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
    config.any({keys.rank, keys.all_modules, "lora_target_modules"});  // of an adapter, without effect too
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

/// The file of DeepSpeed's that a configuration names, beside it or in a folder above it, since trainings are started
/// from the root of a tree; empty: there is none.
std::string deepspeed_file(const std::string& named, const std::string& file) {
  std::error_code error;
  std::filesystem::path folder = std::filesystem::absolute(file, error).lexically_normal().parent_path();
  for (int above = 0; above < 12; ++above, folder = folder.parent_path()) {
    const std::filesystem::path here = folder / named;
    if (std::filesystem::is_regular_file(here, error)) return here.string();
    if (!folder.has_relative_path()) break;
  }
  return "";
}

/// ZeRO's stage by the name of a file: "zero3_bf16.json", "ds_z2_config.json", "stage-1.json". 0 where it has none.
int stage_by_name(const std::string& name) {
  for (const char* word : {"zero", "stage", "z"}) {
    for (std::size_t at = name.find(word); at != std::string::npos; at = name.find(word, at + 1)) {
      std::size_t next = at + std::string_view(word).size();
      if (next < name.size() && (name[next] == '_' || name[next] == '-')) ++next;
      if (next < name.size() && name[next] >= '0' && name[next] <= '3') return name[next] - '0';
    }
  }
  for (const int stage : {3, 2, 1})
    if (name.find(static_cast<char>('0' + stage)) != std::string::npos) return stage;
  return 0;
}

/// Of a file that is not there its name has to do. Names are those of both projects' trees, where a third stage that
/// offloads does so with parameters too, and Axolotl's zero2.json offloads without a word of it.
void take_deepspeed_by_name(const std::string& deepspeed, Draft& draft) {
  static constexpr const char* kSharding[] = {"none", "optimizer", "gradients", "parameters"};
  std::string name = deepspeed;
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  const int stage = stage_by_name(name);
  draft.set("parallelism.sharding", std::string(kSharding[stage]));
  draft.assumed("parallelism.sharding",
                fmt::format("{}, by the name of {}, which is not there", kSharding[stage], deepspeed));
  const bool of_axolotl = name.ends_with("deepspeed_configs/zero2.json");
  const bool offloads =
      of_axolotl || name.find("offload") != std::string::npos || name.find("cpu") != std::string::npos;
  if (!offloads || name.find("cpuoffload_params") != std::string::npos) return;
  draft.set("offload.optimizer", true);
  if (stage == 3 && draft.document().at("cluster").get_int("gpus", 1) > 1) draft.set("offload.parameters", true);
  draft.assumed("offload", "by the name of " + deepspeed + (of_axolotl ? ", which is Axolotl's" : ""));
}

void take_deepspeed(const std::string& deepspeed, Draft& draft) {
  draft.set("software", std::string("deepspeed-2026"));
  draft.assumed("software", "deepspeed-2026");
  const std::string file = deepspeed_file(deepspeed, draft.document().place().file.text());
  if (file.empty()) return take_deepspeed_by_name(deepspeed, draft);
  const Draft read = import_deepspeed(file, draft.document().at("cluster").get_int("gpus", 1), {"model=any"});
  for (const char* key : {"parallelism.sharding", "parallelism.secondary_group", "parallelism.shard_group", "offload",
                          "overlap", "software"}) {
    if (const Settings* value = read.document().find_path(key); value != nullptr) draft.lay(key, *value);
  }
  for (const std::string& what : read.ignored())
    draft.ignored(std::filesystem::path(deepspeed).filename().string() + ": " + what);
}

/// Whether head and loss go by parts, so that no fp32 of all logits stands: by a key, which tell_trainer_keys names, or
/// by Axolotl's plugin, which does so unless it is told not to (integrations/cut_cross_entropy/args.py).
bool makes_loss_by_parts(Sections& config, Draft& draft) {
  const auto says = [&](const char* key, const char* word) {
    const Settings* value = config.document().find(key);
    return value != nullptr && value->is_scalar() && value->text() == word;
  };
  for (const char* key : {"liger_fused_linear_cross_entropy", "cut_cross_entropy", "chunked_cross_entropy",
                          "enable_liger_kernel", "use_unsloth"})
    if (says(key, "true")) return true;
  const Settings* plugins = config.document().find("plugins");
  if (plugins == nullptr || !plugins->is_sequence() || says("cut_cross_entropy", "false")) return false;
  const bool cuts = std::any_of(plugins->items().begin(), plugins->items().end(), [](const Settings& each) {
    return each.is_scalar() && each.text().find("CutCrossEntropy") != std::string::npos;
  });
  if (cuts)
    draft.first(
        "plugins: CutCrossEntropyPlugin: head and loss go by parts and logits never stand whole; here they do, in 16 "
        "bits, which memory counts");
  return cuts;
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
  if (!deepspeed.empty()) return take_deepspeed(deepspeed, draft);
  draft.set("parallelism.sharding", kind);
  draft.set("software", std::string("transformers-2026"));
  draft.assumed("software", "transformers-2026");
  if (makes_loss_by_parts(config, draft))
    draft.apply("software={inherits: transformers-2026, recipe: {loss: fused}}");  // which comes nearest
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
  if (draft.has("offload.optimizer") && draft.document().at("optimizer").text() == "adamw_8bit") {
    draft.set("optimizer", std::string("adam"));
    draft.first(
        "optimizer of 8 bits beside states that lie with the host: they are fp32 there, which no 8-bit optimizer "
        "updates; simulated as adam");
  }
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
