// See hf_blocks.h.
#include "tools/import/hf_blocks.h"

#include <algorithm>

namespace orrery::tools {

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

void put_attention(Config& config, Draft& draft) {
  const char* at = "mixers.A";
  put_kind(draft, at, "attention");
  const std::int64_t heads = config.count(config.need({"num_attention_heads"}));
  put(draft, at, "heads", heads);
  put(draft, at, "kv_heads", number_of(config, "num_key_value_heads", heads));
  if (const std::int64_t dim = number_of(config, "head_dim", 0); dim > 0) put(draft, at, "head_dim", dim);
}

void put_experts(Config& config, Draft& draft, const std::vector<std::string>& counts, const char* width) {
  const char* at = "channels.E";
  put_kind(draft, at, "moe");
  put(draft, at, "experts", config.count(config.need(counts)));
  put(draft, at, "top_k", config.count(config.need({"num_experts_per_tok", "num_experts_per_token"})));
  put(draft, at, "expert_ffn_hidden", config.count(config.need({width})));
}

void put_shared_expert(Draft& draft, std::int64_t experts, std::int64_t width, bool gate) {
  if (experts == 0 || width == 0) return;
  put(draft, "channels.E", "shared_experts", experts);
  put(draft, "channels.E", "shared_expert_ffn_hidden", width);
  if (gate) draft.set("model.channels.E.shared_gate", true);
}

void put_dense(Config& config, Draft& draft) {
  put_kind(draft, "channels.F", "mlp");
  put(draft, "channels.F", "ffn_hidden", config.count(config.need({"intermediate_size"})));
}

void put_mamba(Config& config, Draft& draft, const MambaNames& names) {
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

/// Whether the layer is one of a list's that are called so; without a list, of the first `count`.
bool in_list_or_first(const Settings* list, std::int64_t layer, const char* called, std::int64_t count) {
  if (list == nullptr || !list->is_sequence()) return layer < count;
  const auto at = static_cast<std::size_t>(layer);
  if (at >= list->items().size()) list->fail(fmt::format("got {} layers, expected num_hidden_layers", at));
  return list->items()[at].text() == called;
}

std::vector<bool> named_layers(const Settings& listed, std::int64_t layers) {
  std::vector<bool> named(static_cast<std::size_t>(layers), false);
  const auto name = [&](const Settings& one) { named[static_cast<std::size_t>(one.as_int(0, layers - 1))] = true; };
  if (listed.is_sequence()) {
    for (const Settings& one : listed.items()) name(one);
    return named;
  }
  std::string number;
  for (const char c : listed.text() + ",") {
    if (c != ',') {
      if (c != ' ') number += c;
    } else if (!number.empty()) {
      name(Settings::scalar(number, listed.place()));
      number.clear();
    }
  }
  return named;
}

void take_predictions(Config& config, Draft& draft, const char* key, const std::string& block) {
  const std::int64_t layers = number_of(config, key, 0);
  if (layers == 0) return;
  draft.set("model.mtp_layers", layers, config.find(key)->place());
  draft.set("model.mtp_block", block);
}

}  // namespace orrery::tools
