// See hf_hybrids.h. Names of keys and their defaults are those of each family's configuration class (transformers,
// models/{nemotron_h,qwen3_next,qwen3_5,falcon_h1,granitemoehybrid,bamba,minimax,deepseek_v32,glm_moe_dsa};
// moonshotai/Kimi-Linear, configuration_kimi.py), or of the model's own files (deepseek-ai/DeepSeek-V4-Pro,
// MiniMaxAI/MiniMax-M3). Mixers and channels go by letters: A attention, M Mamba-2, L linear attention, E experts, F
// an MLP. Left out: layers that predict further tokens, and multipliers, which are values.
#include "tools/import/hf_hybrids.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "sim/printable.h"

namespace orrery::tools {

namespace {

std::int64_t number_of(Config& config, const char* key, std::int64_t fallback) {
  const Settings* member = config.find(key);
  return member == nullptr || member->is_null() ? fallback : member->as_int(0, 1'000'000'000);
}

/// One member of a mixer or a channel, where the family's file says it or its class has a default.
void put(Draft& draft, const char* at, const char* key, std::int64_t value) {
  draft.set(fmt::format("model.{}.{}", at, key), value);
}
void put_kind(Draft& draft, const char* at, const char* kind) {
  draft.set(fmt::format("model.{}.kind", at), std::string(kind));
}

/// Words in order, runs of the same whole period as it and its repeats where that is shorter.
void put_blocks(Draft& draft, const std::vector<std::string>& words) {
  for (std::size_t period = 1; period <= words.size() / 2; ++period) {
    if (words.size() % period != 0) continue;
    const auto same = [&](std::size_t i) { return words[i] == words[i % period]; };
    bool all = true;
    for (std::size_t i = period; i < words.size() && all; ++i) all = same(i);
    if (!all) continue;
    const std::vector<std::string> once(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(period));
    draft.set("model.blocks.pattern", fmt::format("{}", fmt::join(once, " ")));
    return draft.set("model.blocks.repeat", static_cast<std::int64_t>(words.size() / period));
  }
  draft.set("model.blocks", fmt::format("{}", fmt::join(words, " ")));
}

/// The sizes of a whole model; what its blocks say for themselves is not the model's.
void take_whole(Config& config, Draft& draft, const char* positions) {
  llama(config, draft, "none");
  draft.set("model.positions", std::string(positions));
}

void attention(Config& config, Draft& draft) {
  const char* at = "mixers.A";
  put_kind(draft, at, "attention");
  const std::int64_t heads = config.count(config.need({"num_attention_heads"}));
  put(draft, at, "heads", heads);
  put(draft, at, "kv_heads", number_of(config, "num_key_value_heads", heads));
  if (const std::int64_t dim = number_of(config, "head_dim", 0); dim > 0) put(draft, at, "head_dim", dim);
}

void experts(Config& config, Draft& draft, const std::vector<std::string>& counts, const char* width) {
  const char* at = "channels.E";
  put_kind(draft, at, "moe");
  put(draft, at, "experts", config.count(config.need(counts)));
  put(draft, at, "top_k", config.count(config.need({"num_experts_per_tok", "num_experts_per_token"})));
  put(draft, at, "expert_ffn_hidden", config.count(config.need({width})));
}

void shared_expert(Draft& draft, std::int64_t experts, std::int64_t width, bool gate) {
  if (experts == 0 || width == 0) return;
  put(draft, "channels.E", "shared_experts", experts);
  put(draft, "channels.E", "shared_expert_ffn_hidden", width);
  if (gate) draft.set("model.channels.E.shared_gate", true);
}

void dense(Config& config, Draft& draft) {
  put_kind(draft, "channels.F", "mlp");
  put(draft, "channels.F", "ffn_hidden", config.count(config.need({"intermediate_size"})));
}

struct MambaNames {
  const char *heads, *width, *state, *groups, *conv, *chunk;
};
void mamba(Config& config, Draft& draft, const MambaNames& names) {
  const char* at = "mixers.M";
  put_kind(draft, at, "mamba2");
  put(draft, at, "heads", config.count(config.need({names.heads})));
  put(draft, at, "head_dim", config.count(config.need({names.width})));
  put(draft, at, "state", config.count(config.need({names.state})));
  put(draft, at, "groups", number_of(config, names.groups, 1));
  put(draft, at, "conv", number_of(config, names.conv, 4));
  put(draft, at, "chunk", number_of(config, names.chunk, 256));
}

/// Sizes of the model without those of its blocks.
void take_model(Config& config, Draft& draft, const char* positions) {
  take_whole(config, draft, positions);
  for (const char* key : {"ffn_hidden", "kv_heads", "head_dim", "heads", "layers"}) draft.drop_of_model(key);
}

/// Nemotron-H and Nemotron 3: letters of Megatron-LM's --hybrid-override-pattern, each a block of its own.
void nemotron_h(Config& config, Draft& draft) {
  config.assume("intermediate_size", 21504);
  take_model(config, draft, "none");
  draft.set("model.gated_mlp", false);
  draft.set("model.activation", std::string("squared_relu"));
  const Settings& pattern = config.need({"hybrid_override_pattern"});
  std::vector<std::string> words;
  for (const char letter : pattern.text()) {
    const std::string_view known = "M*-E";
    const std::size_t at = known.find(letter);
    if (at == std::string_view::npos)
      pattern.fail(fmt::format("got the letter {}, expected M, *, - or E", sim::printable(std::string(1, letter))));
    words.emplace_back(1, "MAFE"[at]);
  }
  const std::int64_t layers = config.count(config.need({"num_hidden_layers"}));
  if (static_cast<std::int64_t>(words.size()) != layers)
    pattern.fail(fmt::format("got {} letters, expected one for each of the {} layers", words.size(), layers));
  const auto has = [&](const char* word) { return std::find(words.begin(), words.end(), word) != words.end(); };
  if (has("M"))
    mamba(config, draft,
          {"mamba_num_heads", "mamba_head_dim", "ssm_state_size", "n_groups", "conv_kernel", "chunk_size"});
  if (has("A")) attention(config, draft);
  if (has("F")) dense(config, draft);
  if (has("E")) {
    experts(config, draft, {"n_routed_experts"}, "moe_intermediate_size");
    if (const Settings* latent = config.find("moe_latent_size"); latent != nullptr && !latent->is_null())
      latent->fail("got experts behind a narrower projection (latent experts), expected none: not modelled");
    shared_expert(draft, number_of(config, "n_shared_experts", 0),
                  number_of(config, "moe_shared_expert_intermediate_size", 0), false);
  }
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
  attention(config, draft);
  draft.set("model.mixers.A.qk_norm", true);
  draft.set("model.mixers.A.output_gate", true);
  if (mixture) {
    experts(config, draft, {"num_experts"}, "moe_intermediate_size");
    shared_expert(draft, 1, number_of(config, "shared_expert_intermediate_size", 512), true);
    if (const Settings* only = config.find("mlp_only_layers"); only != nullptr && !only->items().empty())
      only->fail("got layers without experts, expected none");
    if (const std::int64_t step = number_of(config, "decoder_sparse_step", 1); step != 1)
      config.find("decoder_sparse_step")->fail(fmt::format("got {}, expected 1", step));
    put_blocks(draft, linear_words(config, "L+E", "A+E", number_of(config, "full_attention_interval", 4)));
    return;
  }
  dense(config, draft);
  put_blocks(draft, linear_words(config, "L+F", "A+F", number_of(config, "full_attention_interval", 4)));
}
void qwen3_next(Config& config, Draft& draft) { qwen_hybrid(config, draft, true); }
void qwen3_5(Config& config, Draft& draft) { qwen_hybrid(config, draft, false); }

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
  experts(config, draft, {"num_experts"}, "moe_intermediate_size");
  shared_expert(draft, number_of(config, "num_shared_experts", 0), number_of(config, "moe_intermediate_size", 0),
                false);
  const std::int64_t layers = config.count(config.need({"num_hidden_layers"})),
                     first = number_of(config, "first_k_dense_replace", 0);
  if (first > 0) dense(config, draft);
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
  attention(config, draft);
  const bool normed = config.flag("mamba_rms_norm", true);
  mamba(config, draft,
        {"mamba_n_heads", "mamba_d_head", "mamba_d_state", "mamba_n_groups", "mamba_d_conv", "mamba_chunk_size"});
  config.find("mamba_d_ssm");
  if (!normed) draft.set("model.mixers.M.gated_norm", false);
  dense(config, draft);
  put_blocks(draft, std::vector<std::string>(static_cast<std::size_t>(config.count(config.need({"num_hidden_layers"}))),
                                             "A+M+F"));
}

/// Granite 4 and Bamba: a list says which layers have attention.
void granite_hybrid(Config& config, Draft& draft) {
  config.assume("intermediate_size", 1);
  const Settings* positions = config.find("position_embedding_type");
  const bool rotary = positions != nullptr && positions->text() == "rope";
  take_model(config, draft, rotary ? "rotary" : "none");
  draft.set("model.tied_embeddings", config.flag("tie_word_embeddings", true));
  attention(config, draft);
  const MambaNames names{"mamba_n_heads",  "mamba_d_head", "mamba_d_state",
                         "mamba_n_groups", "mamba_d_conv", "mamba_chunk_size"};
  if (const Settings* width = config.find("mamba_d_head"); width != nullptr && width->text() == "auto") {
    const std::int64_t inner = number_of(config, "mamba_expand", 2) * config.count(config.need({"hidden_size"}));
    config.replace("mamba_d_head", inner / config.count(config.need({"mamba_n_heads"})));
  }
  mamba(config, draft, names);
  const bool mixture = number_of(config, "num_local_experts", 0) > 0;
  const std::int64_t shared = number_of(config, "shared_intermediate_size", 0);
  if (mixture) {
    experts(config, draft, {"num_local_experts"}, "intermediate_size");
    shared_expert(draft, 1, shared, false);
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
  put_blocks(draft, words);
}

/// Bamba: an MLP in every layer, attention in those that a list names.
void bamba(Config& config, Draft& draft) {
  take_model(config, draft, "rotary");
  attention(config, draft);
  if (const Settings* width = config.find("mamba_d_head"); width != nullptr && width->text() == "auto") {
    const std::int64_t inner = number_of(config, "mamba_expand", 2) * config.count(config.need({"hidden_size"}));
    config.replace("mamba_d_head", inner / config.count(config.need({"mamba_n_heads"})));
  }
  mamba(config, draft,
        {"mamba_n_heads", "mamba_d_head", "mamba_d_state", "mamba_n_groups", "mamba_d_conv", "mamba_chunk_size"});
  dense(config, draft);
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
  attention(config, draft);
  const std::int64_t heads = config.count(config.need({"num_attention_heads"}));
  put_kind(draft, "mixers.L", "lightning");
  put(draft, "mixers.L", "heads", heads);
  put(draft, "mixers.L", "head_dim", number_of(config, "head_dim", config.count(config.need({"hidden_size"})) / heads));
  experts(config, draft, {"num_local_experts"}, "intermediate_size");
  const Settings* list = config.find("attn_type_list");
  if (list == nullptr || !list->is_sequence()) return put_blocks(draft, linear_words(config, "L+E", "A+E", 2));
  config.find("layer_types");
  std::vector<std::string> words;
  for (const Settings& kind : list->items()) words.emplace_back(kind.as_int(0, 1) == 1 ? "A+E" : "L+E");
  if (static_cast<std::int64_t>(words.size()) != config.count(config.need({"num_hidden_layers"})))
    list->fail(fmt::format("got {} layers, expected num_hidden_layers", words.size()));
  put_blocks(draft, words);
}

// ---- attention to some of the keys ----

/// Layers that predict further tokens, which blocks have none of.
void leave_predictions(Config& config, Draft& draft, const char* key) {
  if (number_of(config, key, 0) > 0)
    draft.ignored(key, "layers that predict further tokens are not modelled beside blocks; left out");
}

/// Whether the layer is one of a list's that are called so; without a list, of the first `count`.
bool in_list_or_first(const Settings* list, std::int64_t layer, const char* called, std::int64_t count) {
  if (list == nullptr || !list->is_sequence()) return layer < count;
  const auto at = static_cast<std::size_t>(layer);
  if (at >= list->items().size()) list->fail(fmt::format("got {} layers, expected num_hidden_layers", at));
  return list->items()[at].text() == called;
}

/// Experts under DeepSeek's names.
void deepseek_experts(Config& config, Draft& draft) {
  experts(config, draft, {"n_routed_experts"}, "moe_intermediate_size");
  shared_expert(draft, number_of(config, "n_shared_experts", 0), number_of(config, "moe_intermediate_size", 0), false);
  const Settings* method = config.find("topk_method");
  const std::int64_t groups = number_of(config, "n_group", 1), open = number_of(config, "topk_group", 1);
  if (groups <= 1 || (method != nullptr && method->text() == "greedy")) return;
  put(draft, "channels.E", "expert_groups", groups);
  put(draft, "channels.E", "top_groups", open);
}

void latent_widths(Config& config, Draft& draft, const char* at) {
  put_kind(draft, at, "dsa");
  put(draft, at, "heads", config.count(config.need({"num_attention_heads"})));
  put(draft, at, "q_lora", config.count(config.need({"q_lora_rank"})));
  put(draft, at, "kv_lora", config.count(config.need({"kv_lora_rank"})));
  put(draft, at, "qk_nope_dim", config.count(config.need({"qk_nope_head_dim"})));
  put(draft, at, "qk_rope_dim", config.count(config.need({"qk_rope_head_dim"})));
  put(draft, at, "v_dim", config.count(config.need({"v_head_dim"})));
  put(draft, at, "index_dim", number_of(config, "index_head_dim", 128));
  put(draft, at, "index_top_k", config.count(config.need({"index_topk"})));
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
  latent_widths(config, draft, "mixers.A");
  put(draft, "mixers.A", "index_heads", config.count(config.need({"index_n_heads"})));
  if (has('S')) {
    latent_widths(config, draft, "mixers.S");
    put(draft, "mixers.S", "index_heads", 0);
  }
  if (has('F')) dense(config, draft);
  deepseek_experts(config, draft);
  leave_predictions(config, draft, "num_nextn_predict_layers");
  put_blocks(draft, words);
}

/// DeepSeek-V4: a list says how many tokens a key of each layer stands for, 0 where the window is seen alone.
void deepseek_v4(Config& config, Draft& draft) {
  config.assume("intermediate_size", 1);
  take_model(config, draft, "rotary");
  const std::int64_t layers = config.count(config.need({"num_hidden_layers"}));
  const Settings& ratios = config.need({"compress_ratios"});
  std::vector<std::string> words;
  for (const Settings& ratio : ratios.items()) {
    if (static_cast<std::int64_t>(words.size()) == layers) break;  // those of layers that predict further tokens follow
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
  if (static_cast<std::int64_t>(words.size()) != layers)
    ratios.fail(fmt::format("got {} layers, expected num_hidden_layers", words.size()));
  deepseek_experts(config, draft);
  if (const std::int64_t streams = number_of(config, "hc_mult", 1); streams > 1)
    draft.first(fmt::format("hyper-connections (hc_mult: {}): not modelled; blocks read and write one residual stream",
                            streams));
  leave_predictions(config, draft, "num_nextn_predict_layers");
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
  experts(config, draft, {"num_local_experts"}, "intermediate_size");
  shared_expert(draft, number_of(config, "n_shared_experts", 0), number_of(config, "shared_intermediate_size", 0),
                false);
  if (with_mlp) {
    put_kind(draft, "channels.F", "mlp");
    put(draft, "channels.F", "ffn_hidden", config.count(config.need({"dense_intermediate_size"})));
  }
  if (const Settings* limit = config.find("swiglu_limit"); limit != nullptr && !limit->is_null())
    draft.set("model.channels.E.activation_clamp", fmt::format("{:g}", limit->as_number(0, 1e6)), limit->place());
  leave_predictions(config, draft, "num_mtp_modules");
  put_blocks(draft, words);
}

}  // namespace

const std::vector<std::pair<const char*, void (*)(Config&, Draft&)>>& hf_hybrids() {
  static const std::vector<std::pair<const char*, void (*)(Config&, Draft&)>> kHybrids{
      {"nemotron_h", nemotron_h},
      {"qwen3_next", qwen3_next},
      {"qwen3_5_moe_text", qwen3_next},
      {"qwen3_5_text", qwen3_5},
      {"kimi_linear", kimi_linear},
      {"falcon_h1", falcon_h1},
      {"granitemoehybrid", granite_hybrid},
      {"bamba", bamba},
      {"minimax", minimax},
      {"minimax_text_01", minimax},
      {"minimax_m1", minimax},
      {"deepseek_v32", deepseek_sparse},
      {"glm_moe_dsa", deepseek_sparse},
      {"deepseek_v4", deepseek_v4},
      {"minimax_m3", minimax_m3},
      {"minimax_m3_text", minimax_m3},
  };
  return kHybrids;
}

}  // namespace orrery::tools
