// `orrery import deepspeed`: a configuration of DeepSpeed (ds_config.json). What a key means, and its default, is that
// of DeepSpeed's documentation (deepspeed.ai/docs/config-json) and deepspeed/runtime/config.py. The file knows no model
// and no cluster: --set model=NAME and --gpus say them. Left out: pipelines, which a script makes and not the file,
// sparse attention, compression, curriculum learning, and what "auto" stands for.
#include <fmt/format.h>

#include <filesystem>

#include "scenarios/scenario.h"
#include "sim/error.h"
#include "tools/import/deepspeed_keys.h"
#include "tools/import/idle_keys.h"
#include "tools/import/import.h"
#include "tools/import/known_optimizers.h"
#include "tools/import/sections.h"

namespace orrery::tools {

using sim::Settings;

namespace {

/// "auto" is filled in by Hugging Face's Trainer at run time.
const Settings* said(const Settings* value) {
  return value != nullptr && value->is_scalar() && value->text() == "auto" ? nullptr : value;
}

constexpr std::int64_t kMostSequences = 1'000'000'000,
                       kMostOfAGpu = 1'000'000;  // those of batch.global and batch.micro

std::int64_t count_or(const Settings* value, std::int64_t fallback, std::int64_t most) {
  value = said(value);
  return value == nullptr ? fallback : value->as_int(1, most);
}

void take_batch(Sections& config, Draft& draft, std::int64_t replicas) {
  const Settings *total = said(config.find("train_batch_size")),
                 *each = said(config.find("train_micro_batch_size_per_gpu")),
                 *steps = said(config.find("gradient_accumulation_steps"));
  std::int64_t micro = count_or(each, 0, kMostOfAGpu), global = count_or(total, 0, kMostSequences);
  const std::int64_t accumulated = count_or(steps, 0, kMostOfAGpu);  // so that their product fits with a million ranks
  // Of the three any two give the third (deepspeed/runtime/config.py, _set_batch_related_parameters).
  if (micro == 0 && global > 0)
    micro = std::max<std::int64_t>(1, global / replicas / std::max<std::int64_t>(1, accumulated));
  if (micro == 0) {
    micro = 1;
    draft.assumed("batch", "1 sequence on a GPU; the file says auto or nothing; --set batch.micro=N, batch.global=N");
  }
  if (global == 0) global = micro * std::max<std::int64_t>(1, accumulated) * replicas;
  draft.set("batch.micro", micro, each != nullptr ? each->place() : sim::Place{});
  draft.set("batch.global", global, total != nullptr ? total->place() : sim::Place{});
}

/// The device of a part that DeepSpeed can move: in the host's memory, or not at all.
bool lies_with_host(Sections& config, const std::string& part) {
  const std::string key = fmt::format("zero_optimization.{}.device", part), device = config.word({key}, "none");
  if (device != "none" && device != "cpu") {
    config.find(key)->fail(
        fmt::format("got {}, expected cpu or none: a step's traffic with NVMe disks is not modelled", device));
  }
  return device == "cpu";
}

/// deepspeed/runtime/zero/offload_config.py: parameters in stage 3 alone, a ratio of the states likewise.
void take_offload(Sections& config, std::int64_t stage, Draft& draft) {
  const bool older = config.flag({"zero_optimization.cpu_offload"}, false);  // ahead of v0.3.16's sections
  const bool states = lies_with_host(config, "offload_optimizer") || older,
             weights = lies_with_host(config, "offload_param");
  if (config.flag({"zero_optimization.cpu_offload_param"}, false) && !weights)
    draft.first("zero_optimization.cpu_offload_param: true: say it as offload_param: {device: cpu}, which is read");
  if (states) {
    draft.set("offload.optimizer", true);
    const char* const key = "zero_optimization.offload_optimizer.ratio";
    if (const Settings* ratio = said(config.find(key)); ratio != nullptr) {
      const double share = ratio->as_number(0, 1);
      if (stage == 3 && share < 1) draft.set("offload.optimizer_fraction", fmt::format("{:g}", share), ratio->place());
    }
  }
  if (!weights) return;
  const Settings& device = *config.find("zero_optimization.offload_param.device");
  if (stage != 3) device.fail(fmt::format("got cpu with stage {}, expected none, or stage 3", stage));
  const bool alone = draft.document().at("cluster").get_int("gpus", 1) == 1;
  if (!states || alone) {
    return draft.ignored("zero_optimization.offload_param",
                         "modelled with offload_optimizer on cpu, over several GPUs");
  }
  draft.set("offload.parameters", true);
}

/// ZeRO++ (deepspeed/runtime/zero/config.py): in stage 3 alone.
void take_quantisation(Sections& config, std::int64_t stage, Draft& draft) {
  const auto key = [](const char* name) { return fmt::format("zero_optimization.zero_{}", name); };
  const bool weights = config.flag({key("quantized_weights")}, false),
             gradients = config.flag({key("quantized_gradients")}, false);
  const std::int64_t inside = count_or(config.find(key("hpz_partition_size")), 1, kMostOfAGpu);
  if (stage != 3) return;
  if (weights) draft.apply("software.fetched_as=int8");
  if (gradients) draft.apply("software.reduced_as=int4");
  if (inside > 1) draft.set("parallelism.secondary_group", inside, config.find(key("hpz_partition_size"))->place());
}

void take_sharding(Sections& config, Draft& draft) {
  const Settings* given = config.find("zero_optimization.stage");
  const std::int64_t stage = given == nullptr ? 0 : given->as_int(0, 3);
  static constexpr const char* kSharding[] = {"none", "optimizer", "gradients", "parameters"};
  draft.set("parallelism.sharding", std::string(kSharding[stage]), given != nullptr ? given->place() : sim::Place{});
  draft.set("software", std::string("deepspeed-2026"));
  draft.assumed("software", "deepspeed-2026, around models of Hugging Face's; --set software=NAME for another");
  take_quantisation(config, stage, draft);
  const std::string sums = config.word({"data_types.grad_accum_dtype"}, "");
  if (sums == "fp32" || sums == "float32") draft.apply("software.defaults.precision.gradients=fp32");
  if (config.flag({"zero_optimization.overlap_comm"}, stage == 3)) {
    draft.set("overlap.gradients", true);
    if (stage == 3) draft.set("overlap.parameters", true);
  }
  const auto bucket = [&](const char* key, const char* to) {
    const Settings* elements = said(config.find(std::string("zero_optimization.") + key));
    if (elements != nullptr && stage == 3)
      draft.ignored(key, "of stage 3: parameters and gradients go a layer at a time here");
    if (elements == nullptr || stage == 3) return;
    // Counted in elements, of 2 bytes.
    draft.apply(fmt::format("software.{}={:.0f} B", to, std::min(1e12, 2 * elements->as_number(1, 1e12))));
  };
  bucket("reduce_bucket_size", "gradient_bucket");
  bucket("allgather_bucket_size", "parameter_bucket");
  // MiCS (deepspeed/runtime/zero/mics.py): weights are shared out in groups of so many ranks.
  if (const Settings* group = said(config.find("zero_optimization.mics_shard_size")); group != nullptr) {
    const std::int64_t ranks = group->as_int(-1, kMostOfAGpu);
    if (ranks > 0 && stage == 3) draft.set("parallelism.shard_group", ranks, group->place());
  }
  take_offload(config, stage, draft);
}

void take_precision(Sections& config, Draft& draft) {
  const Settings *half = said(config.find("fp16.enabled")),
                 *brain = said(config.any({"bf16.enabled", "bfloat16.enabled"}));
  const bool fp16 = half != nullptr && half->as_bool(), bf16 = brain != nullptr && brain->as_bool();
  if (fp16 && bf16) brain->fail("got both fp16 and bf16, expected one of them");
  draft.set("precision", std::string(fp16 ? "fp16" : "bf16"));
  if (!fp16 && !bf16) draft.assumed("precision", "bf16; the file turns on neither fp16 nor bf16");
}

Draft deepspeed_draft(const std::string& file, const Settings& document, std::int64_t gpus,
                      const std::vector<std::string>& sets) {
  const bool known = document.is_mapping() &&
                     (document.find("zero_optimization") != nullptr || document.find("train_batch_size") != nullptr ||
                      document.find("train_micro_batch_size_per_gpu") != nullptr);
  if (!known) {
    throw sim::UserError({file, 1, 1}, "zero_optimization",
                         "is not there, nor is train_batch_size, expected a configuration of DeepSpeed");
  }
  bool model = false;
  for (const std::string& set : sets) model = model || set.starts_with("model");
  if (!model) {
    throw sim::UserError({file, 1, 1}, "model",
                         "is not in a configuration of DeepSpeed, expected --set model=NAME (orrery list models)");
  }
  Sections config(document);
  Draft draft(fmt::format("{} (DeepSpeed)", std::filesystem::path(file).filename().string()), {file, 1, 1});
  draft.set("name", std::filesystem::path(file).stem().string());
  draft.set("cluster.device", std::string("h100-sxm-80gb"));
  draft.set("cluster.gpus", gpus);
  if (gpus > 8) draft.set("cluster.fabric", std::string("ndr-rail"));
  draft.assumed("cluster", "H100 on ndr-rail; --gpus N, --set cluster.device=NAME, --set cluster.fabric=NAME");
  const std::int64_t tensor = config.count({"tensor_parallel.autotp_size", "tensor_parallel.tp_size"}, 1);
  if (gpus % tensor != 0)
    throw sim::UserError(
        fmt::format("--gpus: got {}, expected a multiple of the file's {} tensor ranks", gpus, tensor));
  draft.set("parallelism.tensor", tensor);
  draft.set("parallelism.data", gpus / tensor);
  take_sharding(config, draft);
  take_batch(config, draft, gpus / tensor);
  take_precision(config, draft);
  take_optimizer(config.word({"optimizer.type"}, "AdamW"), draft);
  if (config.find("activation_checkpointing") != nullptr) {
    draft.set("recompute", std::string("full"));
    draft.assumed("recompute", "full: activation_checkpointing says how, the training script whether");
  } else {
    draft.assumed("recompute", kScriptSays);
  }
  tell_deepspeed_keys(config, draft);
  return draft;
}

}  // namespace

Draft import_deepspeed(const std::string& file, std::int64_t gpus, const std::vector<std::string>& sets) {
  read_text(file);
  return tell_idle_keys(scenarios::read_yaml(file),  // JSON is YAML
                        [&](const Settings& document) { return deepspeed_draft(file, document, gpus, sets); });
}

}  // namespace orrery::tools
