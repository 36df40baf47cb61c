// See hf_config.h.
#include "tools/import/hf_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace orrery::tools {

namespace {
std::vector<std::string> or_usual(std::vector<std::string> given, const char* usual) {
  if (given.empty()) given.emplace_back(usual);
  return given;
}
}  // namespace

SizeNames::SizeNames(Spellings of_layers, Spellings of_hidden, Spellings of_heads, Spellings of_vocab, Spellings of_seq,
                     std::int64_t seq_of_class)
    : layers(or_usual(std::move(of_layers), "num_hidden_layers")),
      hidden(or_usual(std::move(of_hidden), "hidden_size")),
      heads(or_usual(std::move(of_heads), "num_attention_heads")),
      vocab(or_usual(std::move(of_vocab), "vocab_size")),
      seq(or_usual(std::move(of_seq), "max_position_embeddings")),
      default_seq(seq_of_class) {}

void take_default(Draft& draft, const char* key, std::int64_t value) {
  if (draft.has(key)) return;
  draft.set(key, value);
  draft.assumed(key, fmt::format("{}, the default of the family's class", value));
}

void take_sizes(Config& config, Draft& draft, const SizeNames& names) {
  const auto take = [&](const char* key, const std::vector<std::string>& spellings) {
    const Settings& member = config.need(spellings);
    draft.set(key, config.count(member), member.place());
  };
  take("model.layers", names.layers);
  take("model.hidden", names.hidden);
  take("model.heads", names.heads);
  take("model.vocab", names.vocab);
  const bool said = std::any_of(names.seq.begin(), names.seq.end(),
                                [&](const std::string& name) { return config.find(name) != nullptr; });
  if (said || names.default_seq == 0)
    take("model.seq", names.seq);
  else
    draft.set("model.seq", names.default_seq);
  // Some classes take contexts that no step of one sequence could be trained on (Llama 4 Scout: ten million tokens).
  constexpr std::int64_t kMost = 1 << 20;
  if (draft.document().at("model").get_int("seq", 0) > kMost) {
    draft.set("model.seq", kMost);
    draft.assumed("model.seq", "1048576: the model takes longer ones; set the length that is trained on");
    return;
  }
  draft.assumed("model.seq", "the longest sequence that the model takes; set the length that is trained on");
}

void take_count(Config& config, Draft& draft, const char* key, const std::vector<std::string>& spellings) {
  for (const std::string& spelling : spellings) {
    if (const Settings* member = config.find(spelling); member != nullptr)
      draft.set(key, config.count(*member), member->place());
  }
}

void set_shape(Draft& draft, bool gated, bool parallel, const char* positions, const char* norm) {
  draft.set("model.gated_mlp", gated);
  draft.set("model.parallel_block", parallel);
  draft.set("model.positions", std::string(positions));
  draft.set("model.norm", std::string(norm));
}

void llama(Config& config, Draft& draft, const char* biases) {
  take_sizes(config, draft, SizeNames{});
  take_count(config, draft, "model.ffn_hidden", {"intermediate_size"});
  if (!draft.has("model.ffn_hidden")) config.need({"intermediate_size"});
  take_count(config, draft, "model.kv_heads", {"num_key_value_heads"});
  take_count(config, draft, "model.head_dim", {"head_dim"});
  set_shape(draft, true, false, "rotary", "rms_norm");
  const bool attention = config.flag("attention_bias", false), mlp = config.flag("mlp_bias", false);
  draft.set("model.biases", std::string(attention && mlp ? "all" : attention ? "qkv" : biases));
  if (attention && !mlp)
    draft.ignored("attention_bias", "the bias of the output projection; those of q, k and v count");
  if (mlp && !attention) draft.ignored("mlp_bias", "biases of the MLP alone");
  draft.set("model.tied_embeddings", config.flag("tie_word_embeddings", false));
}

void take_window(Config& config, Draft& draft, bool used) {
  const Settings* window = config.find("sliding_window");
  if (window == nullptr) return;
  if (!used) return draft.ignored("sliding_window", "use_sliding_window is false");
  const std::int64_t span = config.count(*window);
  const std::int64_t seq = draft.document().at("model").get_int("seq", 0);
  if (span < seq) draft.set("model.attention_window", span, window->place());
}

void take_experts(Config& config, Draft& draft, const std::vector<std::string>& counts, const char* width) {
  draft.set("model.kind", std::string("moe"));
  draft.set("model.experts", config.count(config.need(counts)));
  draft.set("model.top_k", config.count(config.need({"num_experts_per_tok"})));
  draft.set("model.expert_ffn_hidden", config.count(config.need({width})));
}

}  // namespace orrery::tools
