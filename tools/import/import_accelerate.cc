// `orrery import accelerate`: a configuration of Hugging Face Accelerate (`accelerate config` writes it). What a key
// means, and its default, is that of accelerate/commands/config/config_args.py and accelerate/utils/dataclasses.py
// (July 2026). The file knows neither the model nor the batch of a GPU, which the training script says: --set
// model=NAME and batch.micro do. Left out: TPUs, SageMaker, processors without GPUs.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "scenarios/library.h"
#include "scenarios/scenario.h"
#include "sim/error.h"
#include "tools/import/idle_keys.h"
#include "tools/import/import.h"
#include "tools/import/sections.h"
#include "workloads/schedules/schedule.h"

namespace orrery::tools {

using sim::Settings;

namespace {

std::string lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

/// A flag as Accelerate writes it: true, 'no', 'YES'.
bool said_yes(const Settings* value, bool fallback) {
  if (value == nullptr) return fallback;
  const std::string text = lower_case(value->is_scalar() ? value->text() : "");
  if (text == "yes" || text == "no") return text == "yes";
  return value->as_bool();
}

void take_fsdp_strategy(Sections& config, Draft& draft, std::int64_t gpus) {
  const auto key = [](const char* name) { return std::string("fsdp_config.fsdp_") + name; };
  const std::int64_t version = config.count({key("version")}, 1);
  if (version > 2) config.find(key("version"))->fail(fmt::format("got {}, expected 1 or 2", version));
  std::string strategy = lower_case(config.word({key("sharding_strategy")}, "full_shard"));
  if (const Settings* reshard = config.find(key("reshard_after_forward")); reshard != nullptr) {
    const std::string word = lower_case(reshard->is_scalar() ? reshard->text() : "");
    strategy = word == "true" ? "full_shard" : word == "false" ? "shard_grad_op" : word;
  }
  static const std::vector<std::string> kStrategies{"full_shard", "shard_grad_op", "no_shard", "hybrid_shard",
                                                    "hybrid_shard_zero2"};
  if (strategy.size() == 1 && strategy[0] >= '1' && strategy[0] <= '5')
    strategy = kStrategies[static_cast<std::size_t>(strategy[0] - '1')];
  if (std::find(kStrategies.begin(), kStrategies.end(), strategy) == kStrategies.end()) {
    config.any({key("reshard_after_forward"), key("sharding_strategy")})
        ->fail(fmt::format("got {}, expected one of {}", strategy, fmt::join(kStrategies, ", ")));
  }
  const bool whole = strategy == "full_shard" || strategy == "hybrid_shard";
  draft.set("parallelism.sharding", std::string(whole ? "parameters" : strategy == "no_shard" ? "none" : "gradients"));
  if (strategy == "hybrid_shard" && gpus > 8) draft.set("parallelism.shard_group", std::int64_t{8});
  if (strategy == "hybrid_shard_zero2")
    draft.ignored("hybrid_shard_zero2", "gradients are sharded over all GPUs here, not within a node");
  const std::string prefetch = lower_case(config.word({key("backward_prefetch")}, "backward_pre"));
  if (prefetch != "no_prefetch" && prefetch != "backward_pre" && prefetch != "backward_post")
    config.find(key("backward_prefetch"))
        ->fail(fmt::format("got {}, expected BACKWARD_PRE, BACKWARD_POST or NO_PREFETCH", prefetch));
  if (prefetch == "backward_post")
    draft.ignored("fsdp_backward_prefetch BACKWARD_POST", "parameters are gathered ahead, as with BACKWARD_PRE");
  draft.set("overlap.gradients", true);
  draft.set("overlap.parameters", prefetch != "no_prefetch");
  const Settings* again = config.find(key("activation_checkpointing"));
  draft.set("recompute", std::string(said_yes(again, false) ? "full" : "none"));
  if (again == nullptr)
    draft.assumed("recompute",
                  "none, as without fsdp_activation_checkpointing; where the training script says otherwise: "
                  "--set recompute=full");
  if (said_yes(config.find(key("offload_params")), false)) {  // states go where the parameters are
    draft.set("offload.optimizer", true);
    if (whole && gpus > 1) draft.set("offload.parameters", true);
  }
  draft.set("software", std::string(version >= 2 ? "accelerate-2026" : "llm-foundry"));
  draft.assumed("software", version >= 2 ? "accelerate-2026; --set software=NAME for another"
                                         : "llm-foundry, which runs FSDP1 too; --set software=NAME for another");
}

void take_zero_stage(Sections& config, Draft& draft) {
  const auto key = [](const char* name) { return std::string("deepspeed_config.") + name; };
  const Settings* given = config.find(key("zero_stage"));
  const std::int64_t stage = given == nullptr ? 2 : given->as_int(0, 3);  // the plugin's default
  static constexpr const char* kSharding[] = {"none", "optimizer", "gradients", "parameters"};
  draft.set("parallelism.sharding", std::string(kSharding[stage]));
  draft.set("overlap.gradients", stage == 3);
  draft.set("overlap.parameters", stage == 3);
  draft.set("software", std::string("deepspeed-2026"));
  draft.assumed("software", "deepspeed-2026; --set software=NAME for another");
  draft.assumed("recompute", kScriptSays);
  const auto lies_with_host = [&](const char* part) {
    const std::string device = lower_case(config.word({key(part)}, "none"));
    if (device != "none" && device != "cpu") {
      config.find(key(part))->fail(
          fmt::format("got {}, expected cpu or none: a step's traffic with NVMe disks is not modelled", device));
    }
    return device == "cpu";
  };
  const bool states = lies_with_host("offload_optimizer_device"), weights = lies_with_host("offload_param_device");
  if (states) draft.set("offload.optimizer", true);
  const bool gathers = stage == 3 && draft.document().at("cluster").get_int("gpus", 1) > 1;
  if (weights && states && gathers) draft.set("offload.parameters", true);
  if (weights && !(states && gathers))
    draft.ignored(key("offload_param_device"),
                  "modelled of stage 3 over several GPUs, with offload_optimizer_device: cpu");
}

/// How many GPUs one replica takes beside data parallelism.
std::int64_t take_megatron_degrees(Sections& config, Draft& draft) {
  const auto key = [](const char* name) { return std::string("megatron_lm_config.megatron_lm_") + name; };
  const std::int64_t tensor = config.count({key("tp_degree")}, 1), stages = config.count({key("pp_degree")}, 1);
  if (tensor > 1 << 20 || stages > 1 << 20) config.any({key("tp_degree"), key("pp_degree")})->fail("expected fewer");
  draft.set("parallelism.tensor", tensor);
  draft.set("parallelism.pipeline", stages);
  draft.set("parallelism.schedule", std::string(workloads::usual_schedule(1).name));
  draft.set("parallelism.sequence_parallel", tensor > 1 && said_yes(config.find(key("sequence_parallelism")), true));
  draft.set("parallelism.sharding",
            std::string(said_yes(config.find(key("use_distributed_optimizer")), true) ? "optimizer" : "none"));
  draft.set("recompute", std::string(said_yes(config.find(key("recompute_activations")), true) ? "selective" : "none"));
  draft.set("software", std::string(scenarios::kDefaultSoftware));
  draft.assumed("software", fmt::format("{}; --set software=NAME for another generation", scenarios::kDefaultSoftware));
  return tensor * stages;
}

/// Degrees of `parallelism_config`, with which FSDP2 is combined.
std::int64_t take_degrees(Sections& config, Draft& draft) {
  const auto degree = [&](const char* name) {
    const std::int64_t value = config.count({std::string("parallelism_config.parallelism_config_") + name}, 1, -1);
    return std::clamp<std::int64_t>(value, 1, 1 << 20);
  };
  const std::int64_t tensor = degree("tp_size"), context = degree("cp_size"), copies = degree("dp_replicate_size"),
                     shards = degree("dp_shard_size");
  draft.set("parallelism.tensor", tensor);
  draft.set("parallelism.context", context);
  if (context > 1) {
    const std::string way = config.word({"parallelism_config.parallelism_config_cp_comm_strategy"}, "allgather");
    draft.set("parallelism.context_method", std::string(way == "alltoall" ? "ring" : "all_gather"));
  }
  if (copies > 1 && shards > 1) draft.set("parallelism.shard_group", shards);
  return tensor * context;
}

/// What the user says of a GPU's batch, so that the whole batch goes with it; 1 where nothing is said.
std::int64_t micro_batch(const std::vector<std::string>& sets) {
  std::int64_t micro = 1;
  for (const std::string& set : sets) {
    if (set.starts_with("batch.micro=")) micro = Settings::scalar(set.substr(12), {"--set", 1, 1}).as_int(1, 1'000'000);
  }
  return micro;
}

void take_mixed_precision(Sections& config, Draft& draft) {
  const Settings* given = config.find("mixed_precision");
  const std::string type = lower_case(given != nullptr && given->is_scalar() ? given->text() : "no");
  if (type != "no" && type != "bf16" && type != "fp16" && type != "fp8")
    given->fail(fmt::format("got {}, expected no, fp16, bf16 or fp8", type));
  draft.set("precision", type == "no" ? std::string("bf16") : type);
  if (type == "no")
    draft.assumed("precision", "bf16; without mixed precision the model's own type is used, often fp32");
}

Draft accelerate_draft(const std::string& file, const Settings& document, const std::vector<std::string>& sets) {
  const Settings* kind = document.is_mapping() ? document.find("distributed_type") : nullptr;
  if (kind == nullptr) {
    throw sim::UserError({file, 1, 1}, "distributed_type", "is not there, expected a configuration of Accelerate");
  }
  const bool model =
      std::any_of(sets.begin(), sets.end(), [](const std::string& set) { return set.starts_with("model"); });
  if (!model) {
    throw sim::UserError({file, 1, 1}, "model",
                         "is not in a configuration of Accelerate, expected --set model=NAME (orrery list models)");
  }
  Sections config(document);
  const std::string type = kind->as_choice({"NO", "MULTI_GPU", "FSDP", "DEEPSPEED", "MEGATRON_LM"});
  const std::int64_t gpus = config.count({"num_processes"}, 1);
  if (gpus > 1 << 20) config.find("num_processes")->fail(fmt::format("expected at most 1048576, got {}", gpus));
  const std::string beside = config.word({"deepspeed_config.deepspeed_config_file"}, "");
  config.find("distributed_type");
  if (type == "DEEPSPEED" && !beside.empty()) {
    const std::filesystem::path there = std::filesystem::path(file).parent_path() / beside;
    Draft draft = import_deepspeed(there.string(), gpus, sets);
    draft.set("name", std::filesystem::path(file).stem().string());
    return draft;
  }
  Draft draft(fmt::format("{} (Accelerate)", std::filesystem::path(file).filename().string()), {file, 1, 1});
  draft.set("name", std::filesystem::path(file).stem().string());
  draft.set("cluster.device", std::string("h100-sxm-80gb"));
  draft.set("cluster.gpus", gpus);
  const std::int64_t machines = config.count({"num_machines"}, 1);
  if (machines > 1 && gpus % machines == 0) draft.set("cluster.gpus_per_node", gpus / machines);
  if (gpus > 8 || machines > 1) draft.set("cluster.fabric", std::string("ndr-rail"));
  draft.assumed("cluster", "H100 on ndr-rail; --set cluster.device=NAME, --set cluster.fabric=NAME");
  std::int64_t replica = type == "MEGATRON_LM" ? take_megatron_degrees(config, draft) : take_degrees(config, draft);
  if (type == "FSDP") take_fsdp_strategy(config, draft, gpus);
  if (type == "DEEPSPEED") take_zero_stage(config, draft);
  if (type == "MULTI_GPU" || type == "NO") {
    draft.set("parallelism.sharding", std::string("none"));
    draft.set("overlap.gradients", true);
    draft.set("software", std::string("accelerate-2026"));
    draft.assumed("software", "accelerate-2026; --set software=NAME for another");
  }
  if (replica < 1 || gpus % replica != 0)
    throw sim::UserError({file, 1, 1}, "num_processes",
                         fmt::format("got {}, expected a multiple of the {} ranks of a replica", gpus, replica));
  const std::int64_t data = gpus / replica;
  draft.set("parallelism.data", data);
  const std::int64_t accumulated = std::clamp<std::int64_t>(
      config.count({"deepspeed_config.gradient_accumulation_steps", "megatron_lm_config.megatron_lm_num_micro_batches"},
                   1),
      1, 1'000'000);
  const std::int64_t micro = micro_batch(sets);
  draft.set("batch.micro", micro);
  draft.set("batch.global", accumulated * data * micro);
  draft.assumed("batch", fmt::format("{} sequence(s) on a GPU, as the file does not say; --set batch.micro=N", micro));
  take_mixed_precision(config, draft);
  config.remark_on_the_rest(draft,
                            {"compute_environment",
                             "debug",
                             "downcast_bf16",
                             "machine_rank",
                             "main_process_ip",
                             "main_process_port",
                             "main_training_function",
                             "rdzv_backend",
                             "same_network",
                             "use_cpu",
                             "tpu_env",
                             "tpu_name",
                             "tpu_zone",
                             "tpu_use_cluster",
                             "tpu_use_sudo",
                             "tpu_vm",
                             "commands",
                             "command_file",
                             "gpu_ids",
                             "enable_cpu_affinity",
                             "mpirun_config",
                             "fp8_config",
                             "fsdp_config",
                             "deepspeed_config",
                             "megatron_lm_config",
                             "dynamo_config",
                             "dynamo_backend",
                             "num_machines",
                             "ipex_config"},
                            "changes no work of a step that is modelled, or goes with the generation of software");
  return draft;
}

}  // namespace

Draft import_accelerate(const std::string& file, const std::vector<std::string>& sets) {
  read_text(file);
  return tell_idle_keys(read_python_yaml(file),
                        [&](const Settings& document) { return accelerate_draft(file, document, sets); });
}

}  // namespace orrery::tools
