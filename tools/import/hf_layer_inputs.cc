// See hf_layer_inputs.h. Kernels are those of transformers (models/gemma4, models/gemma3n: Gemma3nTextDecoderLayer,
// Gemma3nTextLaurelBlock, Gemma3nTextAltUp), one by one. Of Gemma 3n's four streams one goes through a layer; ahead of
// it all are predicted from each other, behind it corrected by what it made (AltUp, arXiv 2301.13310).
//
// The streams are made ahead of the first layer and joined behind the last, whose blocks have these products.
//
// Left out: sparsity of activations, which changes values alone.
#include "tools/import/hf_layer_inputs.h"

#include <algorithm>

#include "tools/import/hf_blocks.h"

namespace orrery::tools {

namespace {

std::string line_of_product(const char* name, std::int64_t in, std::int64_t out) {
  return fmt::format("{{op: product, name: {}, in: {}, out: {}}}", name, in, out);
}
std::string line_of_kernel(const char* name, std::int64_t reads, std::int64_t writes, std::int64_t keeps,
                           std::int64_t weights = 0) {
  return fmt::format("{{op: elementwise, name: {}, reads: {}, writes: {}, keeps: {}, weights: {}}}", name, reads,
                     writes, keeps, weights);
}

void put_run(Draft& draft, const char* name, const std::vector<std::string>& lines) {
  draft.set(fmt::format("model.mixers.{}.kind", name), std::string("operators"));
  draft.apply(fmt::format("model.mixers.{}.run=[{}]", name, fmt::join(lines, ", ")));
}

/// From the hidden state to the width of the layer's input, times that, and back; the norm behind it is the model's
/// post_norm.
std::vector<std::string> layer_input(std::int64_t h, std::int64_t own) {
  return {line_of_product("per_layer_input_gate", h, own),
          line_of_kernel("times the layer's input", 2 * own, own, 2 * own),
          line_of_product("per_layer_projection", own, h), "{op: residual}"};
}

void put_table(Config& config, Draft& draft, std::int64_t own) {
  draft.set("model.layer_inputs.width", own, config.find("hidden_size_per_layer_input")->place());
  draft.set("model.layer_inputs.vocab", number_of(config, "vocab_size_per_layer_input", 262144));
}

/// Streams are read and written whole; what chooses among them is a product of the hidden state and maps of it.
std::vector<std::string> predict(std::int64_t h, std::int64_t streams) {
  return {line_of_kernel("router_norm", h, h, h, h), line_of_product("modality_router", h, streams),
          line_of_product("prediction_coefs", streams, streams * streams),
          line_of_kernel("predict streams", streams * h, streams * h, streams * h)};
}
std::vector<std::string> correct(std::int64_t h, std::int64_t streams) {
  return {line_of_kernel("router_norm", h, h, h), line_of_product("correction_coefs", streams, streams),
          line_of_kernel("correct streams", (streams + 1) * h, streams * h, (streams + 1) * h, h),
          line_of_kernel("add the first to the others", streams * h, (streams - 1) * h, 0)};
}

void add_lines(std::vector<std::string>& lines, const std::vector<std::string>& more) {
  lines.insert(lines.end(), more.begin(), more.end());
}

/// A number of the file, or of the first layer where it has one for each.
std::int64_t one_or_first(const Settings& member) {
  return (member.is_sequence() && !member.items().empty() ? member.items().front() : member).as_int(1, 100'000'000);
}

void gemma3n(Config& config, Draft& draft) {
  config.assume("vocab_size", 262400);
  config.assume("max_position_embeddings", 32768);
  config.assume("hidden_size_per_layer_input", 256);
  const std::int64_t inside = one_or_first(config.need({"intermediate_size"}));
  if (config.members().at("intermediate_size").is_sequence())
    for (const Settings& layer : config.members().at("intermediate_size").items())
      if (layer.as_int() != inside)
        layer.fail(fmt::format("got {} beside {}, expected one width", layer.text(), inside));
  config.replace("intermediate_size", inside);
  take_model(config, draft, "rotary");
  draft.set("model.tied_embeddings", config.flag("tie_word_embeddings", true));
  draft.set("model.activation", std::string("gelu"));
  draft.set("model.post_norm", true);
  const std::int64_t h = config.count(config.need({"hidden_size"})),
                     layers = config.count(config.need({"num_hidden_layers"})),
                     own = config.count(config.need({"hidden_size_per_layer_input"}));
  const std::int64_t rank = number_of(config, "laurel_rank", 64), streams = number_of(config, "altup_num_inputs", 4);
  const std::int64_t heads = config.count(config.need({"num_attention_heads"})),
                     keys = number_of(config, "num_key_value_heads", 2), dim = number_of(config, "head_dim", 256);
  const std::int64_t first_shared = layers - number_of(config, "num_kv_shared_layers", 15);
  put_table(config, draft, own);
  // It reads what attention's norm made; the norm behind it is the model's post_norm.
  const std::vector<std::string> residual{line_of_product("laurel_left", h, rank),
                                          line_of_product("laurel_right", rank, h), "{op: residual}"};
  std::vector<std::string> first{line_of_product("altup_projections", h, (streams - 1) * h),
                                 line_of_kernel("scale streams", streams * h, streams * h, streams * h)};
  add_lines(first, residual);
  std::vector<std::string> behind = correct(h, streams), gate = layer_input(h, own);
  behind.insert(behind.end(), gate.begin(), gate.end());
  std::vector<std::string> last = behind;
  add_lines(behind, predict(h, streams));
  add_lines(last, predict(h, streams));
  add_lines(last, {line_of_product("altup_unembed_projections", (streams - 1) * h, h),
                   line_of_kernel("mean of streams", streams * h, h, streams * h)});
  put_run(draft, "RI", first);
  if (layers > 1) put_run(draft, "R", residual);
  put_run(draft, "PO", last);
  if (layers > 1) put_run(draft, "P", behind);
  const Settings* types = config.find("layer_types");
  std::vector<std::string> words;
  std::vector<std::string> named;
  for (std::int64_t i = 0; i < layers; ++i) {
    const bool sees_all =
        types != nullptr && types->is_sequence() ? in_list_or_first(types, i, "full_attention", 0) : i % 5 == 4;
    const std::string mixer = std::string(sees_all ? "A" : "W") + (i >= first_shared ? "S" : "");
    if (std::find(named.begin(), named.end(), mixer) == named.end()) {
      named.push_back(mixer);
      const std::string at = "mixers." + mixer;
      put_kind(draft, at.c_str(), sees_all ? "attention" : "sliding");
      put(draft, at.c_str(), "heads", heads);
      put(draft, at.c_str(), "kv_heads", keys);
      put(draft, at.c_str(), "head_dim", dim);
      if (!sees_all) put(draft, at.c_str(), "window", number_of(config, "sliding_window", 512));
      draft.set("model." + at + ".qk_norm", true);
      if (i >= first_shared) draft.set("model." + at + ".shares_keys", true);
    }
    words.push_back(fmt::format("{}+{}+F+{}", mixer, i == 0 ? "RI" : "R", i + 1 == layers ? "PO" : "P"));
  }
  put_kind(draft, "channels.F", "mlp");
  put(draft, "channels.F", "ffn_hidden", inside);
  put_blocks(draft, words);
  for (const char* key : {"activation_sparsity_pattern", "altup_active_idx", "altup_coef_clip", "altup_correct_scale",
                          "altup_lr_multiplier"})
    config.find(key);
  if (first_shared < layers)
    draft.ignored("num_kv_shared_layers", "weights of keys that checkpoints hold of these layers, which nothing reads");
}

}  // namespace

void put_layer_inputs(Config& config, Draft& draft, std::int64_t own) {
  put_table(config, draft, own);
  put_run(draft, "P", layer_input(config.count(config.need({"hidden_size"})), own));
}

const std::vector<std::pair<const char*, void (*)(Config&, Draft&)>>& hf_layer_inputs() {
  static const std::vector<std::pair<const char*, void (*)(Config&, Draft&)>> kFamilies{{"gemma3n_text", gemma3n}};
  return kFamilies;
}

}  // namespace orrery::tools
