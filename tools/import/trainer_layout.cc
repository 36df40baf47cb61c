// Degrees of Axolotl (dp_shard_size, tensor_parallel_size, context_parallel_size, expert_parallel_size), of
// LLaMA-Factory's two ways to Megatron-Core (tensor_model_parallel_size, ...) and of its second version (cp_size,
// mp_shard_size, dist_config.ep_size). Sources: axolotl utils/distributed.py (build_parallelism_config) and
// utils/config (torch_dtype), accelerate's accelerator.py (prepare_model makes shards of FSDP fp32) and LLaMA-Factory's
// model/adapter.py (cast_trainable_params_to_fp32).
#include "tools/import/trainer_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

namespace orrery::tools {

using sim::Settings;

namespace {

struct Degrees {
  std::int64_t tensor, pipeline, context, expert, shard, copies;  // shard, copies: 0 where they are not given
  std::int64_t model() const { return tensor * pipeline * context; }
};

Degrees degrees_of(Sections& config, Trainer trainer) {
  if (trainer == Trainer::llama_factory_v1)
    return {1,
            1,
            config.count({"cp_size"}, 1),
            config.count({"dist_config.ep_size"}, 1),
            config.count({"mp_shard_size"}, 0),
            config.count({"mp_replicate_size"}, 0)};
  return {config.count({"tensor_parallel_size", "tensor_model_parallel_size"}, 1),
          config.count({"pipeline_model_parallel_size"}, 1),
          config.count({"context_parallel_size", "sequence_parallel_degree"}, 1),
          config.count({"expert_parallel_size", "expert_model_parallel_size"}, 1),
          config.count({"dp_shard_size"}, 0),
          config.count({"dp_replicate_size"}, 0)};
}

/// Megatron-Core's own arguments, which LLaMA-Factory hands on.
bool take_megatron_core(Sections& config, Draft& draft) {
  const std::array kMarks{"tensor_model_parallel_size", "pipeline_model_parallel_size", "expert_model_parallel_size",
                          "use_distributed_optimizer"};
  const bool here =
      std::any_of(kMarks.begin(), kMarks.end(), [&](const char* key) { return config.find(key) != nullptr; });
  if (!here) return false;
  draft.set("software", std::string("megatron-core-0.16"));
  draft.forget("software");
  draft.assumed("software", "megatron-core-0.16, by arguments of Megatron-Core's");
  draft.set("parallelism.sharding",
            std::string(config.flag({"use_distributed_optimizer"}, false) ? "optimizer" : "none"));
  if (config.flag({"sequence_parallel"}, false) && config.count({"tensor_model_parallel_size"}, 1) > 1)
    draft.set("parallelism.sequence_parallel", true);
  if (const std::int64_t chunks = config.count({"virtual_pipeline_model_parallel_size"}, 1); chunks > 1) {
    draft.set("parallelism.virtual_pipeline", chunks);
    draft.set("parallelism.schedule", std::string("interleaved_1f1b"));
  }
  if (const std::int64_t cut = config.count({"expert_tensor_parallel_size"}, 0); cut > 0)
    draft.set("parallelism.expert_tensor", cut);
  draft.set("overlap.gradients", config.flag({"overlap_grad_reduce"}, false));
  draft.set("overlap.parameters", config.flag({"overlap_param_gather"}, false));
  const std::string again = config.word({"recompute_granularity"}, "none");
  draft.set("recompute", again == "full" || again == "selective" ? again : std::string("none"));
  // Of the kernels that the generation has in any case.
  for (const char* key : {"bias_activation_fusion", "apply_rope_fusion", "moe_grouped_gemm"}) {
    if (!config.flag({key}, true)) draft.first(fmt::format("{}: false: the fused kernel runs here", key));
  }
  if (const std::string by = config.word({"moe_token_dispatcher_type"}, "alltoall"); by != "alltoall")
    draft.first(fmt::format("moe_token_dispatcher_type: {}: tokens go by all-to-all here", by));
  return true;
}

/// Groups of shards: what dp_shard_size says, over context ranks too, since FSDP shards over both.
void take_shard_groups(const Degrees& degrees, std::int64_t data, Draft& draft) {
  const Settings* sharding = draft.document().find_path("parallelism.sharding");
  if (sharding == nullptr || sharding->text() == "none" || sharding->text() == "optimizer") return;
  std::int64_t group = degrees.shard;
  if (group == 0 && degrees.copies > 1 && data % degrees.copies == 0) group = data / degrees.copies;
  if (group <= 0 || group * degrees.context >= data * degrees.context) return;
  if (group == 1) return draft.set("parallelism.sharding", std::string("none"));
  draft.set("parallelism.shard_group", group * degrees.context);
}

}  // namespace

std::int64_t take_trainer_degrees(Sections& config, Draft& draft, Trainer trainer, std::int64_t gpus) {
  const bool megatron = trainer != Trainer::llama_factory_v1 && take_megatron_core(config, draft);
  const Degrees degrees = degrees_of(config, trainer);
  const std::int64_t data_at_least =
      std::max({std::int64_t{1}, std::max<std::int64_t>(degrees.shard, 1) * std::max<std::int64_t>(degrees.copies, 1),
                megatron ? std::int64_t{1} : degrees.expert});
  std::int64_t needed = degrees.model() * data_at_least;
  if (megatron) needed = std::max(needed, degrees.pipeline * degrees.expert);
  std::int64_t all = gpus;
  if (gpus % needed != 0) {
    all = needed;
    draft.first(fmt::format("cluster.gpus: {}, which the degrees of the file multiply to, not {}", needed, gpus));
  }
  draft.set("cluster.gpus", all);
  if (all > 8) draft.set("cluster.fabric", std::string("ndr-rail"));
  for (const auto& [key, degree] : {std::pair("parallelism.tensor", degrees.tensor),
                                    {"parallelism.pipeline", degrees.pipeline},
                                    {"parallelism.context", degrees.context},
                                    {"parallelism.expert", degrees.expert}}) {
    if (degree > 1) draft.set(key, degree);
  }
  if (trainer == Trainer::llama_factory_v1 && degrees.context > 1 && config.word({"cp_mode"}, "ulysses") == "ulysses")
    draft.set("parallelism.context_method", std::string("all_to_all"));
  const std::int64_t data = all / degrees.model();
  if (!megatron) take_shard_groups(degrees, data, draft);
  return data;
}

void take_trainer_precision(Sections& config, Draft& draft, Trainer trainer) {
  const Settings *half = config.find("fp16"), *brain = config.find("bf16");
  const std::string brain_text = brain != nullptr && brain->is_scalar() ? brain->text() : "";
  const bool is_half = half != nullptr && half->is_scalar() && half->text() == "true";
  const bool eight = config.flag({"fp8"}, false);
  draft.set("precision", std::string(eight ? "fp8" : is_half ? "fp16" : "bf16"));
  if (eight) {
    config.find("fp8_backend");
    if (config.flag({"fp8_enable_fsdp_float8_all_gather"}, false))
      draft.ignored("fp8_enable_fsdp_float8_all_gather", "weights are gathered in bf16 here");
  }
  const bool as_always = brain_text.empty() || brain_text == "true" || brain_text == "auto" || brain_text == "full";
  if (!as_always && !is_half)
    draft.first(
        fmt::format("bf16: {}: what is trained in fp32 is not modelled; --set precision=NAME for another", brain_text));
  // Weights as they are loaded, with gradients and states of their type: in LLaMA-Factory where it is asked for, in
  // Axolotl wherever no FSDP or ZeRO makes fp32 of its shards.
  const Settings* sharding = draft.document().find_path("parallelism.sharding");
  const bool whole = sharding != nullptr && sharding->text() == "none";
  const bool pure = config.flag({"pure_bf16"}, false);
  const bool plain_axolotl = trainer == Trainer::axolotl && whole && as_always && brain != nullptr && !is_half;
  if (draft.has("finetune") || eight || !(pure || plain_axolotl)) return;
  draft.apply("precision={matmul: bf16, activations: bf16, gradients: bf16, parameters: bf16}");
  draft.assumed("precision", pure ? "weights, gradients and states in bf16, by pure_bf16"
                                  : "weights, gradients and states in bf16, in which Axolotl loads a model; FSDP and "
                                    "DeepSpeed would hold fp32");
}

void take_trainer_method(Sections& config, Draft& draft) {
  const auto pairs = [&](const std::string& what) {
    draft.first(
        fmt::format("{}: the step of fine-tuning alone is simulated: sequences that are chosen and rejected, and "
                    "the reference's pass over both, add about as much again; --set batch.global=N for their "
                    "number",
                    what));
  };
  const auto answers = [&](const std::string& what) {
    draft.first(
        fmt::format("{}: the training step alone is simulated; what generates the answers is of `orrery rl`, "
                    "whose scenarios `orrery list` names",
                    what));
  };
  const std::string rl = config.word({"rl"}, ""), stage = config.word({"stage"}, "sft");
  if (rl == "grpo" || rl == "gdpo" || rl == "ebft")
    answers("rl: " + rl);
  else if (!rl.empty() && rl != "null" && rl != "false")
    pairs("rl: " + rl);
  if (stage == "ppo")
    answers("stage: ppo");
  else if (stage == "dpo" || stage == "kto" || stage == "rm")
    pairs("stage: " + stage);
  else if (stage != "sft" && stage != "pt")
    draft.first("stage: " + stage + ": not known; the step of fine-tuning is simulated");
  for (const char* key : {"reward_model", "process_reward_model"}) {
    if (config.flag({key}, false)) pairs(std::string(key) + ": true");
  }
  struct Other {
    const char *key, *said;
  };
  constexpr std::array kOthers{
      Other{"use_galore", "states of low rank: states of full size are simulated, which are larger"},
      Other{"use_apollo", "states of low rank: states of full size are simulated, which are larger"},
      Other{"use_badam", "one block is trained at a time: all are simulated, with more gradients and states"},
      Other{"use_adam_mini", "one second moment a block: states of full size are simulated, which are larger"},
      Other{"use_llama_pro", "blocks are added and the others frozen: the model as it ships is trained whole here"},
      Other{"use_dft_loss", nullptr},
      Other{"use_asft_loss", "a reference's pass beside each: not simulated"},
      Other{"use_eaft_loss", nullptr},
      Other{"use_kt", "experts computed by the host: all is simulated on the GPUs"},
      Other{"relora", "adapters that are merged and begun anew: plain adapters are simulated"},
      Other{"lisa_n_layers", "some layers are trained at a time: all are simulated"},
      Other{"unfrozen_parameters", "the rest is frozen: all is trained here"},
      Other{"qat", "weights pass through the low type and back: those kernels are not simulated"},
      Other{"diffusion", "masked tokens are predicted: causal attention is simulated"},
      Other{"mixture_of_depths", "some tokens pass a block by: all go through here"},
      Other{"quantize_moe_experts", "experts held in 4 or 8 bits: as finetune.kind says here"},
      Other{"activation_offloading", "activations go to the host: they are held on the GPU here"},
  };
  for (const Other& other : kOthers) {
    const Settings* value = config.find(other.key);
    if (value == nullptr || (value->is_scalar() && (value->text() == "false" || value->is_null()))) continue;
    if (other.said != nullptr) draft.first(fmt::format("{}: {}", other.key, other.said));
  }
  if (config.flag({"use_muon"}, false)) draft.set("optimizer", std::string("muon"));
}

}  // namespace orrery::tools
