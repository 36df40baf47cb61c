// A model in the names of megatron/core/transformer/transformer_config.py and of the classes that NeMo 2 and
// Megatron-Bridge derive from it, with their defaults. See recipe_model.h. Left out: layers of several kinds in an
// order of the user's own, encoders, and what changes values but not the work of a step.
#include "tools/import/recipe_model.h"

#include <fmt/format.h>

#include "tools/import/known_recipes.h"

namespace orrery::tools {

using sim::Settings;

namespace {

struct Size {
  const char *theirs, *ours;
};
constexpr Size kSizes[] = {{"num_layers", "model.layers"},          {"hidden_size", "model.hidden"},
                           {"num_attention_heads", "model.heads"},  {"num_query_groups", "model.kv_heads"},
                           {"ffn_hidden_size", "model.ffn_hidden"}, {"kv_channels", "model.head_dim"}};
constexpr Size kMixtureSizes[] = {{"num_moe_experts", "model.experts"},
                                  {"moe_router_topk", "model.top_k"},
                                  {"moe_router_num_groups", "model.expert_groups"},
                                  {"moe_router_group_topk", "model.top_groups"},
                                  {"moe_ffn_hidden_size", "model.expert_ffn_hidden"},
                                  {"mtp_num_layers", "model.mtp_layers"},
                                  {"moe_latent_size", "model.expert_latent"}};
constexpr Size kLatentSizes[] = {{"q_lora_rank", "model.q_lora"},
                                 {"kv_lora_rank", "model.kv_lora"},
                                 {"qk_head_dim", "model.qk_nope_dim"},
                                 {"qk_pos_emb_head_dim", "model.qk_rope_dim"},
                                 {"v_head_dim", "model.v_dim"}};

constexpr std::int64_t kMostSize = 1'000'000'000'000;

template <std::size_t N>
void take_sizes(Sections& config, Draft& draft, const std::string& at, const Size (&sizes)[N]) {
  for (const Size& size : sizes) {
    const Settings* value = config.find(at + "." + size.theirs);
    if (value != nullptr && value->as_int(0, kMostSize) > 0) draft.set(size.ours, value->as_int(), value->place());
  }
}

/// Dense layers first, as [0, 0, 0, 1, 1, ...], or one in so many.
void take_pattern(Sections& config, Draft& draft, const std::string& at) {
  const Settings* pattern = config.find(at + ".moe_layer_freq");
  if (pattern == nullptr) return;
  if (!pattern->is_sequence()) {
    draft.set("model.moe_every", pattern->as_int(1, 10'000), pattern->place());
    return;
  }
  std::int64_t dense = 0;
  bool mixture = false;
  for (const Settings& layer : pattern->items()) {
    const bool has_experts = layer.as_int(0, 1) == 1;
    if (mixture && !has_experts)
      pattern->fail("has dense layers behind layers of experts, expected dense layers first");
    mixture = mixture || has_experts;
    dense += has_experts ? 0 : 1;
  }
  if (dense > 0) draft.set("model.dense_layers", dense, pattern->place());
}

void take_shared_experts(Sections& config, Draft& draft, const std::string& at) {
  const Settings* shared = config.find(at + ".moe_shared_expert_intermediate_size");
  if (shared == nullptr) return;
  draft.set("model.shared_experts", std::int64_t{1}, shared->place());
  draft.set("model.shared_expert_ffn_hidden", shared->as_int(1, kMostSize), shared->place());
  if (config.flag({at + ".moe_shared_expert_gate"}, false)) draft.set("model.shared_gate", true);
}

/// What is left to classes where the recipe gives sizes of its own.
void take_kinds(Sections& config, Draft& draft, const std::string& at) {
  const bool gated = config.flag({at + ".gated_linear_unit"}, false);
  draft.set("model.gated_mlp", gated);
  if (!draft.has("model.ffn_hidden")) {
    const std::int64_t hidden = draft.document().at("model").get_int("hidden", 1);
    draft.set("model.ffn_hidden", 4 * hidden);
  }
  if (!draft.has("model.kv_heads")) draft.set("model.kv_heads", draft.document().at("model").get_int("heads", 1));
  const std::string positions = config.word({at + ".position_embedding_type"}, "learned_absolute");
  const bool rotary = positions == "rope" || positions == "yarn" || positions == "mrope";
  draft.set("model.positions", std::string(rotary ? "rotary" : positions == "learned_absolute" ? "learned" : "none"));
  const std::string norm = config.word({at + ".normalization"}, "LayerNorm");
  draft.set("model.norm", std::string(norm == "RMSNorm" ? "rms_norm" : "layer_norm"));
  const bool biases = config.flag({at + ".add_bias_linear"}, true), qkv = config.flag({at + ".add_qkv_bias"}, false);
  draft.set("model.biases", std::string(biases ? "all" : qkv ? "qkv" : "none"));
  draft.set("model.tied_embeddings", config.flag({at + ".share_embeddings_and_output_weights"}, true));
  if (config.flag({at + ".qk_layernorm"}, false)) draft.set("model.qk_norm", true);
}

/// Keys to the left of a query and its own, as "(127, 0)" has them; -1: all. In layers of every so many all of them.
void take_window(Sections& config, Draft& draft, const std::string& at) {
  const Settings* window = config.find(at + ".window_size");
  const Settings* every = config.find(at + ".window_attn_skip_freq");
  if (window == nullptr || !window->is_sequence() || window->items().empty()) return;
  const std::int64_t left = window->items().front().as_int(-1, 100'000'000);
  if (left < 0) return;
  draft.set("model.attention_window", left + 1, window->place());
  if (every != nullptr && every->is_scalar())
    draft.set("model.attention_window_every", every->as_int(1, 10'000), every->place());
  if (every != nullptr && every->is_sequence())
    draft.first("window_attn_skip_freq: layers by a list; all of them have the window here");
}

void take_vocabulary(Sections& config, Draft& draft, const std::string& at, bool known) {
  // A tokenizer whose size is not used leaves the model its own.
  const Settings* tokenizer =
      config.any({"tokenizer.vocab_size", "data.tokenizer.vocab_size", "model.tokenizer.vocab_size"});
  const bool used = config.flag({"tokenizer.use_tokenizer_vocab_size"}, true);
  const Settings* vocabulary = config.find(at + ".vocab_size");
  if (vocabulary == nullptr && (used || !known)) vocabulary = tokenizer;
  if (vocabulary != nullptr) {
    draft.set("model.vocab", vocabulary->as_int(1, kMostSize), vocabulary->place());
  } else if (!known) {
    draft.set("model.vocab", std::int64_t{50257});
    draft.assumed("model.vocab", "50257, that of GPT-2's tokenizer: the recipe names no size; --set model.vocab=N");
  }
}

/// Layers that predict further tokens, of a model by blocks: each of the block that letters name ("*E"), or of its
/// last.
void take_predictions_of_blocks(Sections& config, Draft& draft, const std::string& at) {
  const std::int64_t further = config.count({at + ".mtp_num_layers"}, 0, 0);
  const std::string letters = config.word({at + ".mtp_hybrid_override_pattern"}, "");
  const bool repeated = config.flag({at + ".mtp_use_repeated_layer"}, false);
  if (further == 0) return;
  draft.set("model.mtp_layers", further);
  std::string block;
  for (const char letter : letters) block += (block.empty() ? "" : "+") + std::string(1, letter);
  if (!block.empty()) draft.set("model.mtp_block", block);
  if (repeated && further > 1)
    draft.first(
        fmt::format("mtp_use_repeated_layer: the {} predictions of further tokens share their weights; here each "
                    "has its own, which memory counts",
                    further));
}

}  // namespace

bool take_recipe_model(Sections& config, Draft& draft, const std::string& at, const std::string& known,
                       const std::string& file) {
  const auto count = [&](const char* key) { return config.count({at + "." + key}, 0, 0); };
  const bool described = count("num_layers") > 0 && count("hidden_size") > 0 && count("num_attention_heads") > 0;
  if (known.empty() && !described) {
    const Settings* there = config.find(at);
    throw sim::UserError(there != nullptr ? there->place() : sim::Place{file, 1, 1}, at,
                         fmt::format("got no model that ships here and no num_layers, hidden_size and "
                                     "num_attention_heads, expected these, --set model=NAME (orrery list models), or "
                                     "one of {}",
                                     fmt::join(recipe_names(), ", ")));
  }
  // Wan and Flux (megatron/bridge/diffusion) derive from the same class.
  if (const Settings* crossed = config.find(at + ".crossattn_emb_size"); crossed != nullptr)
    crossed->fail("got a model whose tokens attend to another encoder's, expected a language model");
  const Settings* pattern = config.find(at + ".hybrid_layer_pattern");
  if (pattern == nullptr) pattern = config.find(at + ".hybrid_override_pattern");
  const bool blocks = is_hybrid(known);
  if (pattern != nullptr && !blocks)
    pattern->fail(
        "got layers of several kinds, expected a model of them that ships (orrery list models), or a decoder");
  // The blocks of a model that ships say more than sizes do.
  if (blocks) {
    draft.apply(fmt::format("model={}", known));
    draft.apply("model.seq=4096");
    draft.assumed("model", known + ", as it ships; of the recipe's own sizes none is laid over its blocks");
    take_predictions_of_blocks(config, draft, at);
    return is_mixture(known);
  }
  // A whole configuration says all; what says less changes the model that it names.
  if (!described) {
    draft.apply(fmt::format("model={}", known));
    draft.apply("model.seq=4096");  // a name becomes the mapping that it stands for; the length is set later
  }
  const bool mixture = described ? count("num_moe_experts") > 1 : is_mixture(known);
  if (described) draft.set("model.kind", std::string(mixture ? "moe" : "gpt"));
  take_sizes(config, draft, at, kSizes);
  if (mixture) {
    if (described) draft.set("model.top_k", std::int64_t{2});  // TransformerConfig's
    take_sizes(config, draft, at, kMixtureSizes);
    take_pattern(config, draft, at);
    take_shared_experts(config, draft, at);
  }
  const bool latent = config.flag({at + ".multi_latent_attention"}, false);
  if (described && latent) draft.set("model.attention_kind", std::string("mla"));
  if (latent) take_sizes(config, draft, at, kLatentSizes);
  if (described) take_kinds(config, draft, at);
  if (described && mixture && !draft.has("model.expert_ffn_hidden"))  // TransformerConfig's, as an MLP's
    draft.set("model.expert_ffn_hidden", draft.document().at("model").get_int("ffn_hidden", 1));
  take_window(config, draft, at);
  take_vocabulary(config, draft, at, !described);
  return mixture;
}

void take_recipe_experts(Sections& config, Draft& draft, const std::string& at) {
  const auto key = [&](const char* name) { return at + "." + name; };
  if (const Settings* type = config.find(key("moe_token_dispatcher_type")); type != nullptr) {
    std::string dispatcher = type->as_choice({"allgather", "alltoall", "flex"});
    const Settings* backend = config.find(key("moe_flex_dispatcher_backend"));
    if (dispatcher == "flex") dispatcher = backend != nullptr ? backend->as_choice({"deepep", "hybridep"}) : "deepep";
    draft.set("experts.dispatcher", dispatcher, type->place());
  }
  const auto flag = [&](const char* theirs, const char* ours) {
    const Settings* value = config.find(key(theirs));
    if (value != nullptr) draft.set(ours, value->as_bool(), value->place());
  };
  flag("moe_grouped_gemm", "experts.grouped_gemm");
  flag("moe_permute_fusion", "experts.fused_permutation");
  flag("moe_router_fusion", "experts.fused_router");
  flag("moe_shared_expert_overlap", "experts.overlap_shared");
  if (const Settings* scores = config.find(key("moe_router_dtype")); scores != nullptr) {
    const std::string& type = scores->text();
    draft.set("experts.router_fp32", type == "fp32" || type == "fp64", scores->place());
  }
  if (const Settings* room = config.find(key("moe_expert_capacity_factor")); room != nullptr && room->as_number() > 0) {
    draft.set("experts.capacity_factor", room->text(), room->place());
    flag("moe_pad_expert_input_to_capacity", "experts.pad_to_capacity");
  }
}

}  // namespace orrery::tools
