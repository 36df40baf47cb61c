// `orrery import nemo`: a configuration of NeMo 1 (examples/nlp/language_modeling/conf/megatron_gpt_config.yaml): the
// sections trainer, exp_manager and model, with NeMo's defaults and Megatron-Core's rules where a key is left out.
// Interpolations of OmegaConf are followed where they name another key (${model.hidden_size}, ${.hidden_size}) or
// multiply (${multiply:4, ${.hidden_size}}). Left out: mixtures of experts, adapters; NeMo 2's recipes
// are read by import_recipe.cc.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <set>

#include "tools/import/idle_keys.h"
#include "tools/import/import.h"
#include "tools/import/known_optimizers.h"
#include "tools/import/known_vocabularies.h"
#include "tools/import/sections.h"
#include "workloads/schedules/schedule.h"

namespace orrery::tools {

using sim::Place;
using sim::Settings;

namespace {

constexpr int kDeepest = 16;          // interpolations within interpolations
constexpr int kMostLookups = 10'000;  // of one file; products of products grow fast

/// A section of the configuration: readers that follow interpolations, and note which keys were asked for.
class Section {
 public:
  Section(const Settings& document, const Settings& members) : document_(document), members_(members) {}

  /// The value with interpolations followed; nothing when absent or null.
  std::optional<Settings> find(const std::string& key) {
    asked_.insert(key);
    const Settings* member = members_.find(key);
    if (member == nullptr) return std::nullopt;
    return resolved(*member, 0);
  }
  std::optional<std::int64_t> count(const std::string& key, std::int64_t low = 1) {
    const std::optional<Settings> given = find(key);
    if (!given) return std::nullopt;
    return given->as_int(low, 1'000'000'000'000);
  }
  std::int64_t need(const std::string& key) {
    const std::optional<std::int64_t> given = count(key);
    if (!given) members_.fail(fmt::format("holds no {}; a configuration of NeMo has it", key));
    return *given;
  }
  bool flag(const std::string& key, bool fallback = false) {
    const std::optional<Settings> given = find(key);
    return given ? given->as_bool() : fallback;
  }
  std::string word(const std::string& key, const std::string& fallback) {
    const std::optional<Settings> given = find(key);
    return given && given->is_scalar() ? given->text() : fallback;
  }
  Place place(const std::string& key) const {
    const Settings* member = members_.find(key);
    return member != nullptr ? member->place() : members_.place();
  }
  [[noreturn]] void refuse(const std::string& key, const std::string& message) const {
    const Settings* member = members_.find(key);
    (member != nullptr ? *member : members_).fail(message);
  }
  std::vector<std::string> unasked() const {
    std::vector<std::string> rest;
    for (const auto& [name, member] : members_.members()) {
      if (!asked_.contains(name)) rest.push_back(name);
    }
    return rest;
  }

 private:
  Settings resolved(const Settings& member, int depth) const {
    const std::string& text = member.is_scalar() ? member.text() : "";
    if (!text.starts_with("${") || !text.ends_with("}")) return member;
    if (depth >= kDeepest || ++lookups_ > kMostLookups)
      member.fail("refers to itself, or through too many other keys, expected a number");
    const std::string inside = text.substr(2, text.size() - 3);
    if (inside.starts_with("multiply:")) return product(member, inside.substr(9), depth);
    const Settings* target = inside.starts_with(".") ? &members_ : &document_;
    std::string_view rest = inside;
    if (rest.starts_with(".")) rest.remove_prefix(1);
    while (target != nullptr && !rest.empty()) {
      const std::size_t dot = rest.find('.');
      target = target->is_mapping() ? target->find(rest.substr(0, dot)) : nullptr;
      rest = dot == std::string_view::npos ? std::string_view{} : rest.substr(dot + 1);
    }
    if (target == nullptr) member.fail(fmt::format("got {}, which names no key of this file, expected a value", text));
    return resolved(*target, depth + 1);
  }

  Settings product(const Settings& member, const std::string& factors, int depth) const {
    std::int64_t result = 1;
    std::size_t begin = 0;
    int open = 0;
    for (std::size_t at = 0; at <= factors.size(); ++at) {
      if (at < factors.size() && factors[at] == '{') ++open;
      if (at < factors.size() && factors[at] == '}') --open;
      if (at < factors.size() && (factors[at] != ',' || open > 0)) continue;
      std::string factor = factors.substr(begin, at - begin);
      begin = at + 1;
      factor.erase(0, factor.find_first_not_of(' '));
      Settings holder = Settings::mapping(member.place());
      holder.set(member.path(), Settings::scalar(factor, member.place()));
      const std::int64_t value = resolved(holder.members().front().second, depth + 1).as_int(1, 1'000'000);
      if (__builtin_mul_overflow(result, value, &result)) member.fail("multiplies to more than 2^63");
    }
    return Settings::scalar(std::to_string(result), member.place());
  }

  const Settings& document_;
  const Settings& members_;
  std::set<std::string> asked_;
  mutable int lookups_ = 0;
};

const Settings& section_of(const Settings& document, const char* key) {
  static const Settings kNone = Settings::mapping({});
  const Settings* section = document.find(key);
  return section != nullptr && section->is_mapping() ? *section : kNone;
}

void take_model(Section& model, Draft& draft) {
  draft.set("model.kind", std::string("gpt"));
  if (model.count("num_moe_experts").value_or(1) > 1)
    model.refuse("num_moe_experts", "a mixture of experts is not imported yet, expected a dense model");
  const std::int64_t hidden = model.need("hidden_size"), heads = model.need("num_attention_heads");
  draft.set("model.layers", model.need("num_layers"), model.place("num_layers"));
  draft.set("model.hidden", hidden, model.place("hidden_size"));
  draft.set("model.heads", heads, model.place("num_attention_heads"));
  draft.set("model.kv_heads", model.count("num_query_groups").value_or(heads), model.place("num_query_groups"));
  if (const auto width = model.count("kv_channels")) draft.set("model.head_dim", *width, model.place("kv_channels"));
  const std::string activation = model.word("activation", "gelu");
  const bool gated =
      activation == "swiglu" || activation == "geglu" || activation == "reglu" || activation.starts_with("fast-");
  draft.set("model.gated_mlp", gated);
  if (activation == "relu") draft.set("model.activation", activation);
  draft.set("model.ffn_hidden", model.count("ffn_hidden_size").value_or(4 * hidden), model.place("ffn_hidden_size"));
  draft.set("model.seq", model.count("encoder_seq_length").value_or(512), model.place("encoder_seq_length"));
  if (const auto vocab = model.count("override_vocab_size")) {
    draft.set("model.vocab", *vocab, model.place("override_vocab_size"));
  } else {
    draft.set("model.vocab", std::int64_t{50257});
    draft.assumed("model.vocab", "50257, that of GPT-2's tokenizer: the file names none; --set model.vocab=N");
  }
  draft.set("model.tied_embeddings", model.flag("share_embeddings_and_output_weights", true));
  const std::string positions = model.word("position_embedding_type", "learned_absolute");
  draft.set("model.positions", std::string(positions == "rope"               ? "rotary"
                                           : positions == "learned_absolute" ? "learned"
                                                                             : "none"));
  const std::string norm = model.word("normalization", "layernorm1p");
  draft.set("model.norm", std::string(norm == "rmsnorm" ? "rms_norm" : "layer_norm"));
  draft.set("model.biases", std::string(model.flag("bias", true) ? "all" : "none"));
}

void take_layout(Section& model, Section& trainer, Draft& draft) {
  const std::int64_t tensor = model.count("tensor_model_parallel_size").value_or(1);
  const std::int64_t stages = model.count("pipeline_model_parallel_size").value_or(1);
  const std::int64_t chunks = model.count("virtual_pipeline_model_parallel_size").value_or(1);
  draft.set("parallelism.tensor", tensor, model.place("tensor_model_parallel_size"));
  draft.set("parallelism.pipeline", stages, model.place("pipeline_model_parallel_size"));
  draft.set("parallelism.virtual_pipeline", chunks, model.place("virtual_pipeline_model_parallel_size"));
  draft.set("parallelism.schedule", std::string(workloads::usual_schedule(chunks).name));
  if (chunks > 1 && stages == 1)
    model.refuse("virtual_pipeline_model_parallel_size",
                 fmt::format("got {} with one pipeline stage, expected null, or a pipeline of at least 2", chunks));
  draft.set("parallelism.context", model.count("context_parallel_size").value_or(1),
            model.place("context_parallel_size"));
  const bool sequence = model.flag("sequence_parallel");
  draft.set("parallelism.sequence_parallel", sequence && tensor > 1);

  const std::int64_t devices = trainer.count("devices").value_or(8), nodes = trainer.count("num_nodes").value_or(1);
  draft.set("cluster.device", std::string("h100-sxm-80gb"));
  draft.assumed("cluster.device", "h100-sxm-80gb; --set cluster.device=NAME, cluster.fabric=NAME for another machine");
  if (devices <= 1'048'576 && nodes <= 1'048'576) {
    draft.set("cluster.gpus", devices * nodes, trainer.place("num_nodes"));
  } else {
    trainer.refuse("num_nodes", fmt::format("got {} nodes of {} GPUs, expected at most 1048576 GPUs", nodes, devices));
  }
  draft.set("cluster.gpus_per_node", devices, trainer.place("devices"));
  if (nodes > 1) draft.set("cluster.fabric", std::string("ndr-rail"));
  draft.set("batch.micro", model.count("micro_batch_size").value_or(4), model.place("micro_batch_size"));
  draft.set("batch.global", model.count("global_batch_size").value_or(8), model.place("global_batch_size"));

  const std::string optimizer = [&] {
    const std::optional<Settings> optim = model.find("optim");
    const Settings* name = optim && optim->is_mapping() ? optim->find("name") : nullptr;
    return name != nullptr ? name->text() : std::string("fused_adam");
  }();
  draft.set("parallelism.sharding",
            std::string(optimizer.find("distributed") != std::string::npos || optimizer == "mcore_distributed_optim"
                            ? "optimizer"
                            : "none"));
  take_optimizer(optimizer, draft);
  draft.set("overlap.tensor", model.flag("ub_tp_comm_overlap"));
  draft.set("overlap.pipeline", model.flag("overlap_p2p_comm") && chunks > 1);
}

/// Communication of the distributed optimizer overlaps where its section says so.
void take_overlap(const Settings& model, Draft& draft) {
  const Settings* optim = model.find("optim");
  const bool given = optim != nullptr && optim->is_mapping();
  draft.set("overlap.gradients", given && optim->get_bool("overlap_grad_sync", false));
  draft.set("overlap.parameters", given && optim->get_bool("overlap_param_sync", false));
}

void take_precision(Section& model, Section& trainer, Draft& draft) {
  const std::string type = trainer.word("precision", "bf16");
  const bool half = type == "16" || type == "16-mixed" || type == "fp16";
  const bool known = half || type == "bf16" || type == "bf16-mixed";
  if (!known) trainer.refuse("precision", fmt::format("got {}, expected bf16, bf16-mixed, 16 or 16-mixed", type));
  draft.set("precision.matmul", std::string(model.flag("fp8") ? "fp8" : half ? "fp16" : "bf16"));
  draft.set("precision.activations", std::string(half ? "fp16" : "bf16"));
  draft.set("precision.gradients", std::string(model.flag("megatron_amp_O2") ? "fp32" : half ? "fp16" : "bf16"));
}

void take_work(Section& model, Section& trainer, Draft& draft) {
  const std::string granularity = model.word("activations_checkpoint_granularity", "none");
  if (granularity != "none" && granularity != "selective" && granularity != "full")
    model.refuse("activations_checkpoint_granularity",
                 fmt::format("got {}, expected selective, full or null", granularity));
  if (granularity == "selective" && model.word("activations_checkpoint_method", "uniform") == "block")
    model.refuse("activations_checkpoint_method", "belongs to full, got selective, expected null");
  const bool block = granularity == "full" && model.word("activations_checkpoint_method", "uniform") == "block";
  const std::optional<std::int64_t> some = block ? model.count("activations_checkpoint_num_layers") : std::nullopt;
  if (some) {
    draft.set("recompute.kind", granularity);
    draft.set("recompute.layers", *some, model.place("activations_checkpoint_num_layers"));
  } else {
    draft.set("recompute", granularity);
  }
  const std::optional<Settings> flash = model.find("use_flash_attention");
  if (flash) draft.set("attention", std::string(flash->as_bool() ? "flash" : "unfused"));
  if (!flash) draft.assumed("attention", "the default of the software; the file does not say");
  const std::int64_t global = draft.document().at("batch").get_int("global", 1),
                     seq = draft.document().at("model").get_int("seq", 1);
  const std::optional<std::int64_t> every =
      trainer.find("val_check_interval") && trainer.find("val_check_interval")->text().find('.') == std::string::npos
          ? trainer.count("val_check_interval")
          : std::nullopt;
  const std::optional<Settings> passes = trainer.find("limit_val_batches");
  if (every && passes && passes->text().find('.') == std::string::npos && passes->as_int(0, 1'000'000) > 0) {
    draft.set("evaluation.every_steps", *every, trainer.place("val_check_interval"));
    draft.set("evaluation.sequences", passes->as_int() * global);
  }
  if (const auto steps = trainer.count("max_steps", -1); steps && *steps > 0)
    draft.set("training.tokens", fmt::format("{:.0f}", static_cast<double>(*steps) * static_cast<double>(global) *
                                                           static_cast<double>(seq)));
}

void remark_on_the_rest(const Section& model, const Section& trainer, Draft& draft) {
  static const std::vector<std::pair<const char*, std::vector<std::string>>> kReasons = {
      {"data loading, tokenizers and checkpoints are not modelled",
       {"data", "tokenizer", "resume_from_checkpoint", "save_nemo_on_validation_end", "sync_batch_comm",
        "enable_checkpointing", "logger", "log_every_n_steps", "nsys_profile", "use_distributed_sampler",
        "replace_sampler_ddp"}},
      {"dropout's kernels count whatever its probability", {"hidden_dropout", "attention_dropout", "ffn_dropout"}},
      {"changes values, not work",
       {"init_method_std",
        "layernorm_epsilon",
        "apply_query_key_layer_scaling",
        "normalize_attention_scores",
        "seed",
        "native_amp_init_scale",
        "native_amp_growth_interval",
        "hysteresis",
        "fp32_residual_connection",
        "fp16_lm_cross_entropy",
        "rotary_percentage",
        "rotary_base",
        "seq_len_interpolation_factor",
        "gradient_clip_val",
        "fp8_margin",
        "fp8_interval",
        "fp8_amax_history_len",
        "fp8_amax_compute_algo",
        "fp8_e4m3",
        "fp8_hybrid",
        "reduce_amax",
        "attention_type",
        "headscale",
        "transformer_block_type",
        "openai_gelu",
        "onnx_safe",
        "pre_process",
        "post_process",
        "do_layer_norm_weight_decay"}},
      {"positions up to the sequence's length count", {"max_position_embeddings"}},
      {"the step of the whole batch is simulated", {"rampup_batch_size", "accumulate_grad_batches"}},
      {"the generation of software says what is fused and how its kernels are launched",
       {"mcore_gpt",
        "transformer_engine",
        "masked_softmax_fusion",
        "bias_activation_fusion",
        "bias_dropout_add_fusion",
        "apply_rope_fusion",
        "get_attention_mask_from_fusion",
        "gradient_as_bucket_view",
        "grad_div_ar_fusion",
        "gradient_accumulation_fusion",
        "persist_layer_norm",
        "ub_tp_comm_overlap_cfg",
        "use_cpu_initialization",
        "gc_interval",
        "batch_p2p_comm",
        "benchmark",
        "accelerator",
        "use_emha",
        "sharp",
        "barrier_with_L1_time",
        "enable_model_summary",
        "max_epochs",
        "max_time",
        "limit_test_batches",
        "name",
        "optim"}},
      {"every layer is computed again alike",
       {"activations_checkpoint_num_layers", "num_micro_batches_with_partial_activation_checkpoints",
        "activations_checkpoint_layers_per_pipeline"}},
  };
  for (const auto& [section, members] :
       {std::pair{"model", model.unasked()}, std::pair{"trainer", trainer.unasked()}}) {
    std::vector<std::string> rest = members;
    for (const auto& [why, keys] : kReasons) {
      std::vector<std::string> here;
      for (const std::string& key : keys) {
        const auto found = std::find(rest.begin(), rest.end(), key);
        if (found == rest.end()) continue;
        here.push_back(fmt::format("{}.{}", section, key));
        rest.erase(found);
      }
      if (!here.empty()) draft.ignored(fmt::format("{}", fmt::join(here, ", ")), why);
    }
    for (const std::string& key : rest) draft.ignored(fmt::format("{}.{}", section, key), "not known to orrery");
  }
}

Draft nemo_draft(const std::string& file, const Settings& document) {
  if (!document.is_mapping() || document.find("model") == nullptr || !document.at("model").is_mapping())
    throw sim::UserError(Place{file, 1, 1}, "model",
                         "is not there; a configuration of NeMo's megatron_gpt_pretraining has it");
  Section model(document, document.at("model")), trainer(document, section_of(document, "trainer"));
  Draft draft(fmt::format("{} (NeMo)", std::filesystem::path(file).filename().string()), {file, 1, 1});
  const Settings* name = document.find("name");
  draft.set("name", name != nullptr && name->is_scalar() ? name->text() : std::filesystem::path(file).stem().string());
  take_model(model, draft);
  take_layout(model, trainer, draft);
  take_overlap(document.at("model"), draft);
  take_precision(model, trainer, draft);
  take_work(model, trainer, draft);
  draft.set("software", std::string("nemo-24.04"));
  draft.assumed("software", "nemo-24.04; --set software=NAME for another release");
  pad_vocabulary(draft, model.count("make_vocab_size_divisible_by").value_or(128));
  remark_on_the_rest(model, trainer, draft);
  std::vector<std::string> others;
  for (const auto& [key, value] : document.members()) {
    if (key == "model" || key == "trainer" || key == "name") continue;
    if (!value.is_mapping()) {
      others.push_back(key);
      continue;
    }
    for (const auto& [inner, held] : value.members()) others.push_back(fmt::format("{}.{}", key, inner));
  }
  if (!others.empty())
    draft.ignored(fmt::format("{}", fmt::join(others, ", ")), "sections beside model and trainer, which are not read");
  return draft;
}

}  // namespace

Draft import_nemo(const std::string& file) {
  read_text(file);  // one message for what cannot be read, whatever the form
  return tell_idle_keys(read_python_yaml(file), [&](const Settings& document) { return nemo_draft(file, document); });
}

}  // namespace orrery::tools
