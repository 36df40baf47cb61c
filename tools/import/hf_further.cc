// See hf_further.h. Names of keys and their defaults are those of transformers' configuration classes (models/bloom,
// gptj, gpt_bigcode, mpt, dbrx, olmo, glm, exaone4, apertus, ernie4_5, ernie4_5_moe, hunyuan_v1_dense, hunyuan_v1_moe,
// dots1), or of the models' own files (internlm/internlm2, baichuan-inc, zai-org/chatglm3, Qwen/Qwen-7B, OpenBMB's
// MiniCPM3, LGAI-EXAONE, inclusionAI/Ling, deepseek-ai/deepseek-moe-16b). Left out: what changes values alone.
#include "tools/import/hf_further.h"

#include <algorithm>

#include "tools/import/hf_blocks.h"

namespace orrery::tools {

namespace {

void plain(Config& config, Draft& draft) { llama(config, draft, "none"); }

/// As Llama, with one matrix for both ends where the file does not say otherwise.
void tied(Config& config, Draft& draft) {
  plain(config, draft);
  draft.set("model.tied_embeddings", config.flag("tie_word_embeddings", true));
}

/// Sizes under the names that GPT-2 gave them, an MLP of two products, LayerNorm and biases.
void of_gpt2(Config& config, Draft& draft, const char* positions, bool parallel) {
  take_sizes(config, draft,
             SizeNames{{"n_layer", "num_hidden_layers"},
                       {"n_embd", "hidden_size"},
                       {"n_head", "num_attention_heads"},
                       {"vocab_size"},
                       {"n_positions", "seq_length", "max_position_embeddings"},
                       2048});
  take_count(config, draft, "model.ffn_hidden", {"n_inner"});
  set_shape(draft, false, parallel, positions, "layer_norm");
  draft.set("model.biases", std::string("all"));
}

void gptj(Config& config, Draft& draft) {
  of_gpt2(config, draft, "rotary", true);
  draft.ignored("biases", "GPT-J's attention has none; counted");
  draft.set("model.tied_embeddings", config.flag("tie_word_embeddings", false));
}

/// StarCoder and SantaCoder: all queries share one head of keys.
void gpt_bigcode(Config& config, Draft& draft) {
  of_gpt2(config, draft, "learned", false);
  if (config.flag("multi_query", true)) draft.set("model.kv_heads", std::int64_t{1});
  draft.set("model.tied_embeddings", config.flag("tie_word_embeddings", true));
}

void bloom(Config& config, Draft& draft) {
  of_gpt2(config, draft, "alibi", false);
  draft.set("model.tied_embeddings", config.flag("tie_word_embeddings", true));
  draft.ignored("the norm behind the embedding", "2 hidden parameters, and a kernel of the first stage");
}

/// MPT: sizes under names of its own, no biases unless it says so, ALiBi.
void mpt(Config& config, Draft& draft) {
  take_sizes(config, draft, SizeNames{{"n_layers"}, {"d_model"}, {"n_heads"}, {"vocab_size"}, {"max_seq_len"}, 2048});
  const std::int64_t ratio = number_of(config, "expansion_ratio", 4);
  draft.set("model.ffn_hidden", ratio * config.count(config.need({"d_model"})));
  const Settings* attention = config.find("attn_config");
  const bool alibi = attention == nullptr || attention->get_bool("alibi", true);
  set_shape(draft, false, false, alibi ? "alibi" : "learned", "layer_norm");
  draft.set("model.biases", std::string(config.flag("no_bias", true) ? "none" : "all"));
  draft.set("model.tied_embeddings", config.flag("tie_word_embeddings", true));
}

/// DBRX: experts with a gate in every layer, LayerNorm.
void dbrx(Config& config, Draft& draft) {
  take_sizes(config, draft, SizeNames{{"n_layers"}, {"d_model"}, {"n_heads"}, {"vocab_size"}, {"max_seq_len"}, 2048});
  set_shape(draft, true, false, "rotary", "layer_norm");
  draft.set("model.biases", std::string("none"));
  draft.set("model.tied_embeddings", config.flag("tie_word_embeddings", false));
  const Settings& attention = config.need({"attn_config"});
  draft.set("model.kv_heads", attention.get_int("kv_n_heads", 1, 1, 1'000'000));
  const Settings& ffn = config.need({"ffn_config"});
  draft.set("model.kind", std::string("moe"));
  draft.set("model.experts", ffn.get_int("moe_num_experts", 4, 1, 1'000'000));
  draft.set("model.top_k", ffn.get_int("moe_top_k", 1, 1, 1'000'000));
  draft.set("model.expert_ffn_hidden", ffn.get_int("ffn_hidden_size", 3584, 1, 10'000'000));
}

/// Qwen of 2023: the width of its MLP stands for both up projections.
void qwen1(Config& config, Draft& draft) {
  config.assume("max_position_embeddings", number_of(config, "seq_length", 8192));
  llama(config, draft, "qkv");
  draft.set("model.ffn_hidden", config.count(config.need({"intermediate_size"})) / 2);
  config.find("kv_channels");
}

/// ChatGLM 2 and 3, GLM-4 of 2024.
void chatglm(Config& config, Draft& draft) {
  take_sizes(config, draft,
             SizeNames{{"num_layers"}, {}, {}, {"padded_vocab_size", "vocab_size"}, {"seq_length"}, 8192});
  take_count(config, draft, "model.ffn_hidden", {"ffn_hidden_size"});
  if (config.flag("multi_query_attention", false))
    take_count(config, draft, "model.kv_heads", {"multi_query_group_num"});
  take_count(config, draft, "model.head_dim", {"kv_channels"});
  set_shape(draft, true, false, "rotary", config.flag("rmsnorm", true) ? "rms_norm" : "layer_norm");
  draft.set("model.biases", std::string(config.flag("add_qkv_bias", false) ? "qkv" : "none"));
  draft.set("model.tied_embeddings", config.flag("tie_word_embeddings", false));
}

void exaone3(Config& config, Draft& draft) {
  take_sizes(config, draft, SizeNames{{"num_layers", "num_hidden_layers"}});
  take_count(config, draft, "model.ffn_hidden", {"intermediate_size"});
  take_count(config, draft, "model.kv_heads", {"num_key_value_heads"});
  set_shape(draft, true, false, "rotary", "rms_norm");
  draft.set("model.biases", std::string("none"));
  draft.set("model.tied_embeddings", config.flag("tie_word_embeddings", false));
}

/// EXAONE 4: norms of queries and keys, and behind attention and MLP in place of ahead; windows in three layers of four
/// where it has any.
void exaone4(Config& config, Draft& draft) {
  plain(config, draft);
  draft.set("model.qk_norm", true);
  const Settings* window = config.find("sliding_window");
  const Settings* pattern = config.find("sliding_window_pattern");
  if (window == nullptr || window->is_null() || pattern == nullptr || pattern->is_null()) return;
  take_window(config, draft, true);
  if (draft.has("model.attention_window"))
    draft.set("model.attention_window_every", static_cast<std::int64_t>(pattern->text().size()));
}

/// Apertus: an MLP of two products around xIELU, norms of queries and keys.
void apertus(Config& config, Draft& draft) {
  plain(config, draft);
  set_shape(draft, false, false, "rotary", "rms_norm");
  draft.set("model.qk_norm", true);
  draft.ignored("xielu", "an activation of two parameters, which costs what others do");
}

/// Baichuan 2: as Llama; the larger one has ALiBi in place of rotary positions.
void baichuan(Config& config, Draft& draft) {
  config.assume("max_position_embeddings", number_of(config, "model_max_length", 4096));
  plain(config, draft);
}

void olmo1(Config& config, Draft& draft) {
  plain(config, draft);
  draft.ignored("norms", "without parameters there");
}

void hunyuan_dense(Config& config, Draft& draft) {
  tied(config, draft);
  if (config.flag("use_qk_norm", true)) draft.set("model.qk_norm", true);
}

/// Doge (arXiv 2412.11834): Llama's shape with norms of queries and keys, and a product of the values that chooses
/// among keys.
void doge(Config& config, Draft& draft) {
  tied(config, draft);
  draft.set("model.qk_norm", true);
  if (const Settings* moe = config.find("is_moe"); moe != nullptr && moe->as_bool())
    moe->fail("got experts that are found by products of keys, expected false: not modelled");
  draft.ignored("dt_proj, A, residuals' factors", "a product to a number a head, and vectors of the hidden size");
}

/// Of a diffusion model of text (Dream, LLaDA) every token sees all others, in training as in each step of an answer.
void sees_all(Config& config, Draft& draft, std::int64_t layers, std::int64_t heads, std::int64_t keys) {
  const std::int64_t inside = draft.document().at("model").at("ffn_hidden").as_int();
  for (const char* key : {"ffn_hidden", "kv_heads", "head_dim", "heads", "layers"}) draft.drop_of_model(key);
  put_kind(draft, "mixers.B", "bidirectional");
  put(draft, "mixers.B", "heads", heads);
  put(draft, "mixers.B", "kv_heads", keys);
  put_kind(draft, "channels.F", "mlp");
  put(draft, "channels.F", "ffn_hidden", inside);
  for (const char* key : {"mask_token_id", "use_sliding_window", "sliding_window"}) config.find(key);
  put_blocks(draft, std::vector<std::string>(static_cast<std::size_t>(layers), "B+F"));
}

void dream(Config& config, Draft& draft) {
  llama(config, draft, "qkv");
  const std::int64_t heads = config.count(config.need({"num_attention_heads"}));
  sees_all(config, draft, config.count(config.need({"num_hidden_layers"})), heads,
           number_of(config, "num_key_value_heads", heads));
}

/// LLaDA's files have OLMo's older names.
void llada(Config& config, Draft& draft) {
  take_sizes(
      config, draft,
      SizeNames{{"n_layers"}, {"d_model"}, {"n_heads"}, {"embedding_size", "vocab_size"}, {"max_sequence_length"}});
  take_count(config, draft, "model.ffn_hidden", {"mlp_hidden_size"});
  if (!draft.has("model.ffn_hidden")) config.need({"mlp_hidden_size"});
  set_shape(draft, true, false, "rotary", "rms_norm");
  const bool biased = config.flag("include_bias", false) || config.flag("include_qkv_bias", false);
  draft.set("model.biases", std::string(biased ? "qkv" : "none"));
  draft.set("model.tied_embeddings", config.flag("weight_tying", false));
  const std::int64_t heads = config.count(config.need({"n_heads"}));
  sees_all(config, draft, config.count(config.need({"n_layers"})), heads, number_of(config, "n_kv_heads", heads));
}

/// MiniCPM3 and Youtu-LLM: latent attention and an MLP.
void minicpm3(Config& config, Draft& draft) {
  take_model(config, draft, "rotary");
  draft.set("model.tied_embeddings", config.flag("tie_word_embeddings", true));
  put_kind(draft, "mixers.A", "mla");
  put(draft, "mixers.A", "heads", config.count(config.need({"num_attention_heads"})));
  put(draft, "mixers.A", "q_lora", config.count(config.need({"q_lora_rank"})));
  put(draft, "mixers.A", "kv_lora", config.count(config.need({"kv_lora_rank"})));
  put(draft, "mixers.A", "qk_nope_dim", config.count(config.need({"qk_nope_head_dim"})));
  put(draft, "mixers.A", "qk_rope_dim", config.count(config.need({"qk_rope_head_dim"})));
  const std::int64_t width =
      config.count(config.need({"hidden_size"})) / config.count(config.need({"num_attention_heads"}));
  put(draft, "mixers.A", "v_dim", number_of(config, "v_head_dim", width));
  put_dense(config, draft);
  put_blocks(draft, std::vector<std::string>(static_cast<std::size_t>(config.count(config.need({"num_hidden_layers"}))),
                                             "A+F"));
}

// ---- mixtures behind some dense layers ----

struct RoutedNames {
  std::vector<std::string> experts, top_k, width, shared, first;
  const char* shared_width = nullptr;
  bool qk_norm = false;  // where the file does not say
};

/// The first number of a member that some files give for every layer.
std::int64_t first_of(const Settings& member) {
  if (!member.is_sequence()) return member.as_int(0, 1'000'000'000);
  if (member.items().empty()) member.fail("got an empty list, expected a number for each layer");
  const std::int64_t first = member.items().front().as_int(0, 1'000'000'000);
  for (const Settings& item : member.items())
    if (item.as_int() != first)
      item.fail(fmt::format("got {} beside {}, expected one number for all layers", item.text(), first));
  return first;
}

void routed(Config& config, Draft& draft, const RoutedNames& names) {
  llama(config, draft, config.flag("use_qkv_bias", false) ? "qkv" : "none");
  draft.set("model.kind", std::string("moe"));
  draft.set("model.experts", first_of(config.need(names.experts)));
  draft.set("model.top_k", first_of(config.need(names.top_k)));
  const std::int64_t width = first_of(config.need(names.width));
  draft.set("model.expert_ffn_hidden", width);
  for (const std::string& name : names.shared) {
    const Settings* shared = config.find(name);
    if (shared == nullptr || shared->is_null()) continue;
    if (const std::int64_t count = first_of(*shared); count > 0) draft.set("model.shared_experts", count);
  }
  if (names.shared_width != nullptr && draft.has("model.shared_experts")) {
    if (const std::int64_t own = number_of(config, names.shared_width, 0); own > 0)
      draft.set("model.shared_expert_ffn_hidden", own);
  }
  for (const std::string& name : names.first)
    if (const Settings* first = config.find(name); first != nullptr && !first->is_null())
      draft.set("model.dense_layers", first_of(*first), first->place());
  if (config.flag("use_qk_norm", names.qk_norm)) draft.set("model.qk_norm", true);
  if (const std::int64_t more = number_of(config, "num_nextn_predict_layers", 0); more > 0)
    draft.set("model.mtp_layers", more);
}

/// dots.llm1 and DeepSeek-MoE.
void dots(Config& config, Draft& draft) {
  routed(config, draft,
         {{"n_routed_experts"},
          {"num_experts_per_tok"},
          {"moe_intermediate_size"},
          {"n_shared_experts"},
          {"first_k_dense_replace"},
          nullptr,
          true});
}
void deepseek1(Config& config, Draft& draft) {
  routed(config, draft,
         {{"n_routed_experts"},
          {"num_experts_per_tok"},
          {"moe_intermediate_size"},
          {"n_shared_experts"},
          {"first_k_dense_replace"}});
  if (const std::int64_t every = number_of(config, "moe_layer_freq", 1); every > 1) draft.set("model.moe_every", every);
}

/// Ling and Ring.
void bailing(Config& config, Draft& draft) {
  routed(config, draft,
         {{"num_experts"},
          {"num_experts_per_tok"},
          {"moe_intermediate_size"},
          {"num_shared_experts"},
          {"first_k_dense_replace"},
          "moe_shared_expert_intermediate_size"});
  draft.set("model.tied_embeddings", config.flag("tie_word_embeddings", false));
  const std::int64_t groups = number_of(config, "n_group", 1);
  if (groups <= 1) return;
  draft.set("model.expert_groups", groups);
  draft.set("model.top_groups", number_of(config, "topk_group", groups));
}

/// ERNIE 4.5: all layers behind the first dense ones, or every so many.
void ernie_moe(Config& config, Draft& draft) {
  routed(config, draft,
         {{"moe_num_experts"},
          {"moe_k"},
          {"moe_intermediate_size"},
          {"moe_num_shared_experts"},
          {"moe_layer_start_index"}});
  draft.set("model.tied_embeddings", config.flag("tie_word_embeddings", true));
  if (const std::int64_t every = number_of(config, "moe_layer_interval", 1); every > 1)
    draft.set("model.moe_every", every);
}

/// ERNIE 4.5 VL: experts of text and of images, of two widths, of which a token of text goes to its own.
void ernie_vl(Config& config, Draft& draft) {
  for (const char* key : {"moe_num_experts", "moe_intermediate_size"}) {
    const Settings* both = config.find(key);
    if (both != nullptr && both->is_sequence() && !both->items().empty())
      config.replace(key, both->items().front().as_int(1, 1'000'000'000));
  }
  if (const Settings* channels = config.find("mlp_layer_types"); channels != nullptr && channels->is_sequence()) {
    std::int64_t dense = 0;
    for (const Settings& layer : channels->items()) dense += layer.as_choice({"dense", "sparse"}) == "dense" ? 1 : 0;
    config.assume("moe_layer_start_index", dense);
  }
  if (const Settings* first = config.find("moe_layer_start_index"); first != nullptr && first->is_sequence())
    config.replace("moe_layer_start_index", first->items().empty() ? 0 : first->items().front().as_int(0, 100'000));
  ernie_moe(config, draft);
  draft.ignored("experts of images", "a text's tokens go to its own, which are taken alone");
}

void hunyuan_moe(Config& config, Draft& draft) {
  config.assume("moe_intermediate_size", config.count(config.need({"intermediate_size"})));
  routed(config, draft,
         {{"num_experts"},
          {"moe_topk"},
          {"moe_intermediate_size"},
          {"num_shared_expert"},
          {"moe_layer_num_skipped"},
          nullptr,
          true});
  draft.set("model.tied_embeddings", config.flag("tie_word_embeddings", true));
  const Settings* mixed = config.find("use_mixed_mlp_moe");
  if (mixed != nullptr && !mixed->as_bool() && draft.has("model.shared_experts"))
    draft.set("model.shared_experts", std::int64_t{0});
}

/// Grok-2, whose file calls itself "git" (xai-org/grok-2; SGLang's models/grok.py): experts of GeLU with a gate, beside
/// them an MLP that every token goes through (residual_moe), and norms of what both halves make.
void grok(Config& config, Draft& draft) {
  llama(config, draft, "none");
  take_experts(config, draft, {"num_local_experts"}, "moe_intermediate_size");
  draft.set("model.activation", std::string("gelu"));
  draft.set("model.post_norm", true);
  draft.set("model.tied_embeddings", config.flag("tie_word_embeddings", false));
  if (!config.flag("residual_moe", false)) return;
  draft.set("model.shared_experts", std::int64_t{1});
  draft.set("model.shared_expert_ffn_hidden", config.count(config.need({"intermediate_size"})));
}

}  // namespace

const std::vector<std::pair<const char*, void (*)(Config&, Draft&)>>& hf_further() {
  static const std::vector<std::pair<const char*, void (*)(Config&, Draft&)>> kFamilies{
      {"bloom", bloom},
      {"gptj", gptj},
      {"gpt_bigcode", gpt_bigcode},
      {"mpt", mpt},
      {"dbrx", dbrx},
      {"qwen", qwen1},
      {"chatglm", chatglm},
      {"glm", plain},
      {"internlm2", plain},
      {"internlm3", plain},
      {"baichuan", baichuan},
      {"olmo", olmo1},
      {"minicpm", tied},
      {"minicpm3", minicpm3},
      {"exaone", exaone3},
      {"exaone4", exaone4},
      {"exaone4_5_text", exaone4},
      {"doge", doge},
      {"Dream", dream},
      {"llada", llada},
      {"youtu", minicpm3},
      {"youtu_llm", minicpm3},
      {"apertus", apertus},
      {"ernie4_5", tied},
      {"ernie4_5_moe", ernie_moe},
      {"ernie4_5_vl_moe_text", ernie_vl},
      {"ernie4_5_moe_vl", ernie_vl},
      {"hunyuan_v1_dense", hunyuan_dense},
      {"hunyuan_v1_moe", hunyuan_moe},
      {"dots1", dots},
      {"deepseek", deepseek1},
      {"bailing_moe", bailing},
      {"bailing_moe_v2", bailing},
      {"git", grok},
  };
  return kFamilies;
}

}  // namespace orrery::tools
