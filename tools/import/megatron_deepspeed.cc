// Options of Megatron-DeepSpeed. See megatron_deepspeed.h. The stage is DeepSpeed's configuration file's to say, which
// scripts write in a here-document; where it is not in the script, that of --zero-stage is taken. Left out: pyramids of
// experts, residual MLPs, random token dropping, curricula, teachers: each is said first where a line has it.
#include "tools/import/megatron_deepspeed.h"

#include <fmt/format.h>

#include <array>
#include <set>
#include <utility>

#include "scenarios/scenario.h"
#include "sim/error.h"
#include "tools/import/sections.h"

namespace orrery::tools {

bool is_megatron_deepspeed(const Launch& launch) {
  constexpr std::array<const char*, 6> kFlags{"deepspeed", "deepspeed-config",          "zero-stage",
                                              "deepscale", "ds-sequence-parallel-size", "moe-expert-parallel-size"};
  return std::any_of(kFlags.begin(), kFlags.end(), [&](const char* flag) { return launch.has(flag); });
}

std::int64_t deepspeed_sequence_ranks(Launch& launch) {
  return launch.has("ds-sequence-parallel-size") ? launch.count("ds-sequence-parallel-size").value_or(1) : 1;
}

void take_deepspeed_mixture(Launch& launch, Draft& draft) {
  draft.set("model.top_k", launch.count("topk").value_or(1), launch.place("topk"));
  // Experts stand in the last of every so many layers (megatron/model/transformer.py, ParallelTransformer).
  const std::int64_t every = launch.count("expert-interval").value_or(2);
  if (every > 1) draft.set("model.moe_every", every, launch.place("expert-interval"));
  // An expert's weights lie whole on a rank, unless tensor ranks are asked to cut them.
  if (!launch.flag("enable-expert-tensor-parallelism")) draft.set("parallelism.expert_tensor", std::int64_t{1});
  const auto capacity = launch.value("moe-train-capacity-factor");
  if (!launch.flag("disable-moe-token-dropping")) {
    draft.set("experts.capacity_factor", capacity ? capacity->text() : std::string("1"),
              launch.place("moe-train-capacity-factor"));
    draft.set("experts.pad_to_capacity", true);
  }
  const auto kind = launch.value("mlp-type");
  if (kind && kind->as_choice({"standard", "residual"}) == "residual")
    draft.first("--mlp-type residual: the MLP that runs beside the experts is left out");
}

namespace {

/// The configuration of DeepSpeed that a script writes, where it does and all that it holds is known; else a mapping
/// without members.
sim::Settings written_config(const Launch& launch) {
  for (const std::string& document : launch.documents()) {
    if (document.find("zero_optimization") == std::string::npos) continue;
    try {
      sim::Settings config = scenarios::parse_yaml(document, launch.place().file);  // JSON is YAML
      const sim::Settings* stage = config.is_mapping() ? config.find_path("zero_optimization.stage") : nullptr;
      if (stage != nullptr && stage->is_scalar() && stage->text().find_first_not_of("0123456789") == std::string::npos)
        return config;
    } catch (const sim::UserError&) {  // of variables that nobody assigned: --zero-stage stands
      continue;
    }
  }
  return sim::Settings::mapping(launch.place());
}

/// What it says beside the stage, where that is not what the line says, and the rest by name.
void compare(Sections& config, Draft& draft) {
  const std::string which = "DeepSpeed's configuration in the script";
  const std::int64_t micro = config.count({"train_micro_batch_size_per_gpu"}, 0, 0),
                     taken = draft.document().at("batch").get_int("micro", 0);
  if (micro > 0 && micro != taken)
    draft.first(fmt::format("--micro-batch-size {}: {} has train_micro_batch_size_per_gpu {}", taken, which, micro));
  const std::int64_t global = config.count({"train_batch_size"}, 0, 0),
                     all = draft.document().at("batch").get_int("global", 0);
  if (global > 0 && global != all)
    draft.first(fmt::format("--global-batch-size {}: {} has train_batch_size {}", all, which, global));
  const bool fp16 = config.flag({"fp16.enabled"}, false),
             bf16 = config.flag({"bf16.enabled", "bfloat16.enabled"}, false);
  const std::string wide = draft.document().at("precision").at("activations").text(), named = fp16 ? "fp16" : "bf16";
  if ((fp16 || bf16) && named != wide)
    draft.first(fmt::format("precision: {} is taken, as the launch says; {} has {}", wide, which, named));
  if (config.word({"zero_optimization.offload_optimizer.device"}, "none") == "cpu" ||
      config.flag({"zero_optimization.cpu_offload"}, false))
    draft.set("offload.optimizer", true);
  config.remark_on_the_rest(
      draft,
      {"gradient_clipping", "steps_per_print", "wall_clock_breakdown", "fp16", "bf16", "zero_optimization",
       "prescale_gradients", "flops_profiler", "tensorboard", "comms_logger", "zero_allow_untested_optimizer"},
      "of " + which + ", changes no work of a step that is modelled");
}

void take_stage(Launch& launch, Draft& draft) {
  static constexpr std::array<const char*, 4> kSharding{"none", "optimizer", "gradients", "parameters"};
  auto stage = launch.count("zero-stage", 0);
  const sim::Settings written = written_config(launch);
  Sections config(written);
  const std::int64_t own = config.count({"zero_optimization.stage"}, -1, 0);
  if (own >= 0) {
    if (stage && *stage != own)
      draft.first(fmt::format("--zero-stage {}: DeepSpeed's configuration in the script has stage {}, which holds",
                              *stage, own));
    if (own > 3) config.find("zero_optimization.stage")->fail(fmt::format("got {}, expected 0 to 3", own));
    launch.words("deepspeed-config");
    launch.flag("deepspeed");
    draft.set("parallelism.sharding", std::string(kSharding.at(static_cast<std::size_t>(own))));
    return compare(config, draft);
  }
  const std::vector<std::string> file = launch.words("deepspeed-config");  // its name may be what only a run says
  const std::string named = file.empty() ? "DeepSpeed's configuration" : file[0];
  const bool runs = launch.flag("deepspeed");
  if (stage && *stage > 3) launch.refuse("zero-stage", fmt::format("got {}, expected 0 to 3", *stage));
  if (stage) {
    draft.set("parallelism.sharding", std::string(kSharding.at(static_cast<std::size_t>(*stage))),
              launch.place("zero-stage"));
    draft.assumed("parallelism.sharding",
                  fmt::format("ZeRO's stage {}, as --zero-stage says; {} holds, which is not read", *stage, named));
  } else if (runs || !file.empty()) {
    draft.first(
        fmt::format("parallelism.sharding: ZeRO's stage stands in {}, which is not read, and no --zero-stage is given: "
                    "no sharding is taken; --set parallelism.sharding=optimizer, gradients or parameters",
                    named));
  }
}

}  // namespace

namespace {
/// The pipeline engine's optimizer for bf16 is one of ZeRO's first stage where none is asked for (DeepSpeed,
/// runtime/engine.py, _do_optimizer_sanity_check; runtime/bf16_optimizer.py: fp32 copies, states and their update are
/// parted among the ranks of data parallelism).
void part_bf16_states(const Launch& launch, Draft& draft) {
  const bool bf16 = draft.document().at("precision").at("activations").text() == "bf16";
  const sim::Settings* sharding = draft.document().find_path("parallelism.sharding");
  const bool pipeline = launch.has("deepspeed") && !launch.has("no-pipeline-parallel");
  if (!bf16 || !pipeline || sharding == nullptr || sharding->text() != "none") return;
  draft.set("parallelism.sharding", std::string("optimizer"));
  draft.assumed("parallelism.sharding", "optimizer: DeepSpeed's optimizer for bf16 parts its states without ZeRO too");
}
}  // namespace

void take_deepspeed(Launch& launch, Draft& draft) {
  take_stage(launch, draft);
  part_bf16_states(launch, draft);
  launch.flag("deepspeed-activation-checkpointing");  // the way of --checkpoint-activations
  if (launch.flag("no-pipeline-parallel") && draft.document().at("parallelism").get_int("pipeline", 1) > 1)
    draft.first("--no-pipeline-parallel: without effect here beside --pipeline-model-parallel-size of more than 1");
  if (launch.flag("cpu-optimizer")) draft.set("offload.optimizer", true);
  launch.flag("cpu-torch-adam");
  for (const char* flag : {"use-flash-attn-v1", "use-flash-attn-v2", "use-flash-attn-triton"})
    if (launch.flag(flag)) draft.set("attention", std::string("flash"));
  if (!launch.flag("use-flash-attn") && !draft.has("attention")) {
    const bool shared = draft.document().at("parallelism").get_int("context", 1) > 1;
    draft.set("attention", std::string(shared ? "flash" : "unfused"));
    if (shared)
      draft.first("attention: the line asks for no FlashAttention, which is simulated beside ranks of a sequence");
  }
  if (launch.flag("enable-zbh1-pipeline")) draft.set("parallelism.schedule", std::string("zb_h1"));
  launch.flag("enable-zbh1-exact-semantics");
  static constexpr std::array<std::pair<const char*, const char*>, 7> kNotSimulated{
      {{"mos", "a teacher's forward pass in each step is left out"},
       {"kd", "a teacher's forward pass in each step is left out"},
       {"curriculum-learning-legacy", "sequences grow in training; those at its end are simulated"},
       {"random-ltd", "layers that drop tokens run whole"},
       {"ds-sequence-parallel-fpdt", "chunks of a sequence and their offload are left out"},
       {"ds-sequence-parallel-fpdt-offloading", "chunks of a sequence and their offload are left out"},
       {"compression-training", "compression is left out"}}};
  for (const auto& [flag, why] : kNotSimulated)
    if (launch.has(flag) && launch.flag(flag)) draft.first(fmt::format("--{}: {}", flag, why));
  draft.set("software", std::string("megatron-deepspeed-2022"));
  draft.assumed("software", "megatron-deepspeed-2022, for DeepSpeed's options; --set software=NAME for another");
}

}  // namespace orrery::tools
