// See hf_hybrids.h. Names of keys and their defaults are those of each family's configuration class (transformers,
// models/{nemotron_h,qwen3_next,qwen3_5,falcon_h1,granitemoehybrid,bamba,minimax,deepseek_v32,glm_moe_dsa};
// moonshotai/Kimi-Linear, configuration_kimi.py), or of the model's own files (deepseek-ai/DeepSeek-V4-Pro,
// MiniMaxAI/MiniMax-M3). Left out: multipliers, which are values.
#include "tools/import/hf_hybrids.h"

#include <algorithm>
#include <iterator>

#include "sim/printable.h"
#include "tools/import/hf_blocks.h"
#include "tools/import/hf_operators.h"
#include "tools/import/hf_windowed.h"

namespace orrery::tools {

namespace {

/// Letters of Megatron-LM's --hybrid-override-pattern (newer files: hybrid_layer_pattern), each a block of its own.
std::vector<std::string> words_of_letters(const Settings& pattern) {
  std::vector<std::string> words;
  for (const char letter : pattern.text()) {
    const std::string_view known = "M*-E";
    const std::size_t at = known.find(letter);
    if (at == std::string_view::npos)
      pattern.fail(fmt::format("got the letter {}, expected M, *, - or E", sim::printable(std::string(1, letter))));
    words.emplace_back(1, "MAFE"[at]);
  }
  return words;
}

/// Or a list of their kinds.
std::vector<std::string> words_of_kinds(const Settings& list) {
  const std::vector<std::string> kinds{"mamba", "attention", "mlp", "moe"};
  std::vector<std::string> words;
  for (const Settings& item : list.items()) {
    const auto at = std::find(kinds.begin(), kinds.end(), item.as_choice(kinds)) - kinds.begin();
    words.emplace_back(1, "MAFE"[at]);
  }
  return words;
}

std::vector<std::string> nemotron_words(Config& config) {
  const Settings* letters = nullptr;
  for (const char* key : {"hybrid_override_pattern", "hybrid_layer_pattern"}) {
    if (const Settings* one = config.find(key); one != nullptr && !one->is_null()) letters = one;
  }
  const Settings* kinds = config.find("layers_block_type");
  if (letters == nullptr && (kinds == nullptr || !kinds->is_sequence())) config.need({"hybrid_override_pattern"});
  const Settings& said = letters != nullptr ? *letters : *kinds;
  std::vector<std::string> words = letters != nullptr ? words_of_letters(said) : words_of_kinds(said);
  const auto count = static_cast<std::int64_t>(words.size());
  const std::int64_t layers = number_of(config, "num_hidden_layers", count);
  if (count != layers) said.fail(fmt::format("got {} layers, expected the {} of num_hidden_layers", count, layers));
  return words;
}

/// Blocks that predict a token further on, of which each is an attention and a channel in the models so far.
void nemotron_predictions(Config& config, Draft& draft) {
  std::vector<std::string> words;
  if (const Settings* letters = config.find("mtp_hybrid_override_pattern"); letters != nullptr && !letters->is_null())
    words = words_of_letters(*letters);
  if (const Settings* kinds = config.find("mtp_layers_block_type"); kinds != nullptr && kinds->is_sequence())
    words = words_of_kinds(*kinds);
  if (words.empty()) return;
  const bool known = words.size() == 1 ||
                     (words.size() == 2 && words[0] != "E" && words[0] != "F" && (words[1] == "E" || words[1] == "F"));
  if (known)
    return take_predictions(config, draft, "num_nextn_predict_layers", fmt::format("{}", fmt::join(words, "+")));
  if (number_of(config, "num_nextn_predict_layers", 0) > 0)
    draft.first(
        "num_nextn_predict_layers: layers that predict further tokens of more than a mixer and a channel; "
        "left out");
}

/// Nemotron-H, Nemotron 3 and 3.5.
void nemotron_h(Config& config, Draft& draft) {
  config.assume("intermediate_size", 21504);
  config.assume("num_hidden_layers", static_cast<std::int64_t>(nemotron_words(config).size()));
  take_model(config, draft, "none");
  draft.set("model.gated_mlp", false);
  draft.set("model.activation", std::string("squared_relu"));
  const std::vector<std::string> words = nemotron_words(config);
  const auto has = [&](const char* word) { return std::find(words.begin(), words.end(), word) != words.end(); };
  if (has("M"))
    put_mamba(config, draft,
              {"mamba_num_heads", "mamba_head_dim", "ssm_state_size", "n_groups", "conv_kernel", "chunk_size"});
  if (has("A")) put_attention(config, draft);
  if (has("F")) put_dense(config, draft);
  if (has("E")) {
    put_experts(config, draft, {"n_routed_experts"}, "moe_intermediate_size");
    if (const std::int64_t latent = number_of(config, "moe_latent_size", 0); latent > 0)
      put(draft, "channels.E", "expert_latent", latent);
    put_shared_expert(draft, number_of(config, "n_shared_experts", 0),
                      number_of(config, "moe_shared_expert_intermediate_size", 0), false);
  }
  nemotron_predictions(config, draft);
  put_blocks(draft, words);
}

/// Of so many layers in turn the last has attention, unless layer_types says which.
std::vector<std::string> linear_words(Config& config, const char* linear, const char* full, std::int64_t every) {
  const std::int64_t layers = config.count(config.need({"num_hidden_layers"}));
  const Settings* types = config.find("layer_types");
  std::vector<std::string> words;
  if (types != nullptr && types->is_sequence() && !types->items().empty()) {
    for (const Settings& type : types->items())
      words.emplace_back(type.as_choice({"linear_attention", "full_attention"}) == "full_attention" ? full : linear);
    if (static_cast<std::int64_t>(words.size()) != layers)
      types->fail(fmt::format("got {} types, expected one for each of the {} layers", words.size(), layers));
    return words;
  }
  for (std::int64_t i = 1; i <= layers; ++i) words.emplace_back(i % every == 0 ? full : linear);
  return words;
}

/// Qwen3-Next and Qwen3.5: gated delta nets, attention with a gate on its output, experts or an MLP in every layer.
void qwen_hybrid(Config& config, Draft& draft, bool mixture) {
  if (mixture) config.assume("intermediate_size", 5120);
  take_model(config, draft, "rotary");
  put_kind(draft, "mixers.L", "gated_delta");
  put(draft, "mixers.L", "heads", config.count(config.need({"linear_num_value_heads"})));
  put(draft, "mixers.L", "head_dim", config.count(config.need({"linear_value_head_dim"})));
  put(draft, "mixers.L", "key_heads", config.count(config.need({"linear_num_key_heads"})));
  put(draft, "mixers.L", "key_dim", config.count(config.need({"linear_key_head_dim"})));
  put(draft, "mixers.L", "conv", number_of(config, "linear_conv_kernel_dim", 4));
  put_attention(config, draft);
  draft.set("model.mixers.A.qk_norm", true);
  draft.set("model.mixers.A.output_gate", true);
  if (mixture) {
    put_experts(config, draft, {"num_experts"}, "moe_intermediate_size");
    put_shared_expert(draft, 1, number_of(config, "shared_expert_intermediate_size", 512), true);
    if (const Settings* only = config.find("mlp_only_layers"); only != nullptr && !only->items().empty())
      only->fail("got layers without experts, expected none");
    if (const std::int64_t step = number_of(config, "decoder_sparse_step", 1); step != 1)
      config.find("decoder_sparse_step")->fail(fmt::format("got {}, expected 1", step));
    put_blocks(draft, linear_words(config, "L+E", "A+E", number_of(config, "full_attention_interval", 4)));
    return;
  }
  put_dense(config, draft);
  put_blocks(draft, linear_words(config, "L+F", "A+F", number_of(config, "full_attention_interval", 4)));
}
void qwen3_next(Config& config, Draft& draft) { qwen_hybrid(config, draft, true); }
void qwen3_5(Config& config, Draft& draft) { qwen_hybrid(config, draft, false); }
/// OLMo Hybrid: attention has no gate there.
void olmo_hybrid(Config& config, Draft& draft) {
  qwen_hybrid(config, draft, false);
  draft.set("model.mixers.A.output_gate", false);
  draft.ignored("norms of queries and keys", "over all heads together there, of each head here");
}

/// Kimi Linear: layers by their numbers, from 1, in lists of both kinds.
void kimi_linear(Config& config, Draft& draft) {
  config.assume("max_position_embeddings", number_of(config, "model_max_length", 4096));
  take_model(config, draft, "none");
  const Settings& linear = config.need({"linear_attn_config"});
  put_kind(draft, "mixers.L", "kda");
  put(draft, "mixers.L", "heads", linear.get_int("num_heads", 32, 1, 1'000'000));
  put(draft, "mixers.L", "head_dim", linear.get_int("head_dim", 128, 1, 65536));
  put(draft, "mixers.L", "conv", linear.get_int("short_conv_kernel_size", 4, 1, 64));
  put_kind(draft, "mixers.A", "mla");
  put(draft, "mixers.A", "heads", config.count(config.need({"num_attention_heads"})));
  put(draft, "mixers.A", "kv_lora", config.count(config.need({"kv_lora_rank"})));
  if (const std::int64_t rank = number_of(config, "q_lora_rank", 0); rank > 0) put(draft, "mixers.A", "q_lora", rank);
  put(draft, "mixers.A", "qk_nope_dim", config.count(config.need({"qk_nope_head_dim"})));
  put(draft, "mixers.A", "qk_rope_dim", config.count(config.need({"qk_rope_head_dim"})));
  put(draft, "mixers.A", "v_dim", config.count(config.need({"v_head_dim"})));
  put_experts(config, draft, {"num_experts"}, "moe_intermediate_size");
  put_shared_expert(draft, number_of(config, "num_shared_experts", 0), number_of(config, "moe_intermediate_size", 0),
                    false);
  if (const std::int64_t latent = number_of(config, "routed_expert_hidden_size", 0); latent > 0)
    put(draft, "channels.E", "expert_latent", latent);
  if (config.flag("mla_use_output_gate", false))
    draft.first("mla_use_output_gate: a sigmoid on the output of latent attention; its product is not modelled");
  if (linear.get_bool("use_full_rank_gate", false)) put(draft, "mixers.L", "gate_rank", 0);
  const std::int64_t layers = config.count(config.need({"num_hidden_layers"})),
                     first = number_of(config, "first_k_dense_replace", 0);
  if (first > 0) put_dense(config, draft);
  const Settings* full = linear.find("full_attn_layers");
  if (full == nullptr || !full->is_sequence()) linear.fail("holds no full_attn_layers, the numbers of layers from 1");
  std::vector<std::string> words;
  for (std::int64_t i = 1; i <= layers; ++i) {
    const bool attends = std::any_of(full->items().begin(), full->items().end(),
                                     [&](const Settings& item) { return item.as_int(0, 100'000) == i; });
    words.push_back(fmt::format("{}+{}", attends ? "A" : "L", i <= first ? "F" : "E"));
  }
  put_blocks(draft, words);
}

/// Falcon-H1: attention and Mamba-2 side by side in every block.
void falcon_h1(Config& config, Draft& draft) {
  take_model(config, draft, "rotary");
  put_attention(config, draft);
  const bool normed = config.flag("mamba_rms_norm", true);
  put_mamba(config, draft,
            {"mamba_n_heads", "mamba_d_head", "mamba_d_state", "mamba_n_groups", "mamba_d_conv", "mamba_chunk_size"});
  config.find("mamba_d_ssm");
  if (!normed) draft.set("model.mixers.M.gated_norm", false);
  put_dense(config, draft);
  put_blocks(draft, std::vector<std::string>(static_cast<std::size_t>(config.count(config.need({"num_hidden_layers"}))),
                                             "A+M+F"));
}

/// Its width of a head may be left to the expansion.
void granite_mamba(Config& config, Draft& draft) {
  const MambaNames names{"mamba_n_heads",  "mamba_d_head", "mamba_d_state",
                         "mamba_n_groups", "mamba_d_conv", "mamba_chunk_size"};
  if (const Settings* width = config.find("mamba_d_head"); width != nullptr && width->text() == "auto") {
    const std::int64_t inner = number_of(config, "mamba_expand", 2) * config.count(config.need({"hidden_size"}));
    config.replace("mamba_d_head", inner / config.count(config.need({"mamba_n_heads"})));
  }
  put_mamba(config, draft, names);
}

/// Granite 4 and Bamba: a list says which layers have attention.
void granite_hybrid(Config& config, Draft& draft) {
  config.assume("intermediate_size", 1);
  const Settings* positions = config.find("position_embedding_type");
  const bool rotary = positions != nullptr && positions->text() == "rope";
  take_model(config, draft, rotary ? "rotary" : "none");
  draft.set("model.tied_embeddings", config.flag("tie_word_embeddings", true));
  const bool mixture = number_of(config, "num_local_experts", 0) > 0;
  const std::int64_t shared = number_of(config, "shared_intermediate_size", 0);
  if (mixture) {
    put_experts(config, draft, {"num_local_experts"}, "intermediate_size");
    put_shared_expert(draft, 1, shared, false);
  } else {
    put_kind(draft, "channels.F", "mlp");
    put(draft, "channels.F", "ffn_hidden", shared > 0 ? shared : config.count(config.need({"intermediate_size"})));
  }
  const Settings& types = config.need({"layer_types", "layers_block_type"});
  std::vector<std::string> words;
  for (const Settings& type : types.items())
    words.push_back(
        fmt::format("{}+{}", type.as_choice({"mamba", "attention"}) == "mamba" ? "M" : "A", mixture ? "E" : "F"));
  if (static_cast<std::int64_t>(words.size()) != config.count(config.need({"num_hidden_layers"})))
    types.fail(fmt::format("got {} layers, expected num_hidden_layers", words.size()));
  const auto with = [&](char letter) {
    return std::any_of(words.begin(), words.end(), [&](const std::string& word) { return word[0] == letter; });
  };
  if (with('A')) put_attention(config, draft);
  if (with('M')) granite_mamba(config, draft);
  put_blocks(draft, words);
}

/// Bamba: an MLP in every layer, attention in those that a list names.
void bamba(Config& config, Draft& draft) {
  take_model(config, draft, "rotary");
  put_attention(config, draft);
  if (const Settings* width = config.find("mamba_d_head"); width != nullptr && width->text() == "auto") {
    const std::int64_t inner = number_of(config, "mamba_expand", 2) * config.count(config.need({"hidden_size"}));
    config.replace("mamba_d_head", inner / config.count(config.need({"mamba_n_heads"})));
  }
  put_mamba(config, draft,
            {"mamba_n_heads", "mamba_d_head", "mamba_d_state", "mamba_n_groups", "mamba_d_conv", "mamba_chunk_size"});
  put_dense(config, draft);
  const Settings* attends = config.find("attn_layer_indices");
  std::vector<std::string> words(static_cast<std::size_t>(config.count(config.need({"num_hidden_layers"}))), "M+F");
  if (attends != nullptr && attends->is_sequence()) {
    for (const Settings& layer : attends->items())
      words[static_cast<std::size_t>(layer.as_int(0, static_cast<std::int64_t>(words.size()) - 1))] = "A+F";
  }
  put_blocks(draft, words);
}

/// MiniMax-Text-01 and M1: lightning attention but for layers that a list (attn_type_list: 1) or layer_types names.
void minimax(Config& config, Draft& draft) {
  take_model(config, draft, "rotary");
  put_attention(config, draft);
  const std::int64_t heads = config.count(config.need({"num_attention_heads"}));
  put_kind(draft, "mixers.L", "lightning");
  put(draft, "mixers.L", "heads", heads);
  put(draft, "mixers.L", "head_dim", number_of(config, "head_dim", config.count(config.need({"hidden_size"})) / heads));
  put_experts(config, draft, {"num_local_experts"}, "intermediate_size");
  const Settings* list = config.find("attn_type_list");
  if (list == nullptr || !list->is_sequence()) return put_blocks(draft, linear_words(config, "L+E", "A+E", 2));
  config.find("layer_types");
  std::vector<std::string> words;
  for (const Settings& kind : list->items()) words.emplace_back(kind.as_int(0, 1) == 1 ? "A+E" : "L+E");
  if (static_cast<std::int64_t>(words.size()) != config.count(config.need({"num_hidden_layers"})))
    list->fail(fmt::format("got {} layers, expected num_hidden_layers", words.size()));
  put_blocks(draft, words);
}

/// Queries may go through no rank of their own.
void latent_widths(Config& config, Draft& draft, const char* at) {
  put_kind(draft, at, "mla");
  put(draft, at, "heads", config.count(config.need({"num_attention_heads"})));
  if (const std::int64_t rank = number_of(config, "q_lora_rank", 0); rank > 0) put(draft, at, "q_lora", rank);
  put(draft, at, "kv_lora", config.count(config.need({"kv_lora_rank"})));
  put(draft, at, "qk_nope_dim", config.count(config.need({"qk_nope_head_dim"})));
  put(draft, at, "qk_rope_dim", config.count(config.need({"qk_rope_head_dim"})));
  put(draft, at, "v_dim", config.count(config.need({"v_head_dim"})));
}

/// Ring-linear 2.0, Ling and Ring 2.5 (inclusionAI; vLLM, model_executor/models/bailing_moe_linear.py): of so many
/// layers in turn the last has attention, grouped or latent, and so has what is left behind the last turn; the others
/// have lightning attention, in Ling 3.0 Kimi's delta rule, whose gates are whole products (no_kda_lora).
void bailing_linear(Config& config, Draft& draft) {
  take_model(config, draft, "rotary");
  const std::int64_t heads = config.count(config.need({"num_attention_heads"}));
  const std::int64_t dim = number_of(config, "head_dim", config.count(config.need({"hidden_size"})) / heads);
  const bool delta = config.find("no_kda_lora") != nullptr || config.find("short_conv_kernel_size") != nullptr;
  put_kind(draft, "mixers.L", delta ? "kda" : "lightning");
  put(draft, "mixers.L", "heads", heads);
  put(draft, "mixers.L", "head_dim", dim);
  if (delta) {
    put(draft, "mixers.L", "conv", number_of(config, "short_conv_kernel_size", 4));
    if (config.flag("no_kda_lora", false))
      for (const char* rank : {"decay_rank", "gate_rank"}) put(draft, "mixers.L", rank, 0);
    if (const Settings* gate = config.find("gated_attention_proj_granularity_type");
        gate != nullptr && gate->text() == "element_wise")
      draft.first(
          "gated_attention_proj_granularity_type: a sigmoid on the output of latent attention; its product is "
          "not modelled");
  }
  if (const Settings* latent = config.find("kv_lora_rank"); latent != nullptr && !latent->is_null()) {
    latent_widths(config, draft, "mixers.A");
  } else {
    put_attention(config, draft);
    draft.set("model.mixers.A.qk_norm", config.flag("use_qk_norm", false));
  }
  put_experts(config, draft, {"num_experts"}, "moe_intermediate_size");
  const std::int64_t width = config.count(config.need({"moe_intermediate_size"}));
  put_shared_expert(draft, number_of(config, "num_shared_experts", 0),
                    number_of(config, "moe_shared_expert_intermediate_size", width), false);
  if (const std::int64_t groups = number_of(config, "n_group", 1); groups > 1) {
    put(draft, "channels.E", "expert_groups", groups);
    put(draft, "channels.E", "top_groups", number_of(config, "topk_group", groups));
  }
  const std::int64_t layers = config.count(config.need({"num_hidden_layers"})),
                     every = std::max<std::int64_t>(1, number_of(config, "layer_group_size", 1)),
                     dense = number_of(config, "first_k_dense_replace", 0);
  if (dense > 0) put_dense(config, draft);
  std::vector<std::string> words;
  for (std::int64_t i = 0; i < layers; ++i)
    words.push_back(
        fmt::format("{}+{}", (i + 1) % every == 0 || i >= layers / every * every ? "A" : "L", i < dense ? "F" : "E"));
  for (const char* key : {"kda_safe_gate", "kda_lower_bound", "qk_head_dim", "num_key_value_heads", "group_norm_size",
                          "linear_silu", "use_linear_silu", "use_qkv_bias", "use_bias", "norm_head",
                          "embedding_dropout", "output_dropout", "score_function", "moe_router_enable_expert_bias",
                          "moe_router_enable_shared_expert", "rope_interleave", "num_kv_heads_for_linear_attn"})
    config.find(key);
  take_predictions(config, draft, "num_nextn_predict_layers", "A+E");
  put_blocks(draft, words);
}

/// Mamba-2 alone (Codestral Mamba).
void mamba2(Config& config, Draft& draft) {
  draft.set("model.hidden", config.count(config.need({"hidden_size"})));
  draft.set("model.vocab", config.count(config.need({"vocab_size"})));
  draft.set("model.seq", std::int64_t{4096});
  draft.assumed("model.seq", "the file names none; set the length that is trained on");
  set_shape(draft, false, false, "none", "rms_norm");
  draft.set("model.biases", std::string("none"));
  draft.set("model.tied_embeddings", config.flag("tie_word_embeddings", false));
  put_mamba(config, draft, {"num_heads", "head_dim", "state_size", "n_groups", "conv_kernel", "chunk_size"});
  for (const char* key : {"intermediate_size", "time_step_rank", "rms_norm", "use_bias", "norm_before_gate"})
    config.find(key);
  put_blocks(draft,
             std::vector<std::string>(static_cast<std::size_t>(config.count(config.need({"num_hidden_layers"}))), "M"));
}

/// RWKV-7 (fla-org/flash-linear-attention, fla/models/rwkv7): time mixing in place of attention, and channel mixing, an
/// MLP that reads a mixture of a token with the one ahead of it. The first layer's values are its own.
void rwkv7(Config& config, Draft& draft) {
  const std::int64_t h = config.count(config.need({"hidden_size"}));
  const std::int64_t dim = number_of(config, "head_dim", 64), layers = config.count(config.need({"num_hidden_layers"}));
  if (const Settings* attention = config.find("attn"); attention != nullptr && !attention->is_null())
    attention->fail("got attention in some layers, expected time mixing in all");
  if (h % dim != 0) config.find("hidden_size")->fail(fmt::format("got {}, expected heads of {}", h, dim));
  draft.set("model.hidden", h);
  draft.set("model.vocab", config.count(config.need({"vocab_size"})));
  draft.set("model.seq", config.count(config.need({"max_position_embeddings"})));
  set_shape(draft, false, false, "none", "layer_norm");
  draft.set("model.biases", std::string("none"));
  draft.set("model.activation", std::string("squared_relu"));
  draft.set("model.tied_embeddings", config.flag("tie_word_embeddings", false));
  const auto time_mixing = [&](const char* at, bool first) {
    put_kind(draft, at, "rwkv7");
    put(draft, at, "heads", h / dim);
    put(draft, at, "head_dim", dim);
    put(draft, at, "decay_rank", number_of(config, "decay_low_rank_dim", 64));
    put(draft, at, "rate_rank", number_of(config, "a_low_rank_dim", 64));
    put(draft, at, "value_rank", first ? 0 : number_of(config, "v_low_rank_dim", 16));
    put(draft, at, "gate_rank", number_of(config, "gate_low_rank_dim", 128));
  };
  time_mixing("mixers.R0", true);
  time_mixing("mixers.R", false);
  const Settings* width = config.find("intermediate_size");
  const Settings* ratio = config.find("hidden_ratio");
  const double times = ratio == nullptr || ratio->is_null() ? 4 : ratio->as_number(0.1, 1000);
  const std::int64_t inside = (static_cast<std::int64_t>(times * static_cast<double>(h)) + 31) / 32 * 32;
  put_kind(draft, "channels.F", "mlp");
  put(draft, "channels.F", "ffn_hidden", width == nullptr || width->is_null() ? inside : config.count(*width));
  for (const char* key : {"attn_mode", "num_heads", "num_attention_heads", "value_dim", "norm_first", "norm_bias",
                          "fuse_norm", "fuse_cross_entropy", "fuse_linear_cross_entropy", "use_l2warp"})
    config.find(key);
  std::vector<std::string> words(static_cast<std::size_t>(layers), "R+F");
  words.front() = "R0+F";
  put_blocks(draft, words);
}

// ---- attention to some of the keys ----

/// Experts under DeepSeek's names.
void deepseek_experts(Config& config, Draft& draft) {
  put_experts(config, draft, {"n_routed_experts"}, "moe_intermediate_size");
  put_shared_expert(draft, number_of(config, "n_shared_experts", 0), number_of(config, "moe_intermediate_size", 0),
                    false);
  const Settings* method = config.find("topk_method");
  const std::int64_t groups = number_of(config, "n_group", 1), open = number_of(config, "topk_group", 1);
  if (groups <= 1 || (method != nullptr && method->text() == "greedy")) return;
  put(draft, "channels.E", "expert_groups", groups);
  put(draft, "channels.E", "top_groups", open);
}

void chosen_latent_widths(Config& config, Draft& draft, const char* at) {
  latent_widths(config, draft, at);
  put_kind(draft, at, "dsa");
  put(draft, at, "index_dim", number_of(config, "index_head_dim", 128));
  put(draft, at, "index_top_k", config.count(config.need({"index_topk"})));
}

/// LongCat-Flash (arXiv 2509.01322, section 2): a layer is latent attention and an MLP, twice, and experts that read
/// what the first MLP reads and are added behind the second. Of the experts that a router chooses those without
/// computation are a part: in the mean so many of its top k as there are. Left out: that experts are exchanged beside
/// the second attention and the MLPs.
void longcat_flash(Config& config, Draft& draft) {
  const std::int64_t layers = number_of(config, "num_layers", 28);
  config.assume("num_hidden_layers", layers);
  config.assume("intermediate_size", number_of(config, "ffn_hidden_size", 12288));
  const std::int64_t experts = config.count(config.need({"n_routed_experts"})),
                     zero = number_of(config, "zero_expert_num", 0), chosen = number_of(config, "moe_topk", 12);
  config.assume("num_experts_per_tok", (chosen * experts + (experts + zero) / 2) / (experts + zero));
  take_model(config, draft, "rotary");
  latent_widths(config, draft, "mixers.A");
  put_experts(config, draft, {"n_routed_experts"}, "expert_ffn_hidden_size");
  put_dense(config, draft);
  if (zero > 0)
    draft.assumed("model.channels.E.top_k",
                  fmt::format("of {} chosen in {} experts, of which {} compute nothing", chosen, experts + zero, zero));
  draft.ignored("the layers' shortcut", "experts run ahead of the first MLP, not beside what follows them");
  for (const char* key : {"attention_method", "mla_scale_q_lora", "mla_scale_kv_lora", "zero_expert_type",
                          "routed_scaling_factor", "router_bias", "norm_topk_prob"})
    config.find(key);
  std::vector<std::string> words;
  for (std::int64_t i = 0; i < layers; ++i) words.insert(words.end(), {"A+E", "F", "A+F"});
  put_blocks(draft, words);
}

/// DeepSeek-V3.2 and GLM-5: latent attention to the keys that an indexer chooses, in some layers (GLM-5.2) to those
/// that a layer ahead chose.
void deepseek_sparse(Config& config, Draft& draft) {
  take_model(config, draft, "rotary");
  const std::int64_t layers = config.count(config.need({"num_hidden_layers"}));
  const std::int64_t first = number_of(config, "first_k_dense_replace", 0);
  if (const std::int64_t step = number_of(config, "moe_layer_freq", 1); step != 1)
    config.find("moe_layer_freq")->fail(fmt::format("got {}, expected 1", step));
  const Settings *indexers = config.find("indexer_types"), *channels = config.find("mlp_layer_types");
  std::vector<std::string> words;
  for (std::int64_t i = 0; i < layers; ++i) {
    const bool shared = in_list_or_first(indexers, i, "shared", 0);
    words.push_back(
        fmt::format("{}+{}", shared ? "S" : "A", in_list_or_first(channels, i, "dense", first) ? "F" : "E"));
  }
  const auto has = [&](char letter) {
    return std::any_of(words.begin(), words.end(), [&](const std::string& word) { return word.find(letter) < 3; });
  };
  chosen_latent_widths(config, draft, "mixers.A");
  put(draft, "mixers.A", "index_heads", config.count(config.need({"index_n_heads"})));
  if (has('S')) {
    chosen_latent_widths(config, draft, "mixers.S");
    put(draft, "mixers.S", "index_heads", 0);
  }
  if (has('F')) put_dense(config, draft);
  deepseek_experts(config, draft);
  take_predictions(config, draft, "num_nextn_predict_layers", "A+E");
  put_blocks(draft, words);
}

/// DeepSeek-V4: a list says how many tokens a key of each layer stands for, 0 where the window is seen alone.
void deepseek_v4(Config& config, Draft& draft) {
  config.assume("intermediate_size", 1);
  take_model(config, draft, "rotary");
  const std::int64_t layers = config.count(config.need({"num_hidden_layers"}));
  const Settings& ratios = config.need({"compress_ratios"});
  const std::int64_t more = std::min<std::int64_t>(1, number_of(config, "num_nextn_predict_layers", 0));
  std::vector<std::string> words;
  for (const Settings& ratio : ratios.items()) {
    if (static_cast<std::int64_t>(words.size()) == layers + more) break;  // the one that predicts comes last
    const std::int64_t tokens = ratio.as_int(0, 1'000'000);
    const bool window = tokens == 0, few = tokens > 0 && tokens < 8;
    const char* name = window ? "W" : few ? "C" : "H";
    const std::string at = fmt::format("mixers.{}", name);
    if (!draft.has(fmt::format("model.{}.kind", at))) {
      put_kind(draft, at.c_str(), few ? "csa" : "hca");
      put(draft, at.c_str(), "heads", config.count(config.need({"num_attention_heads"})));
      put(draft, at.c_str(), "head_dim", config.count(config.need({"head_dim"})));
      put(draft, at.c_str(), "q_lora", config.count(config.need({"q_lora_rank"})));
      put(draft, at.c_str(), "window", config.count(config.need({"sliding_window"})));
      put(draft, at.c_str(), "compress", tokens);
      put(draft, at.c_str(), "out_groups", config.count(config.need({"o_groups"})));
      put(draft, at.c_str(), "out_lora", config.count(config.need({"o_lora_rank"})));
      if (few) {
        put(draft, at.c_str(), "index_heads", config.count(config.need({"index_n_heads"})));
        put(draft, at.c_str(), "index_dim", config.count(config.need({"index_head_dim"})));
        put(draft, at.c_str(), "index_top_k", config.count(config.need({"index_topk"})));
      }
    } else if (draft.document().at("model").at("mixers").at(name).get_int("compress", 0) != tokens) {
      ratio.fail(fmt::format("got {} tokens to a key beside others, expected two lengths at most", tokens));
    }
    words.push_back(fmt::format("{}+E", name));
  }
  if (static_cast<std::int64_t>(words.size()) < layers)
    ratios.fail(fmt::format("got {} layers, expected num_hidden_layers", words.size()));
  take_predictions(config, draft, "num_nextn_predict_layers", words.back());
  words.resize(static_cast<std::size_t>(layers));
  deepseek_experts(config, draft);
  if (const std::int64_t streams = number_of(config, "hc_mult", 1); streams > 1)
    draft.set("model.residual_streams", streams);
  put_blocks(draft, words);
}

/// MiniMax-M3: lists say which layers choose blocks of keys and which have experts.
void minimax_m3(Config& config, Draft& draft) {
  take_model(config, draft, "rotary");
  const std::int64_t layers = config.count(config.need({"num_hidden_layers"}));
  const Settings* sparse = config.find("sparse_attention_config");
  const Settings* chooses = sparse != nullptr ? sparse->find("sparse_attention_freq") : nullptr;
  const Settings* experts_in = config.find("moe_layer_freq");
  const auto has = [&](const Settings* list, std::int64_t layer) {
    if (list == nullptr || !list->is_sequence()) return true;
    const auto at = static_cast<std::size_t>(layer);
    if (at >= list->items().size()) list->fail(fmt::format("got {} layers, expected num_hidden_layers", at));
    return list->items()[at].as_int(0, 1) == 1;
  };
  std::vector<std::string> words;
  bool whole = false, chosen = false, with_mlp = false;
  for (std::int64_t i = 0; i < layers; ++i) {
    const bool chosen_here = sparse != nullptr && has(chooses, i), experts_here = has(experts_in, i);
    (chosen_here ? chosen : whole) = true;
    with_mlp = with_mlp || !experts_here;
    words.push_back(fmt::format("{}+{}", chosen_here ? "S" : "A", experts_here ? "E" : "F"));
  }
  const bool normed = config.flag("use_qk_norm", true), gate = config.flag("attention_output_gate", false);
  const auto take = [&](const char* at, const char* kind) {
    put_kind(draft, at, kind);
    put(draft, at, "heads", config.count(config.need({"num_attention_heads"})));
    put(draft, at, "kv_heads", config.count(config.need({"num_key_value_heads"})));
    put(draft, at, "head_dim", config.count(config.need({"head_dim"})));
    if (normed) draft.set(fmt::format("model.{}.qk_norm", at), true);
    if (gate) draft.set(fmt::format("model.{}.output_gate", at), true);
  };
  if (whole) take("mixers.A", "attention");
  if (chosen) {
    take("mixers.S", "msa");
    put(draft, "mixers.S", "index_heads", sparse->get_int("sparse_num_index_heads", 4, 1, 1'000'000));
    put(draft, "mixers.S", "index_dim", sparse->get_int("sparse_index_dim", 128, 1, 65536));
    put(draft, "mixers.S", "index_top_k", sparse->get_int("sparse_topk_blocks", 16, 1, 1'000'000));
    put(draft, "mixers.S", "index_block", sparse->get_int("sparse_block_size", 128, 2, 1'000'000));
  }
  put_experts(config, draft, {"num_local_experts"}, "intermediate_size");
  put_shared_expert(draft, number_of(config, "n_shared_experts", 0), number_of(config, "shared_intermediate_size", 0),
                    false);
  if (with_mlp) {
    put_kind(draft, "channels.F", "mlp");
    put(draft, "channels.F", "ffn_hidden", config.count(config.need({"dense_intermediate_size"})));
  }
  if (const Settings* limit = config.find("swiglu_limit"); limit != nullptr && !limit->is_null())
    draft.set("model.channels.E.activation_clamp", fmt::format("{:g}", limit->as_number(0, 1e6)), limit->place());
  take_predictions(config, draft, "num_mtp_modules", words.back());
  put_blocks(draft, words);
}

}  // namespace

const std::vector<std::pair<const char*, void (*)(Config&, Draft&)>>& hf_hybrids() {
  static const std::vector<std::pair<const char*, void (*)(Config&, Draft&)>> kHybrids{
      {"nemotron_h", nemotron_h},
      {"qwen3_next", qwen3_next},
      {"qwen3_5_moe_text", qwen3_next},
      {"qwen3_5_text", qwen3_5},
      {"olmo_hybrid", olmo_hybrid},
      {"kimi_linear", kimi_linear},
      {"falcon_h1", falcon_h1},
      {"granitemoehybrid", granite_hybrid},
      {"bamba", bamba},
      {"minimax", minimax},
      {"minimax_text_01", minimax},
      {"minimax_m1", minimax},
      {"rwkv7", rwkv7},
      {"bailing_moe_linear", bailing_linear},
      {"bailing_hybrid", bailing_linear},
      {"mamba2", mamba2},
      {"longcat_flash", longcat_flash},
      {"deepseek_v32", deepseek_sparse},
      {"glm_moe_dsa", deepseek_sparse},
      {"deepseek_v4", deepseek_v4},
      {"minimax_m3", minimax_m3},
      {"minimax_m3_text", minimax_m3},
      {"minimax_m3_vl", minimax_m3},  // of the whole, whose text does not say its type
      {"deepseek_ref", deepseek_v4},  // as SGLang calls checkpoints of DeepSeek-V4 that it converts
  };
  static const std::vector<std::pair<const char*, void (*)(Config&, Draft&)>> kAll = [] {
    std::vector<std::pair<const char*, void (*)(Config&, Draft&)>> all = kHybrids;
    std::copy(hf_windowed().begin(), hf_windowed().end(), std::back_inserter(all));
    std::copy(hf_of_operators().begin(), hf_of_operators().end(), std::back_inserter(all));
    return all;
  }();
  return kAll;
}

}  // namespace orrery::tools
