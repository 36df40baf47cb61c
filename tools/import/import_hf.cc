// `orrery import hf`: a model's config.json of Hugging Face transformers. What each key means, and its default where a
// file leaves it out, is that of the configuration class of its family (transformers, src/transformers/models/<family>/
// configuration_<family>.py). Left out: encoders, and what changes values but not work.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "tools/import/checkpoint_types.h"
#include "tools/import/hf_config.h"
#include "tools/import/hf_diffusers.h"
#include "tools/import/hf_further.h"
#include "tools/import/hf_hybrids.h"
#include "tools/import/hf_layer_inputs.h"
#include "tools/import/hf_reasons.h"
#include "tools/import/hf_stacks.h"
#include "tools/import/import.h"
#include "tools/import/parse_json.h"

namespace orrery::tools {

using nlohmann::json;
using sim::Place;
using sim::Settings;
using sim::UserError;

namespace {

Place place_at(const std::string& file, const std::string& text, std::size_t byte) {
  byte = std::min(byte, text.size());
  const auto begin = text.begin(), end = begin + static_cast<std::ptrdiff_t>(byte);
  const auto line = std::count(begin, end, '\n');
  const std::size_t last = text.rfind('\n', byte == 0 ? 0 : byte - 1);
  const std::size_t column = line == 0 ? byte : byte - last - 1;
  return {file, static_cast<int>(line) + 1, static_cast<int>(column) + 1};
}

/// Where `"key":` stands at the depth of `from`: the first time it is followed by a colon.
Place place_of_key(const std::string& file, const std::string& text, const std::string& key, std::size_t from) {
  const std::string quoted = '"' + key + '"';
  for (std::size_t at = text.find(quoted, from); at != std::string::npos; at = text.find(quoted, at + 1)) {
    const std::size_t next = text.find_first_not_of(" \t\r\n", at + quoted.size());
    if (next != std::string::npos && text[next] == ':') return place_at(file, text, at);
  }
  return {file, 0, 0};
}

constexpr std::size_t kMostInside = 256;  // more than any model has layers

/// A scalar of JSON as a value of Settings; nothing for what holds others.
std::optional<Settings> scalar_of(const json& value, const Place& place) {
  if (value.is_null()) return Settings::scalar("", place);
  if (value.is_string()) return Settings::scalar(value.get<std::string>(), place, true);
  if (value.is_number() || value.is_boolean()) return Settings::scalar(value.dump(), place);
  return {};
}

/// A value of JSON as Settings: scalars as they are, of lists and objects so many members and so many levels, and of
/// the whole no more than `left` values.
Settings settings_of(const json& value, const Place& place, int levels, std::size_t& left) {
  if (const std::optional<Settings> scalar = scalar_of(value, place)) return *scalar;
  Settings inner = value.is_array() ? Settings::sequence(place) : Settings::mapping(place);
  if (levels == 0) return inner;
  std::size_t taken = 0;
  for (const auto& [name, member] : value.items()) {
    if (++taken > kMostInside || left == 0) break;
    --left;
    Settings one = settings_of(member, place, levels - 1, left);
    if (value.is_array())
      inner.append(std::move(one));
    else
      inner.set(name, std::move(one));
  }
  return inner;
}

/// The members of a JSON object as Settings, as deep as any reader looks (block_configs: a list of objects of objects).
Settings members_of(const json& object, const std::string& file, const std::string& text, std::size_t from) {
  constexpr int kLevels = 3;
  std::size_t left = 100'000;
  Settings members = Settings::mapping(place_at(file, text, from));
  for (const auto& [key, value] : object.items())
    members.set(key, settings_of(value, place_of_key(file, text, key, from), kLevels, left));
  return members;
}

/// Infinity, -Infinity and NaN, which Python's json writes and reads, as null of the same length.
std::string without_infinities(std::string text) {
  bool quoted = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '\\' && quoted) {
      ++at;
    } else if (text[at] == '"') {
      quoted = !quoted;
    } else if (!quoted) {
      for (const std::string_view word : {"-Infinity", "Infinity", "NaN"}) {
        if (!std::string_view(text).substr(at).starts_with(word)) continue;
        // Of the same length, so that complaints point to the right place; NaN is too short for null.
        const std::string by = word == "NaN" ? "0.0" : "null";
        text.replace(at, word.size(), by + std::string(word.size() - by.size(), ' '));
        at += word.size() - 1;
        break;
      }
    }
  }
  return text;
}

json config_json(const std::string& file, const std::string& written) {
  const std::string text = without_infinities(written);
  try {
    return parse_json(text);
  } catch (const JsonProblem& problem) {
    throw UserError(place_at(file, text, problem.at), "", problem.got + ", expected a config.json");
  }
}

/// The language model inside a model of several parts, under the name that its family gives it.
struct TextPart {
  const json* object = nullptr;  // null: the whole is one
  std::string top;               // the whole's member that it lies in
  std::size_t from = 0;
};
TextPart text_part(const json& document, const std::string& text) {
  const auto inside = [&](const json& object, const std::string& top, std::size_t from) -> TextPart {
    for (const char* name : {"text_config", "llm_config", "language_config"}) {
      const auto inner = object.find(name);
      if (inner == object.end() || !inner->is_object()) continue;
      const std::size_t at = text.find(fmt::format("\"{}\"", name), from);
      return {&*inner, top.empty() ? name : top, at == std::string::npos ? from : at};
    }
    return {};
  };
  if (document.contains("num_hidden_layers")) return {};
  if (const auto thinker = document.find("thinker_config"); thinker != document.end() && thinker->is_object())
    return inside(*thinker, "thinker_config", text.find("\"thinker_config\""));
  return inside(document, "", 0);
}

void gpt2(Config& config, Draft& draft) {
  take_sizes(config, draft,
             SizeNames{{"n_layer", "num_hidden_layers"},
                       {"n_embd", "hidden_size"},
                       {"n_head", "num_attention_heads"},
                       {"vocab_size"},
                       {"n_positions", "n_ctx", "max_position_embeddings"}});
  take_count(config, draft, "model.ffn_hidden", {"n_inner"});
  set_shape(draft, false, false, "learned", "layer_norm");
  draft.set("model.biases", std::string("all"));
  draft.set("model.tied_embeddings", config.flag("tie_word_embeddings", true));
}

void gpt_neox(Config& config, Draft& draft) {
  take_sizes(config, draft, SizeNames{});
  take_count(config, draft, "model.ffn_hidden", {"intermediate_size"});
  const bool parallel = config.flag("use_parallel_residual", true);
  set_shape(draft, false, parallel, "rotary", "layer_norm");
  draft.set("model.biases", std::string("all"));
  const bool attention_bias = config.flag("attention_bias", true);
  if (!attention_bias) draft.ignored("attention_bias", "biases of attention alone cannot be left out; counted");
  draft.set("model.tied_embeddings", config.flag("tie_word_embeddings", false));
  if (parallel) draft.ignored("the second layer norm of a block", "a parallel block has one norm here");
}

void mistral(Config& config, Draft& draft) {
  llama(config, draft, "none");
  take_window(config, draft, true);
}

void qwen2(Config& config, Draft& draft) {
  llama(config, draft, "qkv");
  take_window(config, draft, config.flag("use_sliding_window", false));
}

void qwen3(Config& config, Draft& draft) {
  llama(config, draft, "none");
  take_window(config, draft, config.flag("use_sliding_window", false));
  if (!draft.has("model.head_dim")) draft.set("model.head_dim", std::int64_t{128});  // the class's default
  draft.set("model.qk_norm", true);
}

/// Falcon's checkpoints keep an output matrix of their own, and its authors count it.
void falcon(Config& config, Draft& draft) {
  take_sizes(config, draft,
             SizeNames{{"num_hidden_layers", "n_layer"},
                       {"hidden_size"},
                       {"num_attention_heads", "n_head"},
                       {"vocab_size"},
                       {"max_position_embeddings", "seq_length"},
                       2048});
  take_count(config, draft, "model.ffn_hidden", {"ffn_hidden_size"});
  const bool grouped = config.flag("new_decoder_architecture", false) || config.find("n_head_kv") != nullptr;
  const bool multi_query = config.flag("multi_query", true);
  if (grouped) {
    take_count(config, draft, "model.kv_heads", {"num_kv_heads", "n_head_kv"});
  } else if (multi_query) {
    draft.set("model.kv_heads", std::int64_t{1});
    config.find("num_kv_heads");
  }
  const bool parallel = config.flag("parallel_attn", true) || grouped;
  set_shape(draft, false, parallel, config.flag("alibi", false) ? "none" : "rotary", "layer_norm");
  draft.set("model.biases", std::string(config.flag("bias", false) ? "all" : "none"));
  const Settings* tied = config.find("tie_word_embeddings");
  draft.set("model.tied_embeddings", tied != nullptr && tied->as_bool());
  if (tied == nullptr) draft.assumed("model.tied_embeddings", "false, as Falcon's checkpoints hold an output matrix");
  if (grouped) draft.ignored("the second layer norm of a block", "a parallel block has one norm here");
}

/// OPT: learned positions, biases everywhere, one matrix for both ends.
void opt(Config& config, Draft& draft) {
  take_sizes(config, draft, SizeNames{});
  take_count(config, draft, "model.ffn_hidden", {"ffn_dim"});
  set_shape(draft, false, false, "learned", "layer_norm");
  const Settings* activation = config.find("activation_function");
  if (activation == nullptr || activation->text() == "relu") draft.set("model.activation", std::string("relu"));
  draft.set("model.biases", std::string(config.flag("enable_bias", true) ? "all" : "none"));
  draft.set("model.tied_embeddings", config.flag("tie_word_embeddings", true));
  if (!config.flag("do_layer_norm_before", true))
    draft.ignored("do_layer_norm_before", "norms behind attention and MLP cost what those ahead of them do");
  const Settings* width = config.find("word_embed_proj_dim");
  if (width != nullptr && config.count(*width) != config.count(config.need({"hidden_size"})))
    draft.ignored("word_embed_proj_dim", "narrower embeddings and their projections; they count at the hidden size");
}

/// Gemma: GeGLU, heads of 256, one matrix for both ends.
void gemma(Config& config, Draft& draft) {
  llama(config, draft, "none");
  take_default(draft, "model.head_dim", 256);
  draft.set("model.activation", std::string("gelu"));
  draft.set("model.tied_embeddings", config.flag("tie_word_embeddings", true));
}

/// Gemma 2: norms behind attention and MLP too, a window in every other layer.
void gemma2(Config& config, Draft& draft) {
  gemma(config, draft);
  draft.set("model.post_norm", true);
  take_window(config, draft, true);
  if (draft.has("model.attention_window")) draft.set("model.attention_window_every", std::int64_t{2});
}

/// Gemma 3's text model: norms of queries and keys, a window in all layers but every sixth. Its files leave out what is
/// the class's default.
void gemma3(Config& config, Draft& draft) {
  config.assume("vocab_size", 262208);
  config.assume("max_position_embeddings", 131072);
  config.assume("num_attention_heads", 8);
  config.assume("num_key_value_heads", 4);
  gemma(config, draft);
  draft.set("model.post_norm", true);
  draft.set("model.qk_norm", true);
  take_window(config, draft, true);
  if (!draft.has("model.attention_window")) return;
  draft.set("model.attention_window_every", std::int64_t{6});
  take_count(config, draft, "model.attention_window_every", {"sliding_window_pattern", "_sliding_window_pattern"});
}

/// OLMo 2: norms of queries and keys, and behind attention and MLP in place of ahead of them.
void olmo2(Config& config, Draft& draft) {
  llama(config, draft, "none");
  draft.set("model.qk_norm", true);
  draft.ignored("norms of queries and keys", "over all heads together there, of each head here");
}

/// Nemotron: an MLP of two products with a squared ReLU, LayerNorm.
void nemotron(Config& config, Draft& draft) {
  llama(config, draft, "none");
  set_shape(draft, false, false, "rotary", "layer_norm");
  draft.set("model.activation", std::string("squared_relu"));
}

// ---- mixtures of experts ----

/// Mixtral, Phi-3.5-MoE and OLMoE: experts in every layer, of the MLP's width.
void mixtral(Config& config, Draft& draft) {
  llama(config, draft, "none");
  take_experts(config, draft, {"num_local_experts", "num_experts"}, "intermediate_size");
  take_window(config, draft, true);
}

void olmoe(Config& config, Draft& draft) {
  mixtral(config, draft);
  draft.set("model.qk_norm", true);
  draft.ignored("norms of queries and keys", "over all heads together there, of each head here");
}

void phimoe(Config& config, Draft& draft) {
  llama(config, draft, "none");
  take_experts(config, draft, {"num_local_experts"}, "intermediate_size");
  take_window(config, draft, true);
  draft.set("model.norm", std::string("layer_norm"));
}

/// Where a list names layers with a dense MLP, or a step between those with experts.
void take_sparse_layers(Config& config, Draft& draft) {
  if (const Settings* step = config.find("decoder_sparse_step"); step != nullptr && config.count(*step) > 1)
    draft.set("model.moe_every", config.count(*step), step->place());
  if (const Settings* dense = config.find("mlp_only_layers"); dense != nullptr && !dense->items().empty())
    draft.ignored("mlp_only_layers", "single dense layers between others are not modelled");
}

void qwen2_moe(Config& config, Draft& draft) {
  qwen2(config, draft);
  take_experts(config, draft, {"num_experts"}, "moe_intermediate_size");
  take_sparse_layers(config, draft);
  if (const Settings* shared = config.find("shared_expert_intermediate_size"); shared != nullptr) {
    draft.set("model.shared_experts", std::int64_t{1});
    draft.set("model.shared_expert_ffn_hidden", config.count(*shared), shared->place());
    draft.set("model.shared_gate", true);
  }
}

void qwen3_moe(Config& config, Draft& draft) {
  qwen3(config, draft);
  take_experts(config, draft, {"num_experts"}, "moe_intermediate_size");
  take_sparse_layers(config, draft);
}

/// DeepSeek-V2 and V3, and what is built as they are (Kimi K2).
void deepseek(Config& config, Draft& draft) {
  llama(config, draft, "none");
  take_experts(config, draft, {"n_routed_experts"}, "moe_intermediate_size");
  const auto take = [&](const char* key, const char* name) {
    const Settings* member = config.find(name);
    if (member != nullptr) draft.set(key, member->as_int(0, 1'000'000), member->place());
  };
  const Settings *groups = config.find("n_group"), *method = config.find("topk_method");
  const bool limited = method == nullptr || method->text() != "greedy";
  if (groups != nullptr && config.count(*groups) > 1 && limited) {
    take("model.expert_groups", "n_group");
    take("model.top_groups", "topk_group");
  }
  take("model.shared_experts", "n_shared_experts");
  take("model.dense_layers", "first_k_dense_replace");
  take("model.moe_every", "moe_layer_freq");
  take("model.mtp_layers", "num_nextn_predict_layers");
  draft.set("model.attention_kind", std::string("mla"));
  take("model.kv_lora", "kv_lora_rank");
  take("model.q_lora", "q_lora_rank");
  take("model.qk_nope_dim", "qk_nope_head_dim");
  take("model.qk_rope_dim", "qk_rope_head_dim");
  take("model.v_dim", "v_head_dim");
}

void gpt_oss(Config& config, Draft& draft) {
  llama(config, draft, "none");
  take_experts(config, draft, {"num_local_experts", "num_experts"}, "intermediate_size");
  draft.set("model.biases", std::string("all"));
  take_window(config, draft, true);
  if (draft.has("model.attention_window")) draft.set("model.attention_window_every", std::int64_t{2});
  draft.ignored("attention sinks", "a number for each head");
  if (const Settings* limit = config.find("swiglu_limit"); limit != nullptr)
    draft.set("model.activation_clamp", fmt::format("{:g}", limit->as_number(0, 1e6)), limit->place());
  const Settings* scaling = config.find("rope_scaling");
  if (scaling != nullptr && scaling->get_text("rope_type", "") == "yarn") {
    const double longer = scaling->get_number("factor", 1, 1, 1e6);
    const double factor = scaling->get_number("attention_factor", 0.1 * std::log(longer) + 1, 1e-3, 1e3);
    draft.set("model.rotary_factor", fmt::format("{:.4f}", factor), scaling->place());
  }
}

/// Of so many layers in turn the last attends over all positions, the others over chunks: 0 where none attends over
/// all, 1 where all do. Said by layer_types, by no_rope_layers (1: rotary positions, and chunks), or by
/// no_rope_layer_interval, as the class resolves them (huggingface/transformers, models/llama4,
/// configuration_llama4.py).
std::int64_t chunked_layers(Config& config) {
  const Settings *types = config.find("layer_types"), *rotary = config.find("no_rope_layers");
  const Settings* interval = config.find("no_rope_layer_interval");
  std::vector<bool> all;
  const Settings* list = types != nullptr ? types : rotary;
  if (list != nullptr && list->is_sequence()) {
    for (const Settings& layer : list->items())
      all.push_back(types != nullptr ? layer.as_choice({"chunked_attention", "full_attention"}) == "full_attention"
                                     : layer.as_int(0, 1) == 0);
  }
  if (all.empty()) return interval == nullptr ? 4 : config.count(*interval);
  const auto first = std::find(all.begin(), all.end(), true);
  const std::int64_t every = first == all.end() ? 0 : first - all.begin() + 1;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i] != (every > 0 && (i + 1) % static_cast<std::size_t>(every) == 0))
      list->items()[i].fail(
          fmt::format("got a list of layers that {} out of turn, expected of every {} the last "
                      "without chunks: no other order is modelled",
                      all[i] ? "leaves chunks" : "takes chunks", every));
  }
  return every;
}

/// Chunks of attention; where a file says nothing of them, as the class has it.
void take_chunks(Config& config, Draft& draft) {
  const Settings* chunk = config.find("attention_chunk_size");
  const std::int64_t every = chunked_layers(config);
  if (every == 1) return;
  constexpr std::int64_t kOfTheClass = 8192;
  if (chunk != nullptr)
    draft.set("model.attention_window", config.count(*chunk), chunk->place());
  else
    draft.set("model.attention_window", kOfTheClass);
  if (every > 0) draft.set("model.attention_window_every", every);
  draft.set("model.attention_window_kind", std::string("chunked"));
}

/// Experts of `intermediate_size` in every so many layers, one of that size shared, dense MLPs of another between.
void llama4(Config& config, Draft& draft) {
  llama(config, draft, "none");
  take_experts(config, draft, {"num_local_experts"}, "intermediate_size");
  draft.set("model.shared_experts", std::int64_t{1});
  if (const Settings* step = config.find("interleave_moe_layer_step"); step != nullptr)
    draft.set("model.moe_every", config.count(*step), step->place());
  if (const Settings* dense = config.find("intermediate_size_mlp"); dense != nullptr)
    draft.set("model.ffn_hidden", config.count(*dense), dense->place());
  take_chunks(config, draft);
}

/// MiMo: Qwen 2's shape with biases of queries, keys and values, and layers that predict further tokens.
void mimo(Config& config, Draft& draft) {
  qwen2(config, draft);
  if (const Settings* more = config.find("num_nextn_predict_layers"); more != nullptr && more->as_int(0, 1000) > 0)
    draft.set("model.mtp_layers", more->as_int(), more->place());
}

/// Layers by their kind of attention: of so many in turn the last attends over all positions.
void take_layer_types(Config& config, Draft& draft, std::int64_t every) {
  take_window(config, draft, true);
  const Settings* types = config.find("layer_types");
  if (!draft.has("model.attention_window")) return;
  if (types != nullptr && types->is_sequence()) {
    const auto first = std::find_if(types->items().begin(), types->items().end(),
                                    [](const Settings& each) { return each.text() == "full_attention"; });
    every = first == types->items().end() ? 0 : first - types->items().begin() + 1;
    for (std::size_t i = 0; every > 0 && i < types->items().size(); ++i) {
      const bool full = types->items()[i].text() == "full_attention";
      if (full != ((i + 1) % static_cast<std::size_t>(every) == 0) && i + 1 != types->items().size())
        types->items()[i].fail("got layers of full attention out of turn, expected of so many the last");
    }
  }
  if (every > 0) draft.set("model.attention_window_every", every);
}

/// OLMo 3: OLMo 2 with a window in all layers but every fourth.
void olmo3(Config& config, Draft& draft) {
  olmo2(config, draft);
  take_layer_types(config, draft, 4);
}

/// GLM-4: Llama's shape with biases of queries, keys and values, norms behind attention and MLP too.
void glm4(Config& config, Draft& draft) {
  llama(config, draft, "none");
  if (!draft.has("model.head_dim")) take_default(draft, "model.head_dim", 128);
  draft.set("model.post_norm", true);
}

/// GLM-4.5 and on: experts behind some dense layers, as in DeepSeek-V3, around grouped queries.
void glm4_moe(Config& config, Draft& draft) {
  llama(config, draft, "none");
  take_experts(config, draft, {"n_routed_experts", "num_experts"}, "moe_intermediate_size");
  const auto take = [&](const char* key, const char* name) {
    if (const Settings* member = config.find(name); member != nullptr)
      draft.set(key, member->as_int(0, 1'000'000), member->place());
  };
  take("model.shared_experts", "n_shared_experts");
  take("model.dense_layers", "first_k_dense_replace");
  take("model.mtp_layers", "num_nextn_predict_layers");
  if (config.flag("use_qk_norm", false)) draft.set("model.qk_norm", true);
}

/// MiniMax-M2: experts in every layer, norms of queries and keys.
void minimax_m2(Config& config, Draft& draft) {
  llama(config, draft, "none");
  take_experts(config, draft, {"num_local_experts", "num_experts"}, "intermediate_size");
  if (config.flag("use_qk_norm", true)) draft.set("model.qk_norm", true);
  const std::int64_t modules =
      config.find("num_mtp_modules") != nullptr ? config.find("num_mtp_modules")->as_int(0, 1000) : 0;
  if (modules > 0 && config.flag("use_mtp", true)) draft.set("model.mtp_layers", modules);
}

/// Granite 3: Llama's shape; its multipliers are values.
void granite_moe(Config& config, Draft& draft) {
  llama(config, draft, "none");
  take_experts(config, draft, {"num_local_experts"}, "intermediate_size");
  draft.set("model.tied_embeddings", config.flag("tie_word_embeddings", true));
}

/// StarCoder 2: an MLP of two products with biases, LayerNorm, grouped queries.
void starcoder2(Config& config, Draft& draft) {
  llama(config, draft, "none");
  set_shape(draft, false, false, "rotary", "layer_norm");
  draft.set("model.activation", std::string("gelu"));
  draft.set("model.biases", std::string(config.flag("use_bias", true) ? "all" : "none"));
  draft.set("model.tied_embeddings", config.flag("tie_word_embeddings", true));
  take_window(config, draft, true);
}

/// Cohere's Command R: attention and MLP side by side behind one LayerNorm, one matrix for both ends.
void cohere(Config& config, Draft& draft) {
  llama(config, draft, "none");
  set_shape(draft, true, true, "rotary", "layer_norm");
  if (config.flag("use_qk_norm", false)) draft.set("model.qk_norm", true);
  draft.set("model.tied_embeddings", config.flag("tie_word_embeddings", true));
}
void cohere2(Config& config, Draft& draft) {
  cohere(config, draft);
  take_layer_types(config, draft, 4);
}

/// Phi 1.5 and 2: attention and MLP side by side behind one LayerNorm, biases everywhere.
void phi(Config& config, Draft& draft) {
  llama(config, draft, "all");
  set_shape(draft, false, true, "rotary", "layer_norm");
  draft.set("model.activation", std::string("gelu"));
}

/// StableLM 2: gated MLP behind LayerNorm.
void stablelm(Config& config, Draft& draft) {
  llama(config, draft, config.flag("use_qkv_bias", false) ? "qkv" : "none");
  set_shape(draft, true, config.flag("use_parallel_residual", false), "rotary", "layer_norm");
}

/// Granite 3's shared experts: one MLP beside the routed ones.
void granite_shared(Config& config, Draft& draft) {
  granite_moe(config, draft);
  const Settings* shared = config.find("shared_intermediate_size");
  if (shared == nullptr || shared->is_null() || shared->as_int(0, 1'000'000'000) == 0) return;
  draft.set("model.shared_experts", std::int64_t{1});
  draft.set("model.shared_expert_ffn_hidden", config.count(*shared), shared->place());
}

/// VaultGemma: Gemma 2 without norms behind attention and MLP.
void vaultgemma(Config& config, Draft& draft) {
  gemma(config, draft);
  take_layer_types(config, draft, 2);
}

/// BitNet: Llama's shape with norms inside of attention and MLP, and a squared ReLU in place of SiLU.
void bitnet(Config& config, Draft& draft) {
  llama(config, draft, "none");
  draft.set("model.tied_embeddings", config.flag("tie_word_embeddings", true));
  draft.ignored("attn_sub_norm, ffn_sub_norm", "norms inside of a half: hidden and intermediate_size parameters");
}

/// nanochat: an MLP of two products around a squared ReLU, norms of queries and keys, none with parameters.
void nanochat(Config& config, Draft& draft) {
  nemotron(config, draft);
  draft.set("model.norm", std::string("rms_norm"));
  draft.set("model.qk_norm", true);
  draft.ignored("norms", "without parameters there");
}

/// HyperCLOVA X SEED Think: Granite's shape, with norms behind attention and MLP too.
void hyperclovax(Config& config, Draft& draft) {
  llama(config, draft, "none");
  if (config.flag("use_post_norm", false)) draft.set("model.post_norm", true);
}

/// DiffLlama (arXiv 2410.05258): scores of two halves of the heads, whose difference meets values of both.
void diffllama(Config& config, Draft& draft) {
  llama(config, draft, "none");
  draft.ignored("differential attention", "each map of scores meets the values of both halves here once, not twice");
}

struct Family {
  const char* name;  // model_type
  void (*read)(Config&, Draft&);
};
const std::vector<Family>& families() {
  static const std::vector<Family> kFamilies = {
      {"gpt2", gpt2},
      {"gpt_neox", gpt_neox},
      {"llama", [](Config& c, Draft& d) { llama(c, d, "none"); }},
      {"mistral", mistral},
      {"qwen2", qwen2},
      {"qwen3", qwen3},
      {"qwen2_vl_text", qwen2},
      {"qwen2_5_vl_text", qwen2},
      {"qwen3_vl_text", qwen3},
      {"qwen2_5_omni_text", qwen2},
      {"sdar", qwen3},
      {"KeyeVL1_5", qwen3},
      {"Keye", qwen3},
      {"mimo", mimo},
      {"smollm3", [](Config& c, Draft& d) { llama(c, d, "none"); }},
      {"seed_oss", [](Config& c, Draft& d) { llama(c, d, "none"); }},
      {"ministral", mistral},
      {"ministral3", mistral},
      {"granite", [](Config& c, Draft& d) { llama(c, d, "none"); }},
      {"helium", [](Config& c, Draft& d) { llama(c, d, "none"); }},
      {"diffllama", diffllama},
      {"hyperclovax", hyperclovax},
      {"bitnet", bitnet},
      {"nanochat", nanochat},
      {"arcee", nemotron},
      {"glm4", glm4},
      {"glm4v_text", glm4},
      {"glm4v", glm4},
      {"cohere", cohere},
      {"cohere2", cohere2},
      {"phi", phi},
      {"starcoder2", starcoder2},
      {"stablelm", stablelm},
      {"opt", opt},
      {"gemma", gemma},
      {"gemma2", gemma2},
      {"vaultgemma", vaultgemma},
      {"gemma3_text", gemma3},
      {"phi4mm", mistral},
      {"phi4_multimodal", mistral},
      {"phi3", mistral},  // Llama's shape; its checkpoints store queries, keys and values in one matrix
      {"olmo2", olmo2},
      {"olmo3", olmo3},
      {"nemotron", nemotron},
      {"mixtral", mixtral},
      {"phimoe", phimoe},
      {"olmoe", olmoe},
      {"flex_olmo", olmoe},
      {"qwen2_moe", qwen2_moe},
      {"PanguProMoE", qwen2_moe},
      {"qwen3_moe", qwen3_moe},
      {"qwen3_vl_moe_text", qwen3_moe},
      {"qwen3_omni_moe_text", qwen3_moe},
      {"glm4_moe", glm4_moe},
      {"glm4v_moe_text", glm4_moe},
      {"solar_open", glm4_moe},
      {"minimax_m2", minimax_m2},
      {"granitemoe", granite_moe},
      {"granitemoeshared", granite_shared},
      {"deepseek_v2", deepseek},
      {"deepseek_v3", deepseek},
      {"kimi_k2", deepseek},
      {"glm4_moe_lite", deepseek},
      {"mistral4", deepseek},
      {"gpt_oss", gpt_oss},
      {"llama4_text", llama4},
      {"falcon", falcon},
      {"RefinedWeb", falcon},  // Falcon's names before transformers had it
      {"RefinedWebModel", falcon},
  };
  static const std::vector<Family> kAll = [] {
    std::vector<Family> all = kFamilies;
    for (const auto& [name, read] : hf_further()) all.push_back({name, read});
    for (const auto& [name, read] : hf_hybrids()) all.push_back({name, read});
    for (const auto& [name, read] : hf_layer_inputs()) all.push_back({name, read});
    for (const auto& [name, read] : hf_stacks()) all.push_back({name, read});
    for (const auto& [name, read] : hf_diffusers()) all.push_back({name, read});
    return all;
  }();
  return kAll;
}

/// Families of which one block is unknown here, and which.
constexpr std::pair<std::string_view, std::string_view> kUnknownBlocks[]{
    {"mllama_text_model", "layers that attend to an encoder of pictures alone"},
    {"xlstm", "memories of matrices (mLSTM)"},
    {"modernbert", "windows to both sides in an encoder"},
    {"t5gemma", "an encoder and a decoder with a table of words each"},
    {"t5gemma2", "an encoder of text and pictures whose keys the decoder attends to beside its own"},
    {"deberta-v2", "attention with queries and keys of distances"},
    {"rwkv", "time mixing of RWKV-4; rwkv7 is known"},
    {"moonshine", "an encoder of sound without spectra"},
    {"fuyu", "patches of pictures among the tokens"},
    {"hunyuan_image_3_moe", "pictures made by a model of text, token by token and by diffusion"},
};

const Family& family_of(Config& config) {
  config.find("architectures");
  const Settings* type = config.find("model_type");
  if (type == nullptr) type = config.find("_class_name");
  if (type == nullptr)
    config.members().fail(
        "holds no model_type; the config.json of a model of transformers has it, that of a transformer of diffusers "
        "_class_name");
  std::vector<std::string> names;
  for (const Family& family : families()) {
    if (type->text() == family.name) return family;
    names.emplace_back(family.name);
  }
  const std::string near = sim::nearest_word(type->text(), names);
  for (const auto& [name, block] : kUnknownBlocks)
    if (type->text() == name)
      type->fail(
          fmt::format("got {}, of which {} are not modelled, expected another family; a graph of it can be "
                      "imported (orrery import graph)",
                      name, block));
  for (const char* experts : {"num_local_experts", "num_experts", "n_routed_experts"}) {
    if (config.members().find(experts) == nullptr) continue;
    type->fail(fmt::format("got {}, a mixture of experts that is not imported, expected one of {}", type->text(),
                           fmt::join(names, ", ")));
  }
  // The nearest ahead of the list, which a long line would be cut in.
  type->fail(fmt::format("got \"{}\", {}expected one of {}", type->text(),
                         near.empty() ? "" : fmt::format("did you mean \"{}\"? ", near), fmt::join(names, ", ")));
}

void remark_on_the_rest(const Config& config, Draft& draft) {
  std::set<std::string> rest;
  for (const auto& [key, value] : config.members().members()) {
    if (!config.asked().contains(key)) rest.insert(key);
  }
  for (const auto& [why, keys] : hf_reasons()) {
    std::vector<std::string> here;
    for (const std::string& key : keys) {
      if (rest.erase(key) == 1) here.push_back(key);
    }
    if (!here.empty()) draft.ignored(fmt::format("{}", fmt::join(here, ", ")), why);
  }
  if (!rest.empty()) draft.ignored(fmt::format("{}", fmt::join(rest, ", ")), "not known to orrery");
}

/// The types of weights that the checkpoint has, which a server runs in and a training does not.
void take_checkpoint(Config& config, Draft& draft) {
  const Settings* quantised = config.members().find("quantization_config");
  const Settings* layers = draft.document().find_path("model.layers");
  if (quantised == nullptr || layers == nullptr) return;
  const auto types = checkpoint_types(*quantised, layers->as_int(1, 100'000));
  if (!types) return;
  config.find("quantization_config");
  std::string why = "how the checkpoint is stored, not how it was trained; served it is precision: " + types->text();
  for (const std::string& each : types->told) why += "; " + each;
  draft.ignored("quantization_config", why);
}

}  // namespace

Draft import_hf(const std::string& file) {
  const std::string text = read_text(file);
  const json document = config_json(file, text);
  if (!document.is_object()) throw UserError(Place{file, 1, 1}, "", "got no JSON object, expected a config.json");
  Config config(members_of(document, file, text, 0));
  std::string beside;               // the text's model: encoders of pictures and sound
  std::vector<std::string> around;  // the whole's own words
  if (const TextPart part = text_part(document, text); part.object != nullptr) {
    const Settings whole = config.members();
    config = Config(members_of(*part.object, file, text, part.from));
    // What the text's part leaves to the whole.
    for (const char* key : {"tie_word_embeddings", "vocab_size", "torch_dtype", "dtype", "model_type"}) {
      if (const Settings* outer = whole.find(key); outer != nullptr) config.take_over(key, *outer);
    }
    std::vector<std::string> others;
    for (const auto& [key, value] : whole.members()) {
      static const std::set<std::string> kTaken{"tie_word_embeddings", "vocab_size", "torch_dtype", "dtype"};
      if (key != part.top && !kTaken.contains(key)) (value.is_mapping() ? others : around).push_back(key);
    }
    if (!others.empty()) beside = fmt::format("{}", fmt::join(others, ", "));
  }
  Draft draft(fmt::format("{} (Hugging Face transformers)", std::filesystem::path(file).filename().string()),
              {file, 1, 1});
  const Family& family = family_of(config);
  const Settings* name = config.members().find("_name_or_path");
  std::string label =
      name != nullptr && name->is_scalar() ? std::filesystem::path(name->text()).filename().string() : "";
  if (label.empty()) label = family.name;
  draft.set("name", label);
  draft.set("model.kind", std::string("gpt"));
  draft.set("model.label", label);
  family.read(config, draft);
  const Settings* type = config.find("torch_dtype");
  const Settings* newer = config.find("dtype");
  if (type == nullptr) type = newer;
  const bool half = type != nullptr && type->text() == "float16";
  draft.set("precision", std::string(half ? "fp16" : "bf16"));
  std::string why = half ? "that of the checkpoint" : "bf16, as such models are trained";
  if (!half && type != nullptr && type->text() != "bfloat16") why += "; the checkpoint is in " + type->text();
  draft.assumed("precision", why);
  draft.assume_site();
  if (!around.empty())
    draft.ignored(fmt::format("{}", fmt::join(around, ", ")), "of the whole, whose text_config alone is read");
  if (!beside.empty()) draft.ignored(beside, "beside the text's model, which is taken alone");
  take_checkpoint(config, draft);
  remark_on_the_rest(config, draft);
  return draft;
}

std::vector<std::string> known_model_types() {
  std::vector<std::string> names;
  for (const Family& family : families()) names.emplace_back(family.name);
  return names;
}

}  // namespace orrery::tools
