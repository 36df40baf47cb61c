// `orrery import nanotron`: a configuration of Hugging Face's nanotron (YAML). What a key means, and its default, is
// that of src/nanotron/config/config.py and parallelism_config.py. The model is one of Llama's shape (LlamaConfig) or
// Qwen 2's (Qwen2Config), with experts where moe_config is there. Left out: data, checkpoints, S3.
#include <fmt/format.h>

#include <filesystem>

#include "scenarios/scenario.h"
#include "sim/error.h"
#include "tools/import/idle_keys.h"
#include "tools/import/import.h"
#include "tools/import/known_optimizers.h"
#include "tools/import/known_vocabularies.h"
#include "tools/import/sections.h"
#include "workloads/schedules/schedule.h"

namespace orrery::tools {

using sim::Settings;

namespace {

constexpr std::int64_t kMostNanotronRanks = 1 << 20;

void take_nanotron_model(Sections& config, Draft& draft, const Settings& document) {
  const Settings* sizes = document.find_path("model.model_config");
  const auto take = [&](const char* theirs, const char* ours, bool needed) {
    const Settings* value = config.find(std::string("model.model_config.") + theirs);
    if (value == nullptr && needed) sizes->fail(fmt::format("holds no {}, expected a model's sizes", theirs));
    if (value != nullptr) draft.set(ours, value->as_int(1, 1'000'000'000), value->place());
  };
  draft.set("model.kind", std::string("gpt"));
  take("num_hidden_layers", "model.layers", true);
  take("hidden_size", "model.hidden", true);
  take("num_attention_heads", "model.heads", true);
  take("num_key_value_heads", "model.kv_heads", false);
  take("intermediate_size", "model.ffn_hidden", true);
  take("vocab_size", "model.vocab", true);
  if (const Settings* experts = config.find("model.model_config.moe_config.num_experts"); experts != nullptr) {
    draft.set("model.kind", std::string("moe"));
    draft.set("model.experts", experts->as_int(1, 100'000), experts->place());
    take("moe_config.top_k", "model.top_k", true);
    take("moe_config.moe_intermediate_size", "model.expert_ffn_hidden", true);
  }
  const bool qwen = config.flag({"model.model_config.is_qwen2_config"}, false);
  if (const Settings* llama = config.find("model.model_config.is_llama_config"); llama != nullptr && !llama->as_bool())
    draft.ignored("is_llama_config: false", "a model of Llama's kind is simulated");
  if (qwen && config.find("model.model_config.attention_bias") != nullptr)
    draft.ignored("is_qwen2_config", "attention_bias says whether there are biases");
  draft.set("model.gated_mlp", true);
  draft.set("model.positions", std::string("rotary"));
  draft.set("model.norm", std::string("rms_norm"));
  draft.set("model.biases", std::string(config.flag({"model.model_config.attention_bias"}, qwen) ? "qkv" : "none"));
  draft.set("model.tied_embeddings", config.flag({"model.model_config.tie_word_embeddings"}, false));
  const Settings* length = config.find("tokens.sequence_length");
  if (length == nullptr)
    throw sim::UserError(document.place(), "tokens.sequence_length", "is not there, expected the tokens of a sequence");
  draft.set("model.seq", length->as_int(1, 100'000'000), length->place());
}

std::int64_t take_nanotron_layout(Sections& config, Draft& draft) {
  const auto degree = [&](const char* key) {
    const std::int64_t value = config.count({std::string("parallelism.") + key}, 1);
    if (value > kMostNanotronRanks) config.find(std::string("parallelism.") + key)->fail("expected at most 1048576");
    return value;
  };
  const std::int64_t data = degree("dp"), stages = degree("pp"), tensor = degree("tp"),
                     expert = degree("expert_parallel_size"), context = degree("context_parallel_size");
  if (data * stages > kMostNanotronRanks || data * stages * tensor > kMostNanotronRanks ||
      data * stages * tensor * context > kMostNanotronRanks)
    config.find("parallelism.dp")->fail("makes more than 1048576 GPUs with the others, expected fewer");
  const std::int64_t gpus = data * stages * tensor * context;
  draft.set("cluster.device", std::string("h100-sxm-80gb"));
  draft.set("cluster.gpus", gpus);
  if (gpus > 8) draft.set("cluster.fabric", std::string("ndr-rail"));
  draft.assumed("cluster", "H100 on ndr-rail; --set cluster.device=NAME, --set cluster.fabric=NAME");
  draft.set("parallelism.tensor", tensor);
  draft.set("parallelism.pipeline", stages);
  draft.set("parallelism.context", context);
  draft.set("parallelism.data", data);
  if (expert > 1) draft.set("parallelism.expert", expert);
  const std::string engine = config.word({"parallelism.pp_engine"}, "1f1b");
  if (engine != "1f1b" && engine != "afab")
    config.find("parallelism.pp_engine")->fail(fmt::format("got {}, expected 1f1b or afab", engine));
  if (stages > 1)
    draft.set("parallelism.schedule", std::string(engine == "afab" ? "gpipe" : workloads::usual_schedule(1).name));
  const std::string mode = config.word({"parallelism.tp_mode"}, "ALL_REDUCE");
  if (mode != "ALL_REDUCE" && mode != "REDUCE_SCATTER")
    config.find("parallelism.tp_mode")->fail(fmt::format("got {}, expected ALL_REDUCE or REDUCE_SCATTER", mode));
  draft.set("parallelism.sequence_parallel", mode == "REDUCE_SCATTER" && tensor > 1);
  const bool async = config.flag({"parallelism.tp_linear_async_communication"}, false);
  draft.set("overlap.tensor", async && tensor > 1);
  if (async && tensor == 1) draft.ignored("tp_linear_async_communication", "without effect: there is one tensor rank");
  return data;
}

Draft nanotron_draft(const std::string& file, const Settings& document) {
  const bool known = document.is_mapping() && document.find_path("model.model_config") != nullptr &&
                     document.find_path("model.model_config")->is_mapping() && document.find("parallelism") != nullptr;
  if (!known)
    throw sim::UserError({file, 1, 1}, "model.model_config",
                         "is not there, or no parallelism, expected a configuration of nanotron");
  Sections config(document);
  Draft draft(fmt::format("{} (nanotron)", std::filesystem::path(file).filename().string()), {file, 1, 1});
  draft.set("name", std::filesystem::path(file).stem().string());
  take_nanotron_model(config, draft, document);
  const std::int64_t data = take_nanotron_layout(config, draft);
  const std::int64_t micro = config.count({"tokens.micro_batch_size"}, 1),
                     steps = config.count({"tokens.batch_accumulation_per_replica"}, 1);
  if (micro > 1'000'000 || steps > 1'000'000) config.any({"tokens.micro_batch_size"})->fail("expected at most 1000000");
  draft.set("batch.micro", micro);
  draft.set("batch.global", micro * steps * data);
  const std::int64_t stage = config.count({"optimizer.zero_stage"}, 0, 0);
  if (stage > 1)
    config.find("optimizer.zero_stage")
        ->fail(fmt::format("got {}, expected 0 or 1, the stages that nanotron has", stage));
  draft.set("parallelism.sharding", std::string(stage >= 1 ? "optimizer" : "none"));
  const std::string type = config.word({"model.dtype"}, "bfloat16");
  if (type != "bfloat16" && type != "float16")
    config.find("model.dtype")->fail(fmt::format("got {}, expected bfloat16 or float16", type));
  draft.set("precision.matmul", std::string(type == "float16" ? "fp16" : "bf16"));
  draft.set("precision.gradients",
            std::string(config.flag({"optimizer.accumulate_grad_in_fp32"}, true) ? "fp32" : "bf16"));
  draft.set("recompute", std::string(config.flag({"parallelism.recompute_layer"}, false) ? "full" : "none"));
  take_optimizer(config.word({"optimizer.optimizer_factory.name"}, "adamW"), draft);
  pad_vocabulary(draft, config.count({"model.make_vocab_size_divisible_by"}, 1));
  draft.set("software", std::string("nanotron-2025"));  // which fills up no rows by itself
  draft.assumed("software", "nanotron-2025; --set software=NAME for another");
  const std::int64_t iterations = config.count({"tokens.train_steps"}, 0, -1);
  if (iterations > 0)
    draft.set("training.tokens",
              fmt::format("{:.0f}", static_cast<double>(iterations) * static_cast<double>(micro * steps * data) *
                                        static_cast<double>(draft.document().at("model").get_int("seq", 1))));
  config.remark_on_the_rest(draft,
                            {"general",
                             "checkpoints",
                             "logging",
                             "profiler",
                             "data_stages",
                             "lighteval",
                             "metrics_logging",
                             "s3_upload",
                             "tokenizer",
                             "optimizer",
                             "tokens.limit_test_batches",
                             "tokens.limit_val_batches",
                             "tokens.val_check_interval",
                             "model.ddp_bucket_cap_mb",
                             "model.init_method",
                             "model.model_config.hidden_act",
                             "model.model_config.rms_norm_eps",
                             "model.model_config.rope_theta",
                             "model.model_config.rope_scaling",
                             "model.model_config.rope_interleaved",
                             "model.model_config.initializer_range",
                             "model.model_config.bos_token_id",
                             "model.model_config.eos_token_id",
                             "model.model_config.pad_token_id",
                             "model.model_config.pretraining_tp",
                             "model.model_config.use_cache",
                             "model.model_config.max_position_embeddings"},
                            "changes no work of a step that is modelled");
  return draft;
}

}  // namespace

Draft import_nanotron(const std::string& file) {
  read_text(file);
  return tell_idle_keys(read_python_yaml(file),
                        [&](const Settings& document) { return nanotron_draft(file, document); });
}

}  // namespace orrery::tools
