// `orrery import torchtitan`: a training configuration of TorchTitan (torchtitan/models/*/train_configs/*.toml). What a
// key means, and its default, is that of torchtitan/config_manager.py and torchtitan/config/job_config.py (pytorch/
// torchtitan, December 2024 to September 2025; keys that moved between sections are read from both). Left out: models
// of the user's own, and flavours made for debugging.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "scenarios/library.h"
#include "scenarios/scenario.h"
#include "sim/error.h"
#include "tools/import/idle_keys.h"
#include "tools/import/import.h"
#include "tools/import/known_optimizers.h"
#include "tools/import/known_recipes.h"
#include "tools/import/sections.h"
#include "tools/import/titan_keys.h"
#include "tools/import/titan_python.h"

namespace orrery::tools {

using sim::Settings;

namespace {

/// Names and flavours of torchtitan/models as models that ship.
const std::map<std::string, std::string>& models() {
  static const std::map<std::string, std::string> kModels = {{"llama3 1B", "llama3.2-1b"},
                                                             {"llama3 3B", "llama3.2-3b"},
                                                             {"llama3 8B", "llama3.1-8b"},
                                                             {"llama3 70B", "llama3.1-70b"},
                                                             {"llama3 405B", "llama3.1-405b"},
                                                             {"llama2 7B", "llama2-7b"},
                                                             {"llama2 13B", "llama2-13b"},
                                                             {"llama2 70B", "llama2-70b"},
                                                             {"llama4 17bx16e", "llama4-scout"},
                                                             {"llama4 17bx128e", "llama4-maverick"},
                                                             {"deepseek_v3 16B", "deepseek-v2-lite"},
                                                             {"deepseek_v3 236B", "deepseek-v2"},
                                                             {"deepseek_v3 671B", "deepseek-v3"},
                                                             {"gpt_oss 20b", "gpt-oss-20b"},
                                                             {"gpt_oss 120b", "gpt-oss-120b"},
                                                             {"kimi_k2_7 Kimi-K2.5", "kimi-k2"},
                                                             {"qwen3 0.6B", "qwen3-0.6b"},
                                                             {"qwen3 1.7B", "qwen3-1.7b"},
                                                             {"qwen3 4B", "qwen3-4b"},
                                                             {"qwen3 8B", "qwen3-8b"},
                                                             {"qwen3 14B", "qwen3-14b"},
                                                             {"qwen3 32B", "qwen3-32b"},
                                                             {"qwen3 30B-A3B", "qwen3-30b-a3b"},
                                                             {"qwen3 235B-A22B", "qwen3-235b-a22b"},
                                                             {"qwen3_5 35B-A3B", "qwen3.5-35b-a3b"},
                                                             {"qwen3_5 122B-A10B", "qwen3.5-122b-a10b"},
                                                             {"qwen3_5 397B-A17B", "qwen3.5-397b-a17b"}};
  return kModels;
}

/// The flavour that a function of a config_registry.py is called after: qwen3_30b_a3b_hybridep.
std::pair<std::string, std::string> named_by_function(const std::string& function) {
  std::pair<std::string, std::string> found;
  std::size_t longest = 0;
  for (const auto& [both, model] : models()) {
    std::string word = both;
    std::transform(word.begin(), word.end(), word.begin(),
                   [](unsigned char c) { return std::isalnum(c) != 0 ? static_cast<char>(std::tolower(c)) : '_'; });
    const bool ends = function.size() == word.size() || (function.size() > word.size() && function[word.size()] == '_');
    if (!function.starts_with(word) || !ends || word.size() <= longest) continue;
    longest = word.size();
    found = {both.substr(0, both.find(' ')), both.substr(both.find(' ') + 1)};
  }
  return found;
}

/// Whether it is a mixture. `maker`: the function of a file in Python that makes the configuration.
bool take_model(Sections& config, Draft& draft, const std::string& file, const std::string& maker) {
  std::string name = config.word({"model.name"}, "llama3"), flavor = config.word({"model.flavor"}, "debugmodel");
  const std::string function = config.word({"model.function"}, "");
  if (const auto [by_name, by_flavor] = named_by_function(function); !by_flavor.empty()) {
    std::tie(name, flavor) = std::pair(by_name, by_flavor);
    draft.first(
        fmt::format("model: {} {}, by the name of {}, which says no model in this file", name, flavor, function));
  }
  auto known = models().find(name + " " + flavor);
  // A file that lies in no folder of a model's, whose function is called after one of this flavour.
  if (const auto [by_name, by_flavor] = named_by_function(maker); known == models().end() && by_flavor == flavor) {
    draft.assumed("model", fmt::format("{} {}, by the name of {}", by_name, flavor, maker));
    name = by_name;
    known = models().find(name + " " + flavor);
  }
  const Settings* place = config.find("model.flavor");
  if (place == nullptr) place = config.find("model.name");
  if (known == models().end()) {
    std::vector<std::string> names;
    for (const auto& [both, model] : models()) names.push_back(both);
    const std::string message = fmt::format("got {} {}, expected one of {}", name, flavor, fmt::join(names, ", "));
    if (place == nullptr) throw sim::UserError({file, 1, 1}, "model.flavor", message);
    place->fail(message);
  }
  draft.set("model", known->second, place != nullptr ? place->place() : sim::Place{});
  if (name == "kimi_k2_7" || name == "qwen3_5")
    draft.first("vision encoder: left out, with the tokens of images; the language model alone is simulated");
  const Settings* seq = config.any({"training.seq_len", "training.max_context_length"});
  draft.apply(fmt::format("model.seq={}", seq != nullptr ? seq->as_int(1, 100'000'000) : 2048));
  return is_mixture(known->second);
}

/// The schedules of torch.distributed.pipelining.
std::string schedule_of(const Settings* given, std::int64_t chunks) {
  static const std::map<std::string, std::string> kSchedules = {
      {"1f1b", "1f1b"}, {"gpipe", "gpipe"}, {"interleaved1f1b", "interleaved_1f1b"}, {"zbvzerobubble", "zb_v"}};
  if (given == nullptr) return chunks > 1 ? "interleaved_1f1b" : "1f1b";
  std::string name = given->text();
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const auto known = kSchedules.find(name);
  if (known == kSchedules.end())
    given->fail(fmt::format("got {}, expected 1F1B, GPipe, Interleaved1F1B or ZBVZeroBubble", given->text()));
  return known->second;
}

/// Sequences of a rank's forward pass. Since August 2026 a batch is counted in tokens.
std::int64_t local_batch(Sections& config, Draft& draft) {
  const std::int64_t seq = draft.document().at("model").get_int("seq", 1);
  const Settings* tokens = config.find("training.num_tokens_per_microbatch_per_dp_rank");
  if (tokens == nullptr && config.find("training.max_context_length") == nullptr)
    return config.count({"training.local_batch_size", "training.batch_size"}, 8);
  const std::int64_t slots = tokens != nullptr ? tokens->as_int(1, 1'000'000'000) : 16'384;
  if (slots % seq == 0) return slots / seq;
  if (slots > seq)
    draft.first(
        fmt::format("training.num_tokens_per_microbatch_per_dp_rank = {}: no multiple of the {} tokens of a "
                    "sequence; one sequence of all of them is simulated",
                    slots, seq));
  draft.apply(fmt::format("model.seq={}", slots));
  return 1;
}

/// `shards`: ranks that other sequences go to.
void take_batch(Sections& config, Draft& draft, std::int64_t stages, std::int64_t ranks) {
  const std::int64_t local = local_batch(config, draft), seq = draft.document().at("model").get_int("seq", 1);
  const std::int64_t passes = config.count({"parallelism.num_pp_microbatches"}, 1);
  const bool in_tokens = config.asked("training.max_context_length") &&
                         (config.find("training.max_context_length") != nullptr ||
                          config.find("training.num_tokens_per_microbatch_per_dp_rank") != nullptr);
  const std::int64_t step_tokens = config.count({"training.num_tokens_per_train_step"}, -1, -1);
  std::int64_t global = config.count({"training.global_batch_size"}, -1, -1);
  if (global <= 0) global = step_tokens > 0 ? step_tokens / seq : local * ranks * (stages > 1 ? passes : 1);
  const Settings* said =
      config.any({"training.num_tokens_per_train_step", "training.num_tokens_per_microbatch_per_dp_rank",
                  "training.global_batch_size", "training.local_batch_size", "training.batch_size"});
  draft.set("batch.global", global, said != nullptr ? said->place() : sim::Place{});
  const bool cut = stages > 1 && !in_tokens;  // a pipeline cuts a rank's batch unless its passes are counted
  draft.set("batch.micro", cut ? config.count({"parallelism.pipeline_parallel_microbatch_size"}, 1) : local);
}

void take_layout(Sections& config, Draft& draft, std::int64_t gpus, bool mixture) {
  const auto degree = [&](const std::string& key, std::int64_t fallback, std::int64_t low = 1) {
    return config.count({"parallelism." + key, "training." + key, "experimental." + key}, fallback, low);
  };
  const std::int64_t tensor = degree("tensor_parallel_degree", 1), stages = degree("pipeline_parallel_degree", 1),
                     context = degree("context_parallel_degree", 1), expert = degree("expert_parallel_degree", 1),
                     copies = degree("data_parallel_replicate_degree", 1);
  std::int64_t shards = degree("data_parallel_shard_degree", -1, -1);
  std::int64_t rest = gpus;
  for (const std::int64_t part : {tensor, stages, context, copies}) rest = rest % part == 0 ? rest / part : 0;
  if (rest == 0) {
    throw sim::UserError(
        fmt::format("--gpus: got {}, expected a multiple of tensor {} x pipeline {} x context {} x replicas {}", gpus,
                    tensor, stages, context, copies));
  }
  if (shards < 1) shards = rest;
  if (shards != rest) {
    throw sim::UserError(fmt::format("--gpus: got {}, expected the {} that the degrees of the file multiply to", gpus,
                                     gpus / rest * shards));
  }
  draft.set("cluster.gpus", gpus);
  draft.set("parallelism.tensor", tensor);
  draft.set("parallelism.pipeline", stages);
  draft.set("parallelism.context", context);
  if (context > 1) {  // torch.distributed.tensor.experimental: set_rotate_method
    const char* const keys[] = {"parallelism.context_parallel_rotate_method",
                                "experimental.context_parallel_rotate_method"};
    const std::string rotate = config.word({keys[0], keys[1]}, "allgather");
    if (rotate != "allgather" && rotate != "alltoall")
      config.any({keys[0], keys[1]})->fail(fmt::format("got {}, expected allgather or alltoall", rotate));
    draft.set("parallelism.context_method", std::string(rotate == "allgather" ? "all_gather" : "ring"));
  }
  if (mixture) {
    const std::string by =
        config.word({"model.moe_comm_backend", "parallelism.expert_parallel_comm_backend"}, "standard");
    static const std::map<std::string, std::string> kDispatchers{
        {"standard", "alltoall"}, {"deepep", "deepep"}, {"hybridep", "hybridep"}};
    const auto known = kDispatchers.find(by);
    if (known == kDispatchers.end())
      draft.first(fmt::format("moe_comm_backend = {}: not known to orrery; all-to-all is simulated", by));
    if (expert > 1) draft.set("experts.dispatcher", known != kDispatchers.end() ? known->second : "alltoall");
  }
  if (expert > 1) {
    draft.set("parallelism.expert", expert);
    draft.set("parallelism.expert_tensor", degree("expert_tensor_parallel_degree", 1));
  }
  draft.set("parallelism.data", copies * shards);
  draft.set("parallelism.sequence_parallel", tensor > 1 && config.flag({"parallelism.enable_sequence_parallel"}, true));
  const Settings* schedule =
      config.any({"parallelism.pipeline_parallel_schedule", "experimental.pipeline_parallel_schedule"});
  const std::int64_t layers_each = config.count({"parallelism.pipeline_parallel_layers_per_stage"}, 0);
  if (layers_each > 0)
    draft.ignored("parallelism.pipeline_parallel_layers_per_stage",
                  "--set parallelism.virtual_pipeline=N says as much");
  if (stages > 1) {
    draft.set("parallelism.schedule", schedule_of(schedule, 1));
    if (schedule_of(schedule, 1) == "interleaved_1f1b") draft.set("parallelism.virtual_pipeline", std::int64_t{2});
  }
  const std::string reshard = config.word({"parallelism.fsdp_reshard_after_forward"}, "default");
  const bool keeps = reshard == "never" || (reshard == "default" && stages > 1);
  draft.set("parallelism.sharding", std::string(shards == 1 ? "none" : keeps ? "gradients" : "parameters"));
  if (copies > 1 && shards > 1 && !keeps) draft.set("parallelism.shard_group", shards);

  if (config.flag({"training.enable_cpu_offload"}, false)) {  // CPUOffloadPolicy: parameters, gradients and states
    draft.set("offload.optimizer", true);
    if (shards > 1 && !keeps) draft.set("offload.parameters", true);
  }
  take_batch(config, draft, stages, copies * shards);
}

std::int64_t layers_of(const Draft& draft) {
  const Settings& model = draft.document().at("model");
  return scenarios::resolve(scenarios::shelf_of("models"), model).document.get_int("layers", 0);
}

void take_checkpointing(Sections& config, Draft& draft) {
  const std::string mode = config.word({"activation_checkpoint.mode"}, "selective");
  const std::string option = config.word({"activation_checkpoint.selective_ac_option"}, "2");
  if (mode == "memory_budget") {
    const Settings* given = config.find("activation_checkpoint.memory_budget");
    const double budget = given != nullptr ? given->as_number(0, 1) : 0.5;
    const std::string taken = budget <= 0 ? "full" : "none";
    draft.set("recompute", taken);
    if (budget > 0 && budget < 1)
      draft.first(
          fmt::format("activation_checkpoint.memory_budget = {:g}: the compiler chooses what is computed again; none "
                      "is here, at the most memory; --set recompute=full for the least",
                      budget));
    return;
  }
  if (mode != "none" && mode != "selective" && mode != "full")
    config.find("activation_checkpoint.mode")
        ->fail(fmt::format("got {}, expected none, selective or full, or memory_budget", mode));
  if (mode != "selective") return draft.set("recompute", mode);
  if (option == "op") return draft.apply("recompute={kind: selective, modules: [every_second_product]}");
  // One block in so many is computed again as a whole (distributed/activation_checkpoint.py).
  const Settings* given = config.find("activation_checkpoint.selective_ac_option");
  const std::int64_t every = given != nullptr ? given->as_int(1, 10'000) : 2;
  const std::int64_t chunks = draft.document().at("parallelism").get_int("pipeline", 1) *
                              draft.document().at("parallelism").get_int("virtual_pipeline", 1);
  const std::int64_t blocks = layers_of(draft) / chunks / every;
  if (given == nullptr) draft.assumed("recompute", "every second block, the default of selective checkpointing");
  if (every == 1 || blocks == 0) return draft.set("recompute", std::string(every == 1 ? "full" : "none"));
  draft.set("recompute.kind", std::string("full"));
  draft.set("recompute.layers", blocks);
}

struct Converters {
  bool float8 = false, mx = false, nvfp4 = false, experts = false, lora = false;
  std::vector<std::string> others;
};

Converters converters_of(Sections& config) {
  Converters found;
  found.float8 = config.flag({"float8.enable_float8_linear"}, false);
  const Settings* list = config.find("model.converters");
  if (list == nullptr) return found;
  std::vector<std::string> names;
  if (list->is_sequence())
    for (const Settings& item : list->items()) names.push_back(item.is_scalar() ? item.text() : "?");
  else if (list->is_scalar())
    names.push_back(list->text());
  for (const std::string& name : names) {
    const auto has = [&](const char* word) { return name.find(word) != std::string::npos; };
    if (has("grouped_mm"))
      found.experts = true;
    else if (has("float8"))
      found.float8 = true;
    else if (has("nvfp4"))
      found.nvfp4 = true;
    else if (has("mx"))
      found.mx = true;
    else if (name == "lora")
      found.lora = true;
    else
      found.others.push_back(name);
  }
  return found;
}

void take_precision(Sections& config, Draft& draft, bool mixture) {
  const Converters by = converters_of(config);
  const std::string recipe = config.word({"float8.recipe_name", "quantize.linear.float8.recipe_name"}, "tensorwise");
  std::string type = by.nvfp4 ? "nvfp4" : by.mx ? "mxfp8" : "bf16";
  if (by.float8) type = recipe.starts_with("rowwise") ? "fp8-rowwise" : "fp8";
  const bool blackwell = type == "nvfp4" || type == "mxfp8";
  if (blackwell) {
    draft.set("cluster.device", std::string("b200-sxm-180gb"));
    draft.assumed("cluster.device", "b200-sxm-180gb, as " + type + " needs Blackwell");
  }
  draft.set("precision.matmul", type);
  draft.set("precision.activations", std::string("bf16"));
  if (by.experts && type == "bf16")
    draft.first("model.converters: products of experts alone are quantised there; all are bf16 here");
  if (!by.experts && type != "bf16" && mixture)
    draft.first(fmt::format("model.converters: products of experts stay in bf16 there; all are {} here", type));
  for (const std::string& name : by.others)
    draft.first(fmt::format("model.converters: {} is not known to orrery; nothing is converted by it", name));
  const std::string held = config.word({"training.dtype"}, "float32"),
                    computed = config.word({"training.mixed_precision_param"}, "bfloat16");
  if (held == "bfloat16") {
    draft.set("precision.master", std::string("none"));
  } else if (computed == "float32" && type == "bf16") {
    draft.set("precision.matmul", std::string("fp32"));
    draft.set("precision.activations", std::string("fp32"));
  }
  if (config.flag({"float8.enable_fsdp_float8_all_gather", "quantize.linear.float8.enable_fsdp_float8_all_gather"},
                  false) &&
      by.float8)
    draft.set("precision.parameters", std::string("fp8"));
  if (by.lora) {
    draft.set("finetune.kind", std::string("lora"));
    draft.set("finetune.rank", config.count({"lora.rank"}, 8));
    const Settings* modules = config.find("lora.target_modules");
    bool mlp = modules == nullptr || !modules->is_sequence();
    if (!mlp)
      for (const Settings& each : modules->items())
        mlp = mlp || (each.is_scalar() && each.text().starts_with("w") && each.text() != "wq" && each.text() != "wk" &&
                      each.text() != "wv" && each.text() != "wkv" && each.text() != "wqkv" && each.text() != "wo");
    draft.set("finetune.modules", std::string(mlp ? "all" : "attention"));
  }
}

void take_validation(Sections& config, Draft& draft) {
  const bool runs = config.flag({"validation.enable"}, false);
  const Settings *every = config.find("validation.freq"), *steps = config.find("validation.steps");
  if (!runs) {
    if (every != nullptr || steps != nullptr)
      draft.ignored("validation.freq, validation.steps", "without effect: validation.enable is not on");
    return;
  }
  const std::int64_t passes = steps != nullptr ? steps->as_int(-1, 1'000'000) : -1;
  if (passes < 1) return draft.first("validation.steps: all of a data set, whose size is not said; none is simulated");
  draft.set("evaluation.every_steps", every != nullptr ? every->as_int(1, 1'000'000'000) : 10);
  const std::int64_t ranks = draft.document().at("parallelism").get_int("data", 1);
  draft.set("evaluation.sequences",
            passes * ranks * config.count({"validation.local_batch_size"}, local_batch(config, draft)));
}

/// A step is replayed as one graph unless that is turned off, where batches are counted in tokens (August 2026 on).
void take_graphs(Sections& config, Draft& draft) {
  const bool newest = config.find("training.num_tokens_per_microbatch_per_dp_rank") != nullptr ||
                      config.find("training.max_context_length") != nullptr;
  const Settings* off = config.find("training.disable_cuda_graphs");
  const bool graphs = newest ? off == nullptr || !off->as_bool() : off != nullptr && !off->as_bool();
  if (graphs) draft.apply("software.features=[cuda-graphs]");
}

void take_work(Sections& config, Draft& draft, bool mixture) {
  take_checkpointing(config, draft);
  take_precision(config, draft, mixture);
  if (config.flag({"parallelism.enable_async_tensor_parallel", "experimental.enable_async_tensor_parallel",
                   "compile.enable_async_tensor_parallel"},
                  false))
    draft.set("overlap.tensor", true);
  if (config.word({"model.tp_gemm_backend"}, "default") == "dist_gemm") draft.set("overlap.tensor", true);
  bool compiled = config.flag({"training.compile", "compile.enable"}, false);
  if (const Settings* parts = config.find("compile.components"); parts != nullptr && parts->is_sequence()) {
    compiled = compiled && std::any_of(parts->items().begin(), parts->items().end(),
                                       [](const Settings& each) { return each.is_scalar() && each.text() == "model"; });
    for (const Settings& part : parts->items()) {
      if (part.is_scalar() && part.text() != "model")
        draft.ignored(fmt::format("compile.components: {}, compile.enable", part.text()), "that part runs as it does");
    }
  }
  const std::string software = compiled ? "torchtitan-2025.06" : "torchtitan-2025.08-eager";
  draft.set("software", software);
  if (!compiled)
    draft.first(
        "compile: the model is not, so that its blocks run operation by operation (software torchtitan-2025.08-eager)");
  draft.assumed("software", software + "; --set software=NAME for another release");
  take_graphs(config, draft);
  take_validation(config, draft);
  take_optimizer(config.word({"optimizer.name"}, "AdamW"), draft);
}

Draft torchtitan_draft(const std::string& file, const Settings& document, std::int64_t gpus, const std::string& maker) {
  if (document.find("training") == nullptr && document.find("model") == nullptr)
    throw sim::UserError({file, 1, 1}, "training", "is not there, expected a training configuration of TorchTitan");
  Sections config(document);
  Draft draft(fmt::format("{} (TorchTitan)", std::filesystem::path(file).filename().string()), {file, 1, 1});
  draft.set("name", std::filesystem::path(file).stem().string());
  draft.set("cluster.device", std::string("h100-sxm-80gb"));
  if (gpus > 8) draft.set("cluster.fabric", std::string("ndr-rail"));
  draft.assumed("cluster", "H100 on ndr-rail; --gpus N, --set cluster.device=NAME, --set cluster.fabric=NAME");
  const bool mixture = take_model(config, draft, file, maker);
  take_layout(config, draft, gpus, mixture);
  take_work(config, draft, mixture);
  tell_titan_keys(config, draft);
  config.remark_on_the_rest(draft, {}, "");
  return draft;
}
/// What a launch says over the file: --training.local_batch_size 4, --compile.enable, --training.no-compile.
void lay_overrides(const std::vector<std::string>& words, Settings& document) {
  const sim::Place place{"arguments", 1, 1};
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::size_t equals = words[i].find('=');
    std::string path = words[i].substr(0, equals);
    if (!path.starts_with("--") || path.find('.') == std::string::npos)
      throw sim::UserError(
          fmt::format("orrery: import torchtitan: got {}, expected an option such as "
                      "--training.local_batch_size 4",
                      words[i]));
    path.erase(0, 2);
    std::replace(path.begin(), path.end(), '-', '_');
    std::string text = equals != std::string::npos ? words[i].substr(equals + 1) : "";
    const bool apart = equals == std::string::npos && i + 1 < words.size() && !words[i + 1].starts_with("--");
    if (apart) text = words[++i];
    if (equals == std::string::npos && !apart) {
      const std::size_t dot = path.rfind('.') + 1;
      const bool off = path.compare(dot, 3, "no_") == 0;
      if (off) path.erase(dot, 3);
      text = off ? "false" : "true";
    }
    document.set_path(
        path, Settings::scalar(text == "True" || text == "False" ? (text == "True" ? "true" : "false") : text, place));
  }
}

}  // namespace

Draft import_torchtitan(const std::string& file, std::int64_t gpus, const std::string& function,
                        const std::vector<std::string>& overrides) {
  TitanConfig config;
  if (file.ends_with(".py"))
    config = read_titan_python(file, function);
  else
    config.document = read_toml(file);
  lay_overrides(overrides, config.document);
  return tell_idle_keys(config.document, [&](const Settings& document) {
    Draft draft = torchtitan_draft(file, document, gpus, config.function);
    if (!config.function.empty()) draft.set("name", config.function);
    for (const std::string& what : config.remarks) draft.ignored(what);
    if (!config.none.empty())
      draft.ignored(fmt::format("{} = None", fmt::join(config.none, ", ")), "what stands without it is simulated");
    if (!config.open.empty())
      draft.first(
          fmt::format("{}: only a run can say; what stands without it is simulated", fmt::join(config.open, "; ")));
    return draft;
  });
}

}  // namespace orrery::tools
