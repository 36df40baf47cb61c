// `orrery import torchtitan`: a training configuration of TorchTitan (torchtitan/models/*/train_configs/*.toml). What a
// key means, and its default, is that of torchtitan/config_manager.py and torchtitan/config/job_config.py (pytorch/
// torchtitan, December 2024 to September 2025; keys that moved between sections are read from both). Left out: models
// of the user's own, and flavours made for debugging.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "sim/error.h"
#include "tools/import/idle_keys.h"
#include "tools/import/import.h"
#include "tools/import/known_optimizers.h"
#include "tools/import/sections.h"

namespace orrery::tools {

using sim::Settings;

namespace {

/// Names and flavours of torchtitan/models as models that ship.
const std::map<std::string, std::string>& models() {
  static const std::map<std::string, std::string> kModels = {{"llama3 8B", "llama3.1-8b"},
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
                                                             {"qwen3 0.6B", "qwen3-0.6b"},
                                                             {"qwen3 1.7B", "qwen3-1.7b"},
                                                             {"qwen3 4B", "qwen3-4b"},
                                                             {"qwen3 8B", "qwen3-8b"},
                                                             {"qwen3 14B", "qwen3-14b"},
                                                             {"qwen3 32B", "qwen3-32b"}};
  return kModels;
}

void take_model(Sections& config, Draft& draft, const std::string& file) {
  const std::string name = config.word({"model.name"}, "llama3"), flavor = config.word({"model.flavor"}, "debugmodel");
  const auto known = models().find(name + " " + flavor);
  const Settings* place = config.any({"model.flavor", "model.name"});
  if (known == models().end()) {
    std::vector<std::string> names;
    for (const auto& [both, model] : models()) names.push_back(both);
    const std::string message = fmt::format("got {} {}, expected one of {}", name, flavor, fmt::join(names, ", "));
    if (place == nullptr) throw sim::UserError({file, 1, 1}, "model.flavor", message);
    place->fail(message);
  }
  draft.set("model", known->second, place != nullptr ? place->place() : sim::Place{});
  const Settings* seq = config.find("training.seq_len");
  draft.apply(fmt::format("model.seq={}", seq != nullptr ? seq->as_int(1, 100'000'000) : 2048));
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

void take_layout(Sections& config, Draft& draft, std::int64_t gpus) {
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
  if (expert > 1) {
    draft.set("parallelism.expert", expert);
    draft.set("parallelism.expert_tensor", degree("expert_tensor_parallel_degree", 1));
  }
  draft.set("parallelism.data", copies * shards);
  draft.set("parallelism.sequence_parallel", tensor > 1);
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
  const std::int64_t local = config.count({"training.local_batch_size", "training.batch_size"}, 8);
  const std::int64_t global = config.count({"training.global_batch_size"}, -1, -1);
  const sim::Settings* said =
      config.any({"training.global_batch_size", "training.local_batch_size", "training.batch_size"});
  draft.set("batch.global", global > 0 ? global : local * copies * shards,
            said != nullptr ? said->place() : sim::Place{});
  draft.set("batch.micro", stages > 1 ? config.count({"parallelism.pipeline_parallel_microbatch_size"}, 1) : local);
}

void take_work(Sections& config, Draft& draft) {
  const std::string mode = config.word({"activation_checkpoint.mode"}, "selective");
  if (mode != "none" && mode != "selective" && mode != "full")
    config.find("activation_checkpoint.mode")->fail(fmt::format("got {}, expected none, selective or full", mode));
  const std::string option = config.word({"activation_checkpoint.selective_ac_option"}, "2");
  const bool by_operation = mode == "selective" && option == "op";
  if (by_operation)
    draft.apply("recompute={kind: selective, modules: [every_second_product]}");
  else
    draft.set("recompute", mode);
  if (mode == "selective" && !by_operation)
    draft.assumed("recompute", fmt::format("selective_ac_option {}: the core of attention is computed again", option));
  bool fp8 = config.flag({"float8.enable_float8_linear"}, false);
  if (const Settings* converters = config.find("model.converters");
      converters != nullptr && converters->is_sequence()) {
    for (const Settings& item : converters->items()) fp8 = fp8 || item.text().find("float8") != std::string::npos;
  }
  const std::string recipe = config.word({"float8.recipe_name", "quantize.linear.float8.recipe_name"}, "tensorwise");
  draft.set("precision", std::string(!fp8 ? "bf16" : recipe.starts_with("rowwise") ? "fp8-rowwise" : "fp8"));
  if (config.flag({"parallelism.enable_async_tensor_parallel", "experimental.enable_async_tensor_parallel"}, false))
    draft.set("overlap.tensor", true);
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
  take_optimizer(config.word({"optimizer.name"}, "AdamW"), draft);
}

Draft torchtitan_draft(const std::string& file, const Settings& document, std::int64_t gpus) {
  if (document.find("training") == nullptr && document.find("model") == nullptr)
    throw sim::UserError({file, 1, 1}, "training", "is not there, expected a training configuration of TorchTitan");
  Sections config(document);
  Draft draft(fmt::format("{} (TorchTitan)", std::filesystem::path(file).filename().string()), {file, 1, 1});
  draft.set("name", std::filesystem::path(file).stem().string());
  draft.set("cluster.device", std::string("h100-sxm-80gb"));
  if (gpus > 8) draft.set("cluster.fabric", std::string("ndr-rail"));
  draft.assumed("cluster", "H100 on ndr-rail; --gpus N, --set cluster.device=NAME, --set cluster.fabric=NAME");
  take_model(config, draft, file);
  take_layout(config, draft, gpus);
  take_work(config, draft);
  config.remark_on_the_rest(draft,
                            {"job", "profiling", "metrics", "optimizer", "lr_scheduler", "checkpoint", "comm",
                             "training", "model", "validation", "float8", "compile", "activation_checkpoint",
                             "fault_tolerance", "memory_estimation", "faketensor", "mx", "debug"},
                            "changes no work of a step that is modelled");
  return draft;
}
}  // namespace

Draft import_torchtitan(const std::string& file, std::int64_t gpus) {
  if (file.ends_with(".py")) {
    read_text(file);
    throw sim::UserError(
        {file, 1, 1}, "torchtitan",
        "got a configuration in Python (TorchTitan since February 2026), which is not read, expected the TOML of "
        "releases before; its model, degrees and batch make a scenario: orrery run --model M --device D --gpus N");
  }
  return tell_idle_keys(read_toml(file),
                        [&](const Settings& document) { return torchtitan_draft(file, document, gpus); });
}

}  // namespace orrery::tools
