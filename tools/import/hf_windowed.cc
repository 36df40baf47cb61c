// See hf_windowed.h. Names of keys are those of the models' own files: XiaomiMiMo/MiMo-V2-Flash, stepfun-ai/Step-3.5
// and 3.7-Flash, google/gemma-4 (transformers, models/gemma4), nvidia/Llama-3_3-Nemotron-Super-49B
// (configuration_decilm.py: layers found by a search, arXiv 2411.19146), transformers' afmoe and exaone_moe. Left out:
// gates of one number a head, sinks (a number a head).
#include "tools/import/hf_windowed.h"

#include <algorithm>
#include <map>

#include "tools/import/hf_blocks.h"
#include "tools/import/hf_layer_inputs.h"

namespace orrery::tools {

namespace {

/// What a mixer with usual attention says.
struct Heads {
  const char* kind;
  std::int64_t heads, kv_heads, head_dim, v_dim = 0, window = 0;
};
void put_heads(Draft& draft, const char* at, const Heads& h) {
  put_kind(draft, at, h.kind);
  put(draft, at, "heads", h.heads);
  put(draft, at, "kv_heads", h.kv_heads);
  put(draft, at, "head_dim", h.head_dim);
  if (h.v_dim > 0 && h.v_dim != h.head_dim) put(draft, at, "v_dim", h.v_dim);
  if (h.window > 0) put(draft, at, "window", h.window);
}

/// The item of a list that has one for each layer.
const Settings& of_layer(const Settings& list, std::int64_t layer) {
  const auto at = static_cast<std::size_t>(layer);
  if (!list.is_sequence() || at >= list.items().size())
    list.fail(fmt::format("got {} layers, expected num_hidden_layers", list.is_sequence() ? list.items().size() : 0));
  return list.items()[at];
}

/// Which layers look through a window, by layer_types; without it by hybrid_layer_pattern (1: a window).
bool in_window(Config& config, std::int64_t layer) {
  if (const Settings* types = config.find("layer_types"); types != nullptr && types->is_sequence())
    return of_layer(*types, layer).as_choice({"sliding_attention", "full_attention"}) == "sliding_attention";
  const Settings* pattern = config.find("hybrid_layer_pattern");
  return pattern != nullptr && pattern->is_sequence() && of_layer(*pattern, layer).as_int(0, 1) == 1;
}

bool has_word(const std::vector<std::string>& words, char letter) {
  return std::any_of(words.begin(), words.end(),
                     [&](const std::string& word) { return word.find(letter) != std::string::npos; });
}

std::int64_t hidden_layers(Config& config) { return config.count(config.need({"num_hidden_layers"})); }

// ---- MiMo-V2 ----

/// Heads of windows under names of their own, values narrower than keys, experts in layers of a list.
void mimo_v2(Config& config, Draft& draft) {
  take_model(config, draft, "rotary");
  const Settings* freq = config.find("moe_layer_freq");
  std::vector<std::string> words;
  for (std::int64_t i = 0; i < hidden_layers(config); ++i) {
    const bool routed = freq == nullptr || !freq->is_sequence() || of_layer(*freq, i).as_int(0, 1) == 1;
    words.push_back(fmt::format("{}+{}", in_window(config, i) ? "W" : "A", routed ? "E" : "F"));
  }
  const std::int64_t heads = config.count(config.need({"num_attention_heads"})),
                     dim = config.count(config.need({"head_dim"}));
  const std::int64_t keys = number_of(config, "num_key_value_heads", heads),
                     value = number_of(config, "v_head_dim", dim);
  if (has_word(words, 'A')) put_heads(draft, "mixers.A", {"attention", heads, keys, dim, value});
  if (has_word(words, 'W')) {
    const std::int64_t own = number_of(config, "swa_num_attention_heads", heads),
                       own_dim = number_of(config, "swa_head_dim", dim);
    put_heads(draft, "mixers.W",
              {"sliding", own, number_of(config, "swa_num_key_value_heads", keys), own_dim,
               number_of(config, "swa_v_head_dim", value), config.count(config.need({"sliding_window"}))});
  }
  if (has_word(words, 'F')) put_dense(config, draft);
  if (has_word(words, 'E')) {
    put_experts(config, draft, {"n_routed_experts"}, "moe_intermediate_size");
    put_shared_expert(draft, number_of(config, "n_shared_experts", 0), number_of(config, "moe_intermediate_size", 0),
                      false);
  }
  take_predictions(config, draft, "num_nextn_predict_layers", words.back());
  put_blocks(draft, words);
}

// ---- Step 3.5 and 3.7 ----

/// Which layers have experts: those that moe_layers_enum lists ("3,4,5"), or all behind the first dense ones.
std::vector<bool> step_experts(Config& config, std::int64_t layers) {
  const Settings* listed = config.find("moe_layers_enum");
  if (listed != nullptr && !listed->is_null()) return named_layers(*listed, layers);
  std::vector<bool> routed(static_cast<std::size_t>(layers), false);
  for (std::int64_t i = number_of(config, "first_k_dense_replace", 0); i < layers; ++i)
    routed[static_cast<std::size_t>(i)] = true;
  return routed;
}

void step3(Config& config, Draft& draft) {
  take_model(config, draft, "rotary");
  const std::int64_t layers = hidden_layers(config);
  const std::vector<bool> routed = step_experts(config, layers);
  std::vector<std::string> words;
  for (std::int64_t i = 0; i < layers; ++i)
    words.push_back(
        fmt::format("{}+{}", in_window(config, i) ? "W" : "A", routed[static_cast<std::size_t>(i)] ? "E" : "F"));
  const std::int64_t heads = config.count(config.need({"num_attention_heads"}));
  const std::int64_t keys = config.count(config.need({"num_attention_groups", "num_key_value_heads"}));
  const std::int64_t dim = config.count(config.need({"head_dim"}));
  if (has_word(words, 'A')) put_heads(draft, "mixers.A", {"attention", heads, keys, dim});
  if (has_word(words, 'W')) {
    const Settings* other = config.find("attention_other_setting");
    const bool own = other != nullptr && other->is_mapping();
    put_heads(
        draft, "mixers.W",
        {"sliding", own ? other->get_int("num_attention_heads", heads, 1, 1'000'000) : heads,
         own ? other->get_int("num_attention_groups", keys, 1, 1'000'000) : keys,
         own ? other->get_int("head_dim", dim, 1, 65536) : dim, 0, config.count(config.need({"sliding_window"}))});
  }
  for (const char* mixer : {"A", "W"})
    if (has_word(words, *mixer)) draft.set(fmt::format("model.mixers.{}.qk_norm", mixer), true);
  if (has_word(words, 'F')) put_dense(config, draft);
  if (has_word(words, 'E')) {
    put_kind(draft, "channels.E", "moe");
    put(draft, "channels.E", "experts", config.count(config.need({"moe_num_experts", "num_experts"})));
    put(draft, "channels.E", "top_k", config.count(config.need({"moe_top_k", "num_experts_per_tok"})));
    put(draft, "channels.E", "expert_ffn_hidden", config.count(config.need({"moe_intermediate_size"})));
    put_shared_expert(draft, 1, number_of(config, "share_expert_dims", number_of(config, "share_expert_dim", 0)),
                      false);
    config.find("n_shared_experts");
  }
  take_predictions(config, draft, "num_nextn_predict_layers", has_word(words, 'F') ? "W+F" : words.back());
  put_blocks(draft, words);
}

// ---- Gemma 4 ----

/// Layers of windows, and those that see all, that make no keys.
void put_sharers(Config& config, Draft& draft, const std::vector<std::string>& words, bool key_is_value) {
  const std::int64_t heads = config.count(config.need({"num_attention_heads"})),
                     keys = number_of(config, "num_key_value_heads", heads),
                     dim = config.count(config.need({"head_dim"}));
  const auto starts = [&](const char* with) {
    return std::any_of(words.begin(), words.end(), [&](const std::string& word) { return word.starts_with(with); });
  };
  const auto put_one = [&](const char* at, const Heads& of) {
    put_heads(draft, at, of);
    for (const char* key : {"qk_norm", "shares_keys"}) draft.set(fmt::format("model.{}.{}", at, key), true);
  };
  const std::int64_t own = key_is_value ? number_of(config, "num_global_key_value_heads", keys) : keys;
  if (starts("AS")) put_one("mixers.AS", {"attention", heads, own, number_of(config, "global_head_dim", dim)});
  if (starts("WS"))
    put_one("mixers.WS", {"sliding", heads, keys, dim, 0, config.count(config.need({"sliding_window"}))});
}

/// Layers that see all have wider heads, whose values are what the product of their keys makes; experts stand beside
/// the MLP of their layer, as a shared one does.
void gemma4(Config& config, Draft& draft) {
  config.assume("vocab_size", 262144);
  config.assume("max_position_embeddings", 131072);
  take_model(config, draft, "rotary");
  draft.set("model.tied_embeddings", config.flag("tie_word_embeddings", true));
  draft.set("model.activation", std::string("gelu"));
  draft.set("model.post_norm", true);
  const bool mixture = config.flag("enable_moe_block", false), wide = config.flag("use_double_wide_mlp", false);
  const std::int64_t inputs = number_of(config, "hidden_size_per_layer_input", 0);
  if (inputs > 0) put_layer_inputs(config, draft, inputs);
  config.find("vocab_size_per_layer_input");
  // The last layers read keys of the last ahead of them of their kind.
  const std::int64_t first_shared = hidden_layers(config) - number_of(config, "num_kv_shared_layers", 0);
  std::vector<std::string> words;
  for (std::int64_t i = 0; i < hidden_layers(config); ++i) {
    const bool shares = i >= first_shared;
    words.push_back(fmt::format("{}{}+{}{}", in_window(config, i) ? "W" : "A", shares ? "S" : "",
                                mixture          ? "E"
                                : shares && wide ? "D"
                                                 : "F",
                                inputs > 0 ? "+P" : ""));
  }
  const std::int64_t heads = config.count(config.need({"num_attention_heads"})),
                     keys = number_of(config, "num_key_value_heads", heads),
                     dim = config.count(config.need({"head_dim"}));
  const bool same = config.flag("attention_k_eq_v", false);
  if (has_word(words, 'A')) {
    const std::int64_t own = same ? number_of(config, "num_global_key_value_heads", keys) : keys;
    put_heads(draft, "mixers.A", {"attention", heads, own, number_of(config, "global_head_dim", dim)});
    draft.set("model.mixers.A.qk_norm", true);
    if (same) draft.set("model.mixers.A.key_is_value", true);
  }
  if (has_word(words, 'W')) {
    put_heads(draft, "mixers.W", {"sliding", heads, keys, dim, 0, config.count(config.need({"sliding_window"}))});
    draft.set("model.mixers.W.qk_norm", true);
  }
  if (has_word(words, 'S')) put_sharers(config, draft, words, same);
  if (!mixture) {
    put_dense(config, draft);
    if (has_word(words, 'D')) {
      put_kind(draft, "channels.D", "mlp");
      put(draft, "channels.D", "ffn_hidden", 2 * config.count(config.need({"intermediate_size"})));
    }
    return put_blocks(draft, words);
  }
  put_kind(draft, "channels.E", "moe");
  put(draft, "channels.E", "experts", config.count(config.need({"num_experts"})));
  put(draft, "channels.E", "top_k", config.count(config.need({"top_k_experts"})));
  put(draft, "channels.E", "expert_ffn_hidden",
      config.count(config.need({"moe_intermediate_size", "expert_intermediate_size"})));
  put_shared_expert(draft, 1, config.count(config.need({"intermediate_size"})), false);
  draft.ignored("norms around experts", "one each ahead and behind of MLP and experts together, not of each");
  put_blocks(draft, words);
}

// ---- widths by layer ----

/// Inside of an MLP: so many times the hidden size, two thirds of it for the gate, up to a multiple of 256
/// (modeling_decilm.py, _ffn_mult_to_intermediate_size).
std::int64_t inside_of(double multiple, std::int64_t hidden) {
  constexpr std::int64_t kWhole = 256;
  const auto inside = static_cast<std::int64_t>(2 * multiple * static_cast<double>(hidden) / 3);
  return (inside + kWhole - 1) / kWhole * kWhole;
}

bool is_left_out(const Settings& half) {
  if (const Settings* linear = half.find("replace_with_linear"); linear != nullptr && linear->as_bool())
    linear->fail("got a product in place of attention or of an MLP, expected none: not modelled");
  return half.get_bool("no_op", false);
}

/// Nemotron-NAS (Llama-Nemotron Super and Ultra): a list says of every layer how many heads share keys and how wide its
/// MLP is, or that it has none.
void nemotron_nas(Config& config, Draft& draft) {
  config.assume("intermediate_size", 1);
  config.find("intermediate_size");
  const std::int64_t heads = config.count(config.need({"num_attention_heads"}));
  if (config.members().at("intermediate_size").is_null()) config.replace("intermediate_size", 1);
  if (const Settings* keys = config.members().find("num_key_value_heads"); keys != nullptr && keys->is_null())
    config.replace("num_key_value_heads", heads);
  take_model(config, draft, "rotary");
  const std::int64_t hidden = config.count(config.need({"hidden_size"}));
  const Settings& blocks = config.need({"block_configs"});
  if (!blocks.is_sequence() || static_cast<std::int64_t>(blocks.items().size()) != hidden_layers(config))
    blocks.fail("got no list with one for each of num_hidden_layers");
  std::map<std::int64_t, std::string> mixers, channels;  // names by heads to a key, and by width
  std::vector<std::string> words;
  for (const Settings& block : blocks.items()) {
    std::string word;
    if (const Settings& half = block.at("attention"); !is_left_out(half)) {
      const std::int64_t group = half.at("n_heads_in_group").as_int(1, heads);
      const auto [name, is_new] = mixers.try_emplace(group, fmt::format("A{}", heads / group));
      if (is_new)
        put_heads(draft, ("mixers." + name->second).c_str(), {"attention", heads, heads / group, hidden / heads});
      word = name->second;
    }
    if (const Settings& half = block.at("ffn"); !is_left_out(half)) {
      const std::int64_t inside = inside_of(half.at("ffn_mult").as_number(0, 1000), hidden);
      const auto [name, is_new] = channels.try_emplace(inside, fmt::format("F{}", inside));
      const std::string at = "channels." + name->second;
      if (is_new) {
        put_kind(draft, at.c_str(), "mlp");
        put(draft, at.c_str(), "ffn_hidden", inside);
      }
      word += (word.empty() ? "" : "+") + name->second;
    }
    if (!word.empty()) words.push_back(word);
  }
  const auto left = blocks.items().size() - words.size();
  if (left > 0) draft.ignored("block_configs", fmt::format("{} layers of nothing, which are no blocks", left));
  put_blocks(draft, words);
}

// ---- Trinity and K-EXAONE ----

/// Windows and experts by layer, the first layers with an MLP.
void windowed_experts(Config& config, Draft& draft, const char* dense, bool gate) {
  take_model(config, draft, "rotary");
  const std::int64_t first = number_of(config, dense, 0);
  std::vector<std::string> words;
  for (std::int64_t i = 0; i < hidden_layers(config); ++i)
    words.push_back(fmt::format("{}+{}", in_window(config, i) ? "W" : "A", i < first ? "F" : "E"));
  const std::int64_t heads = config.count(config.need({"num_attention_heads"})),
                     keys = number_of(config, "num_key_value_heads", heads),
                     dim = config.count(config.need({"head_dim"}));
  const auto take = [&](const char* at, const Heads& own) {
    put_heads(draft, at, own);
    draft.set(fmt::format("model.{}.qk_norm", at), true);
    if (gate) draft.set(fmt::format("model.{}.output_gate", at), true);
  };
  if (has_word(words, 'A')) take("mixers.A", {"attention", heads, keys, dim});
  if (has_word(words, 'W'))
    take("mixers.W", {"sliding", heads, keys, dim, 0, config.count(config.need({"sliding_window"}))});
  if (first > 0) put_dense(config, draft);
  put_experts(config, draft, {"num_experts"}, "moe_intermediate_size");
  put_shared_expert(draft, number_of(config, "num_shared_experts", 0), number_of(config, "moe_intermediate_size", 0),
                    false);
  for (const char* key : {"global_attn_every_n_layers", "sliding_window_pattern", "mup_enabled", "score_func",
                          "scoring_func", "route_scale", "is_moe_layer", "first_last_k_dense_replace"})
    config.find(key);
  take_predictions(config, draft, "num_nextn_predict_layers", words.back());
  put_blocks(draft, words);
}

/// Norms stand ahead of both halves and behind them; a gate of its own on the output of attention.
void afmoe(Config& config, Draft& draft) {
  windowed_experts(config, draft, "num_dense_layers", true);
  draft.set("model.post_norm", true);
}
void exaone_moe(Config& config, Draft& draft) { windowed_experts(config, draft, "first_k_dense_replace", false); }

/// Laguna (poolside): heads of layers in a list, layers of windows and of all positions, an MLP where a list says so.
void laguna(Config& config, Draft& draft) {
  take_model(config, draft, "rotary");
  const Settings* heads_of = config.find("num_attention_heads_per_layer");
  const Settings *channels = config.find("mlp_layer_types"), *only = config.find("mlp_only_layers");
  const std::int64_t usual = config.count(config.need({"num_attention_heads"})),
                     keys = number_of(config, "num_key_value_heads", usual),
                     dim = config.count(config.need({"head_dim"}));
  std::map<std::pair<bool, std::int64_t>, std::string> mixers;  // names, by a window and heads
  std::vector<std::string> words;
  for (std::int64_t i = 0; i < hidden_layers(config); ++i) {
    const bool near = in_window(config, i);
    const std::int64_t heads =
        heads_of != nullptr && heads_of->is_sequence() ? of_layer(*heads_of, i).as_int(1, 1'000'000) : usual;
    const auto [name, is_new] =
        mixers.try_emplace({near, heads}, fmt::format("{}{}", near ? "W" : "A", mixers.size() + 1));
    if (is_new) {
      const std::string at = "mixers." + name->second;
      put_heads(draft, at.c_str(),
                {near ? "sliding" : "attention", heads, keys, dim, 0,
                 near ? config.count(config.need({"sliding_window"})) : 0});
      draft.set("model." + at + ".qk_norm", true);
    }
    const bool listed = only != nullptr && only->is_sequence() &&
                        std::any_of(only->items().begin(), only->items().end(),
                                    [&](const Settings& layer) { return layer.as_int(0, 100'000) == i; });
    const bool dense =
        channels != nullptr && channels->is_sequence() ? of_layer(*channels, i).text() == "dense" : listed;
    words.push_back(fmt::format("{}+{}", name->second, dense ? "F" : "E"));
  }
  if (has_word(words, 'F')) put_dense(config, draft);
  if (has_word(words, 'E')) {
    put_experts(config, draft, {"num_experts"}, "moe_intermediate_size");
    put_shared_expert(draft, 1, number_of(config, "shared_expert_intermediate_size", 0), false);
  }
  for (const char* key : {"gating", "gating_types", "moe_router_logit_softcapping", "moe_routed_scaling_factor",
                          "moe_apply_router_weight_on_input", "decoder_sparse_step"})
    config.find(key);
  put_blocks(draft, words);
}

}  // namespace

const std::vector<std::pair<const char*, void (*)(Config&, Draft&)>>& hf_windowed() {
  static const std::vector<std::pair<const char*, void (*)(Config&, Draft&)>> kFamilies{
      {"mimo_v2_flash", mimo_v2}, {"mimo_v2", mimo_v2},       {"step3p5", step3},
      {"step3p7", step3},         {"gemma4_text", gemma4},    {"nemotron-nas", nemotron_nas},
      {"afmoe", afmoe},           {"exaone_moe", exaone_moe}, {"laguna", laguna},
  };
  return kFamilies;
}

}  // namespace orrery::tools
