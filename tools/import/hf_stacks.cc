// See hf_stacks.h. Names of keys and their defaults are those of transformers' configuration classes (models/t5, mt5,
// umt5, bert, roberta, bart, whisper). uMT5's buckets of distances are each layer's own, which is not counted. What a
// config does not say is how long sequences are: 512 tokens of a source, and 128 of a target, which Megatron-LM's
// example trains on (examples/t5; the paper's targets have 114, arXiv 1910.10683, section 3.1.4).
#include "tools/import/hf_stacks.h"

#include "tools/import/hf_blocks.h"

namespace orrery::tools {

namespace {

constexpr std::int64_t kSource = 512, kTarget = 128;

/// An MLP of one product ahead of its activation (T5), or of two (T5 1.1, Flan-T5: gated-gelu).
void take_activation(Config& config, Draft& draft) {
  const Settings* said = config.find("feed_forward_proj");
  const std::string words = said == nullptr ? "relu" : said->text();
  const bool gated = words.starts_with("gated-");
  const std::string activation = gated ? words.substr(6) : words;
  draft.set("model.gated_mlp", gated);
  draft.set("model.activation", std::string(activation == "relu" ? "relu" : activation == "silu" ? "swiglu" : "gelu"));
}

void t5(Config& config, Draft& draft) {
  config.assume("d_kv", 64);
  const std::int64_t encoder = number_of(config, "num_layers", 6),
                     decoder = number_of(config, "num_decoder_layers", encoder);
  const std::int64_t heads = config.count(config.need({"num_heads"})), dim = config.count(config.need({"d_kv"}));
  draft.set("model.hidden", config.count(config.need({"d_model"})));
  draft.set("model.vocab", config.count(config.need({"vocab_size"})));
  const std::int64_t source = number_of(config, "n_positions", kSource);
  draft.set("model.seq", source + kTarget);
  draft.set("model.source_tokens", source);
  draft.assumed("model.seq", fmt::format("{} tokens of a source and {} of a target; set both to what is trained on "
                                         "(model.seq counts the two)",
                                         source, kTarget));
  take_activation(config, draft);
  draft.set("model.parallel_block", false);
  draft.set("model.positions", std::string("relative"));
  draft.set("model.norm", std::string("rms_norm"));
  draft.set("model.biases", std::string("none"));
  draft.set("model.tied_embeddings", config.flag("tie_word_embeddings", true));
  for (const auto& [name, kind] :
       {std::pair{"mixers.B", "bidirectional"}, {"mixers.A", "attention"}, {"mixers.X", "cross"}}) {
    put_kind(draft, name, kind);
    put(draft, name, "heads", heads);
    put(draft, name, "head_dim", dim);
  }
  put_kind(draft, "channels.F", "mlp");
  put(draft, "channels.F", "ffn_hidden", config.count(config.need({"d_ff"})));
  draft.apply(
      fmt::format("model.blocks=[{{pattern: B+F, repeat: {}}}, {{pattern: A+X+F, repeat: {}}}]", encoder, decoder));
  if (number_of(config, "relative_attention_num_buckets", 32) != 32)
    config.find("relative_attention_num_buckets")->fail("got another number of buckets of distances, expected 32");
  for (const char* key : {"relative_attention_max_distance", "is_gated_act", "dense_act_fn", "is_encoder_decoder",
                          "initializer_factor", "decoder_start_token_id", "dropout_rate", "output_past"})
    config.find(key);
  draft.ignored("the encoder's last norm", "hidden parameters, and one kernel");
}

void bert(Config& config, Draft& draft) {
  take_sizes(config, draft, SizeNames{});
  take_count(config, draft, "model.ffn_hidden", {"intermediate_size"});
  set_shape(draft, false, false, "learned", "layer_norm");
  draft.set("model.biases", std::string("all"));
  draft.set("model.tied_embeddings", true);
  for (const char* key : {"ffn_hidden", "heads", "layers"}) draft.drop_of_model(key);
  put_kind(draft, "mixers.B", "bidirectional");
  put(draft, "mixers.B", "heads", config.count(config.need({"num_attention_heads"})));
  put_dense(config, draft);
  const std::int64_t layers = config.count(config.need({"num_hidden_layers"}));
  put_blocks(draft, std::vector<std::string>(static_cast<std::size_t>(layers), "B+F"));
  for (const char* key : {"type_vocab_size", "position_embedding_type", "gradient_checkpointing"}) config.find(key);
  draft.ignored("segments, the pooler and the product ahead of the head", "hidden parameters, and h^2 of them twice");
}

/// RoBERTa's tables have two rows more than sequences have tokens.
void roberta(Config& config, Draft& draft) {
  bert(config, draft);
  if (const std::int64_t rows = config.count(config.need({"max_position_embeddings"})); rows > 2)
    draft.set("model.seq", rows - 2);
}

/// Of stacks whose file names each one's layers, heads and inner width (BART, Whisper).
void named_stacks(Config& config, Draft& draft, std::int64_t source, std::int64_t target) {
  const std::int64_t h = config.count(config.need({"d_model"})),
                     inside = config.count(config.need({"encoder_ffn_dim"}));
  draft.set("model.hidden", h);
  draft.set("model.vocab", config.count(config.need({"vocab_size"})));
  draft.set("model.seq", source + target);
  draft.set("model.source_tokens", source);
  draft.assumed("model.seq", fmt::format("{} tokens of a source and {} of a target, the most that the model takes; set "
                                         "both to what is trained on (model.seq counts the two)",
                                         source, target));
  set_shape(draft, false, false, "learned", "layer_norm");
  draft.set("model.biases", std::string("all"));
  draft.set("model.activation", std::string("gelu"));
  draft.set("model.tied_embeddings", config.flag("tie_word_embeddings", true));
  const auto heads = [&](const char* at, const char* kind, const char* key) {
    const std::int64_t count = config.count(config.need({key}));
    if (h % count != 0) config.find(key)->fail(fmt::format("got {}, expected a divisor of d_model {}", count, h));
    put_kind(draft, at, kind);
    put(draft, at, "heads", count);
    put(draft, at, "head_dim", h / count);
  };
  heads("mixers.B", "bidirectional", "encoder_attention_heads");
  heads("mixers.A", "attention", "decoder_attention_heads");
  heads("mixers.X", "cross", "decoder_attention_heads");
  const std::int64_t inside_decoder = number_of(config, "decoder_ffn_dim", inside);
  put_kind(draft, "channels.F", "mlp");
  put(draft, "channels.F", "ffn_hidden", inside);
  if (inside_decoder != inside) {
    put_kind(draft, "channels.D", "mlp");
    put(draft, "channels.D", "ffn_hidden", inside_decoder);
  }
  draft.apply(fmt::format("model.blocks=[{{pattern: B+F, repeat: {}}}, {{pattern: A+X+{}, repeat: {}}}]",
                          config.count(config.need({"encoder_layers"})), inside_decoder != inside ? "D" : "F",
                          config.count(config.need({"decoder_layers"}))));
  for (const char* key : {"encoder_layerdrop", "decoder_layerdrop", "scale_embedding", "is_encoder_decoder",
                          "num_hidden_layers", "decoder_start_token_id", "forced_eos_token_id", "init_std"})
    config.find(key);
}

/// BART and mBART (transformers, models/bart): as many tokens on both sides at most.
void bart(Config& config, Draft& draft) {
  const std::int64_t most = number_of(config, "max_position_embeddings", 1024);
  named_stacks(config, draft, most, most);
  draft.ignored("layernorm_embedding", "a norm behind each stack's embedding");
}

/// Whisper (arXiv 2212.04356): the encoder reads frames of sound that two convolutions make of mel spectra.
void whisper(Config& config, Draft& draft) {
  named_stacks(config, draft, number_of(config, "max_source_positions", 1500),
               number_of(config, "max_target_positions", 448));
  draft.ignored("num_mel_bins", "two convolutions ahead of the encoder: an embedding stands for them here");
  for (const char* key : {"suppress_tokens", "begin_suppress_tokens", "median_filter_width", "apply_spec_augment",
                          "use_weighted_layer_sum", "classifier_proj_size", "forced_decoder_ids"})
    config.find(key);
}

}  // namespace

const std::vector<std::pair<const char*, void (*)(Config&, Draft&)>>& hf_stacks() {
  static const std::vector<std::pair<const char*, void (*)(Config&, Draft&)>> kFamilies{{"t5", t5},
                                                                                        {"mt5", t5},
                                                                                        {"umt5", t5},
                                                                                        {"bert", bert},
                                                                                        {"roberta", roberta},
                                                                                        {"xlm-roberta", roberta},
                                                                                        {"camembert", roberta},
                                                                                        {"bart", bart},
                                                                                        {"mbart", bart},
                                                                                        {"whisper", whisper}};
  return kFamilies;
}

}  // namespace orrery::tools
