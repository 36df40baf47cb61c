// See hf_operators.h. Kernels are those of transformers' and of the mixers' own libraries: LFM2's convolution with two
// gates (models/lfm2, Lfm2ShortConv: one product to gates and input, three taps a channel, one product back); Mamba-1
// (arXiv 2312.00752, algorithm 2; models/jamba, JambaMambaMixer, with norms of step, B and C; state-spaces/mamba,
// selective_scan_interface.py, which keeps what its products made and computes the states again). Its scan's FLOPs are
// nine a channel, state and token (state-spaces/mamba, issue 110). Zamba 2's transformers, of weights that several
// layers share, and SambaY's gates of an earlier layer's scan.
//
// Left out: what the scan's exponentials take beyond bytes and products.
#include "tools/import/hf_operators.h"

#include <algorithm>

#include "tools/import/hf_blocks.h"

namespace orrery::tools {

namespace {

void put_operators(Draft& draft, const char* name, const std::vector<std::string>& lines) {
  draft.set(fmt::format("model.mixers.{}.kind", name), std::string("operators"));
  draft.apply(fmt::format("model.mixers.{}.run=[{}]", name, fmt::join(lines, ", ")));
}

// ---- LFM2 ----

void put_short_convolution(Config& config, Draft& draft) {
  const std::int64_t h = config.count(config.need({"hidden_size"})), taps = number_of(config, "conv_L_cache", 3);
  const std::int64_t bias = config.flag("conv_bias", false) ? 1 : 0;
  const auto biases = [&](std::int64_t width) { return bias * width; };
  put_operators(
      draft, "C",
      {"{op: norm}",
       fmt::format("{{op: product, name: in_proj, in: {0}, out: {1}, cut: out, weights: {2}}}", h, 3 * h,
                   biases(3 * h)),
       fmt::format("{{op: elementwise, name: gate ahead, reads: {0}, writes: {1}, backward: {2}, keeps: {0}}}", 2 * h,
                   h, 5 * h),
       fmt::format(
           "{{op: elementwise, name: convolution, reads: {0}, writes: {0}, keeps: {0}, weights: {1}, cut: out}}", h,
           h * taps + biases(h)),
       fmt::format("{{op: elementwise, name: gate behind, reads: {0}, writes: {1}, backward: {2}, keeps: {0}}}", 2 * h,
                   h, 5 * h),
       fmt::format("{{op: product, name: out_proj, in: {0}, out: {0}, cut: in, weights: {1}}}", h, biases(h)),
       "{op: residual}"});
}

/// Two thirds of what is said, where it is so adjusted, times a factor, up to a multiple.
std::int64_t lfm2_width(Config& config) {
  const std::int64_t said = config.count(config.need({"block_ff_dim", "intermediate_size"}));
  const std::int64_t multiple = std::max<std::int64_t>(1, number_of(config, "block_multiple_of", 256));
  const Settings* factor = config.find("block_ffn_dim_multiplier");
  if (!config.flag("block_auto_adjust_ff_dim", true)) return said;
  std::int64_t width = 2 * said / 3;
  if (factor != nullptr && !factor->is_null())
    width = static_cast<std::int64_t>(factor->as_number(1e-3, 1e3) * static_cast<double>(width));
  return std::max<std::int64_t>(1, (width + multiple - 1) / multiple) * multiple;
}

bool attends_in(Config& config, std::int64_t layer) {
  if (const Settings* types = config.find("layer_types"); types != nullptr && types->is_sequence())
    return in_list_or_first(types, layer, "full_attention", 0);
  const Settings& listed = config.need({"full_attn_idxs", "layer_types"});
  return std::any_of(listed.items().begin(), listed.items().end(),
                     [&](const Settings& item) { return item.as_int(0, 100'000) == layer; });
}

void lfm2(Config& config, Draft& draft, bool mixture) {
  config.assume("intermediate_size", mixture ? 7168 : 12288);
  take_model(config, draft, "rotary");
  const Settings* tied = config.find("tie_embedding");
  draft.set("model.tied_embeddings", tied != nullptr ? tied->as_bool() : config.flag("tie_word_embeddings", true));
  put_short_convolution(config, draft);
  put_attention(config, draft);
  draft.set("model.mixers.A.qk_norm", true);
  const std::int64_t layers = config.count(config.need({"num_hidden_layers"})),
                     dense = mixture ? number_of(config, "num_dense_layers", 2) : layers;
  if (mixture) put_experts(config, draft, {"num_experts"}, "moe_intermediate_size");
  if (dense > 0) {
    put_kind(draft, "channels.F", "mlp");
    put(draft, "channels.F", "ffn_hidden",
        mixture ? config.count(config.need({"intermediate_size"})) : lfm2_width(config));
  }
  std::vector<std::string> words;
  for (std::int64_t i = 0; i < layers; ++i)
    words.push_back(fmt::format("{}+{}", attends_in(config, i) ? "A" : "C", i < dense ? "F" : "E"));
  put_blocks(draft, words);
}
void lfm2_dense(Config& config, Draft& draft) { lfm2(config, draft, false); }
void lfm2_moe(Config& config, Draft& draft) { lfm2(config, draft, true); }

// ---- Mamba-1 ----

/// Elements of a token: hidden, of the mixer's channels, of a channel's state, of the steps ahead of their product;
/// taps.
struct Mamba1 {
  std::int64_t hidden, channels, state, rank, taps;
  bool conv_bias, biased;
  enum class Norms : std::uint8_t { none, plain, weighted } norms;  // of step, B and C
};

std::int64_t rank_of_steps(Config& config, const char* key, std::int64_t hidden) {
  const Settings* rank = config.find(key);
  const bool given = rank != nullptr && !rank->is_null() && rank->text() != "auto";
  return given ? rank->as_int(1, 1'000'000) : (hidden + 15) / 16;
}

/// Channels are shared out over tensor ranks; a product's sum over all of them makes steps, B and C, which every rank
/// goes on from for its own (vllm-project/vllm, model_executor/layers/mamba/mamba_mixer.py: in_proj by columns, x_proj
/// by rows, dt_proj by columns, out_proj by rows).
void put_mamba1(Draft& draft, const Mamba1& m) {
  const std::int64_t h = m.hidden, d = m.channels, n = m.state, thin = m.rank + 2 * n;
  std::vector<std::string> lines{
      "{op: norm}",
      fmt::format("{{op: product, name: in_proj, in: {}, out: {}, cut: out, weights: {}}}", h, 2 * d,
                  m.biased ? 2 * d : 0),
      fmt::format("{{op: elementwise, name: convolution, reads: {0}, writes: {0}, keeps: {0}, weights: {1}, cut: out}}",
                  d, d * m.taps + (m.conv_bias ? d : 0)),
      fmt::format("{{op: product, name: x_proj, in: {}, out: {}, cut: sum}}", d, thin)};
  if (m.norms != Mamba1::Norms::none)
    lines.push_back(fmt::format(
        "{{op: elementwise, name: norms of step and B and C, reads: {0}, writes: {0}, keeps: {0}, weights: {1}}}", thin,
        m.norms == Mamba1::Norms::weighted ? thin : 0));
  lines.push_back(fmt::format("{{op: product, name: dt_proj, in: {}, out: {}, cut: out, weights: {}}}", m.rank, d, d));
  // Input, step, gate, B and C; A in fp32, D and the states are of channels, not of tokens.
  lines.push_back(fmt::format("{{op: matmul, name: selective_scan, flops: {}, reads: {}, writes: {}, keeps: {}}}",
                              9 * d * n, 3 * d + 2 * n, d, 2 * d));
  lines.push_back(
      fmt::format("{{op: elementwise, name: decays, reads: 1, writes: 1, weights: {}, cut: out}}", d * n + d));
  lines.push_back(
      fmt::format("{{op: product, name: out_proj, in: {}, out: {}, cut: in, weights: {}}}", d, h, m.biased ? h : 0));
  lines.emplace_back("{op: residual}");
  put_operators(draft, "M", lines);
}

void jamba(Config& config, Draft& draft) {
  config.assume("max_position_embeddings", 262144);
  take_model(config, draft, "none");
  const std::int64_t h = config.count(config.need({"hidden_size"}));
  put_mamba1(draft,
             {h, number_of(config, "mamba_expand", 2) * h, number_of(config, "mamba_d_state", 16),
              rank_of_steps(config, "mamba_dt_rank", h), number_of(config, "mamba_d_conv", 4),
              config.flag("mamba_conv_bias", true), config.flag("mamba_proj_bias", false), Mamba1::Norms::weighted});
  put_attention(config, draft);
  const std::int64_t layers = config.count(config.need({"num_hidden_layers"})),
                     experts = number_of(config, "num_experts", 16);
  const std::int64_t attends = std::max<std::int64_t>(1, number_of(config, "attn_layer_period", 8)),
                     first = number_of(config, "attn_layer_offset", 4);
  const std::int64_t every = std::max<std::int64_t>(1, number_of(config, "expert_layer_period", 2)),
                     offset = number_of(config, "expert_layer_offset", 1);
  std::vector<std::string> words;
  bool dense = false, mixture = false;
  for (std::int64_t i = 0; i < layers; ++i) {
    const bool routed = experts > 1 && i % every == offset;
    (routed ? mixture : dense) = true;
    words.push_back(fmt::format("{}+{}", i % attends == first ? "A" : "M", routed ? "E" : "F"));
  }
  if (mixture) put_experts(config, draft, {"num_experts"}, "intermediate_size");
  if (dense) put_dense(config, draft);
  put_blocks(draft, words);
}

/// Blocks of Mamba-1 alone (models/mamba, models/falcon_mamba). No file says how long sequences are.
void mamba1(Config& config, Draft& draft, Mamba1::Norms norms, std::int64_t seq) {
  const std::int64_t h = config.count(config.need({"hidden_size"}));
  const std::int64_t d = number_of(config, "intermediate_size", number_of(config, "expand", 2) * h);
  config.find("expand");
  draft.set("model.hidden", h);
  draft.set("model.vocab", config.count(config.need({"vocab_size"})));
  draft.set("model.seq", seq);
  draft.assumed("model.seq", "what it was trained on at first; set the length that is trained on");
  set_shape(draft, false, false, "none", "rms_norm");
  draft.set("model.biases", std::string("none"));
  draft.set("model.tied_embeddings", config.flag("tie_word_embeddings", true));
  put_mamba1(draft, {h, d, number_of(config, "state_size", 16), rank_of_steps(config, "time_step_rank", h),
                     number_of(config, "conv_kernel", 4), config.flag("use_conv_bias", true),
                     config.flag("use_bias", false), norms});
  for (const char* key : {"time_step_scale", "time_step_init_scheme", "mixer_rms_eps", "use_mambapy", "d_inner",
                          "d_model", "n_layer", "ssm_cfg", "use_falcon_mambapy", "use_associative_scan"})
    config.find(key);
  put_blocks(draft, std::vector<std::string>(
                        static_cast<std::size_t>(config.count(config.need({"num_hidden_layers", "n_layer"}))), "M"));
}
/// arXiv 2312.00752, appendix E.2.1; arXiv 2410.05355, section 3.1.
void mamba(Config& config, Draft& draft) { mamba1(config, draft, Mamba1::Norms::none, 2048); }
void falcon_mamba(Config& config, Draft& draft) { mamba1(config, draft, Mamba1::Norms::plain, 2048); }

// ---- Zamba 2 ----

/// Adapters beside a product of weights that several layers share, of each use's own (arXiv 2411.15242, section 2).
struct SharedProducts {
  std::int64_t in, rank;  // 0: no adapters
  bool shared;
  std::vector<std::pair<const char*, std::int64_t>> made;  // of which widths
};
void add_shared(std::vector<std::string>& lines, const SharedProducts& p) {
  if (p.rank > 0) {
    for (std::size_t i = 0; i < p.made.size(); ++i)
      lines.push_back(fmt::format("{{op: product, name: {}_adapter_down, in: {}, out: {}, beside: {}}}",
                                  p.made[i].first, p.in, p.rank, i > 0));
  }
  for (std::size_t i = 0; i < p.made.size(); ++i)
    lines.push_back(fmt::format("{{op: product, name: {}, in: {}, out: {}, cut: out, beside: {}, shared: {}}}",
                                p.made[i].first, p.in, p.made[i].second, i > 0, p.shared));
  if (p.rank == 0) return;
  std::int64_t wide = 0;
  for (const auto& [name, width] : p.made) {
    lines.push_back(
        fmt::format("{{op: product, name: {}_adapter_up, in: {}, out: {}, cut: out}}", name, p.rank, width));
    wide += width;
  }
  lines.push_back(fmt::format("{{op: elementwise, name: add adapters, reads: {}, writes: {}}}", 2 * wide, wide));
}

struct Zamba2 {
  std::int64_t hidden, heads, kv_heads, inside, rank;
  bool adapts_attention, rotates;
};

/// What stands ahead of some Mamba-2 layers: attention of the hidden state beside the embedding, twice as wide, and an
/// MLP, of weights that its uses share, and a product of the use's own (transformers, models/zamba2,
/// Zamba2HybridLayer). `shared`: not the first use.
void put_shared_transformer(Draft& draft, const char* name, const Zamba2& z, bool shared) {
  const std::int64_t h = z.hidden, wide = 2 * h, dim = wide / z.heads, keys = z.kv_heads * dim;
  std::vector<std::string> lines{
      fmt::format("{{op: copy, name: hidden state beside the embedding, reads: {0}, writes: {0}}}", wide),
      fmt::format(
          "{{op: elementwise, name: input_layernorm, reads: {0}, writes: {0}, keeps: {0}, weights: {0}, shared: {1}}}",
          wide, shared)};
  add_shared(lines,
             {wide, z.adapts_attention ? z.rank : 0, shared, {{"q_proj", wide}, {"k_proj", keys}, {"v_proj", keys}}});
  if (z.rotates)
    lines.push_back(fmt::format("{{op: elementwise, name: rotary, reads: {0}, writes: {0}}}", wide + keys));
  lines.push_back(fmt::format("{{op: attention, heads: {}, kv_heads: {}, head_dim: {}}}", z.heads, z.kv_heads, dim));
  lines.push_back(fmt::format("{{op: product, name: o_proj, in: {}, out: {}, cut: in, shared: {}}}", wide, h, shared));
  lines.push_back(fmt::format("{{op: norm, shared: {}}}", shared));
  add_shared(lines, {h, z.rank, shared, {{"gate_up_proj", 2 * z.inside}}});
  lines.push_back(fmt::format("{{op: elementwise, name: gelu, reads: {0}, writes: {1}, backward: {2}, keeps: {0}}}",
                              2 * z.inside, z.inside, 5 * z.inside));
  lines.push_back(
      fmt::format("{{op: product, name: down_proj, in: {}, out: {}, cut: in, shared: {}}}", z.inside, h, shared));
  lines.push_back(fmt::format("{{op: product, name: linear, in: {0}, out: {0}}}", h));
  lines.emplace_back("{op: residual}");
  put_operators(draft, name, lines);
}

/// Layers that are Mamba-2, or that and a transformer ahead of it, one of so many in turn.
void zamba2(Config& config, Draft& draft) {
  const std::int64_t h = config.count(config.need({"hidden_size"})),
                     layers = number_of(config, "num_hidden_layers", 54);
  config.assume("num_hidden_layers", layers);
  config.assume("intermediate_size", 4 * h);
  config.assume("max_position_embeddings", 4096);
  const bool rotates = config.flag("use_mem_rope", false);
  take_model(config, draft, rotates ? "rotary" : "none");
  draft.set("model.tied_embeddings", config.flag("tie_word_embeddings", true));
  draft.set("model.activation", std::string("gelu"));
  // Zyphra's own files and transformers' call some of it otherwise.
  config.assume("mamba_d_state", number_of(config, "state_size", 64));
  config.assume("mamba_d_conv", number_of(config, "conv_dimension", 4));
  const std::int64_t inner = number_of(config, "mamba_expand", number_of(config, "expansion_factor", 2)) * h;
  config.assume("n_mamba_heads", inner / std::max<std::int64_t>(1, number_of(config, "mamba_headdim", 64)));
  config.assume("mamba_headdim", inner / config.count(config.need({"n_mamba_heads"})));
  put_mamba(config, draft,
            {"n_mamba_heads", "mamba_headdim", "mamba_d_state", "mamba_ngroups", "mamba_d_conv", "chunk_size"});
  const std::int64_t heads = number_of(config, "num_attention_heads", 32),
                     kv_heads = number_of(config, "num_key_value_heads", heads);
  const bool adapts = config.flag("use_shared_attention_adapter", config.flag("use_shared_attention_lora", false));
  const Zamba2 z{h,
                 heads,
                 kv_heads,
                 config.count(config.need({"intermediate_size"})),
                 number_of(config, "adapter_rank", number_of(config, "lora_rank", 128)),
                 adapts,
                 rotates};
  if (heads == 0 || 2 * h % heads != 0)
    config.need({"num_attention_heads"}).fail(fmt::format("expected a divisor of {}, twice hidden_size", 2 * h));
  const std::int64_t in_turn = std::max<std::int64_t>(1, number_of(config, "num_mem_blocks", 1));
  const Settings* types = config.find("layers_block_type");
  const Settings* listed = config.find("hybrid_layer_ids");
  std::vector<std::string> words;
  std::int64_t uses = 0;
  for (std::int64_t i = 0; i < layers; ++i) {
    bool hybrid = false;
    if (types != nullptr && types->is_sequence()) {
      hybrid = in_list_or_first(types, i, "hybrid", 0);
    } else if (listed != nullptr && listed->is_sequence()) {
      hybrid = std::any_of(listed->items().begin(), listed->items().end(),
                           [&](const Settings& item) { return item.as_int(0, 100'000) == i; });
    } else {
      config.need({"layers_block_type", "hybrid_layer_ids"});
    }
    if (hybrid) words.push_back(uses++ < in_turn ? "T" : "TS");
    words.emplace_back("M");
  }
  if (uses > 0) put_shared_transformer(draft, "T", z, false);
  if (uses > in_turn) put_shared_transformer(draft, "TS", z, true);
  for (const char* key : {"num_query_groups", "kv_channels", "attention_head_dim", "attention_hidden_size",
                          "ffn_hidden_size", "use_shared_block_lora", "use_shared_mlp_adapter", "use_long_context",
                          "add_bias_linear", "use_conv_bias", "activation_func", "sliding_window", "gated_linear_unit"})
    config.find(key);
  put_blocks(draft, words);
}

// ---- SambaY ----

/// Phi-4-mini-flash (arXiv 2507.06607; microsoft/Phi-4-mini-flash-reasoning, modeling_phi4flash.py): Mamba-1 and
/// attention in a window in turn, behind the middle one layer of Mamba-1 and one that attends to all, whose scan and
/// keys the layers behind read: gates of that scan (gated memory units), and attention that makes queries alone.
void phi4_flash(Config& config, Draft& draft) {
  config.assume("max_position_embeddings", 262144);
  take_model(config, draft, "none");
  draft.set("model.norm", std::string("layer_norm"));
  draft.set("model.biases", std::string("qkv"));
  draft.set("model.tied_embeddings", config.flag("tie_word_embeddings", true));
  const std::int64_t h = config.count(config.need({"hidden_size"})),
                     layers = config.count(config.need({"num_hidden_layers"}));
  const std::int64_t every = number_of(config, "mb_per_layer", 2), d = number_of(config, "mamba_expand", 2) * h;
  put_mamba1(draft, {h, d, number_of(config, "mamba_d_state", 16), rank_of_steps(config, "mamba_dt_rank", h),
                     number_of(config, "mamba_d_conv", 4), config.flag("mamba_conv_bias", true),
                     config.flag("mamba_proj_bias", false), Mamba1::Norms::none});
  put_operators(draft, "G",
                {"{op: norm}", fmt::format("{{op: product, name: in_proj, in: {}, out: {}, cut: out}}", h, d),
                 fmt::format("{{op: elementwise, name: gate of an earlier scan, reads: {0}, writes: {1}, "
                             "backward: {2}, keeps: {1}, ahead: {1}}}",
                             2 * d, d, 5 * d),
                 fmt::format("{{op: product, name: out_proj, in: {}, out: {}, cut: in}}", d, h), "{op: residual}"});
  const std::int64_t heads = config.count(config.need({"num_attention_heads"}));
  const auto attends = [&](const char* at, const char* kind) {
    put_kind(draft, at, kind);
    put(draft, at, "heads", heads);
    put(draft, at, "kv_heads", number_of(config, "num_key_value_heads", heads));
    put(draft, at, "head_dim", h / heads);
  };
  const Settings* window = config.find("sliding_window");
  std::int64_t span = 0;
  if (window != nullptr && !window->is_null()) {
    if (!window->is_sequence()) span = window->as_int(0, 1'000'000'000);
    for (std::size_t i = 0; window->is_sequence() && i < window->items().size(); ++i)
      if (!window->items()[i].is_null()) span = std::max(span, window->items()[i].as_int(0, 1'000'000'000));
  }
  std::vector<std::string> words;
  for (std::int64_t i = 0; i < layers; ++i) {
    const bool scans = every > 0 && i % every == 0, reads = i >= layers / 2 + 2, first_half = i < layers / 2;
    words.emplace_back(scans ? (reads ? "G+F" : "M+F") : first_half && span > 0 ? "W+F" : reads ? "AS+F" : "A+F");
  }
  const auto has = [&](const char* word) { return std::find(words.begin(), words.end(), word) != words.end(); };
  if (has("W+F")) {
    attends("mixers.W", "sliding");
    put(draft, "mixers.W", "window", span);
  }
  if (has("A+F")) attends("mixers.A", "attention");
  if (has("AS+F")) {
    attends("mixers.AS", "attention");
    draft.set("model.mixers.AS.shares_keys", true);
  }
  put_dense(config, draft);
  draft.ignored("differential attention", "each map of scores meets the values of both here once, not twice");
  for (const char* key : {"lm_head_bias", "mlp_bias", "attention_bias", "embd_pdrop", "resid_pdrop"}) config.find(key);
  put_blocks(draft, words);
}

// ---- RecurrentGemma ----

/// Griffin's recurrent block (arXiv 2402.19427, section 2.4; transformers, models/recurrent_gemma): two products of the
/// input, one through a convolution and a gated recurrence of channels, times the other's activation.
void recurrent_gemma(Config& config, Draft& draft) {
  config.assume("max_position_embeddings", number_of(config, "attention_window_size", 2048));
  const std::int64_t h = config.count(config.need({"hidden_size"})),
                     heads = config.count(config.need({"num_attention_heads"}));
  const std::int64_t inside = config.count(config.need({"intermediate_size"})) / 2;  // of each branch
  const std::int64_t w = number_of(config, "lru_width", h), taps = number_of(config, "conv1d_width", 4);
  config.assume("num_key_value_heads", heads);
  take_model(config, draft, "rotary");
  draft.set("model.tied_embeddings", config.flag("tie_word_embeddings", true));
  draft.set("model.activation", std::string("gelu"));
  if (heads == 0 || w % heads != 0)
    config.need({"num_attention_heads"}).fail(fmt::format("expected a divisor of lru_width {}", w));
  const std::int64_t block = w / heads;  // of the two gates' products, one a head
  put_operators(
      draft, "R",
      {"{op: norm}", fmt::format("{{op: product, name: linear_y, in: {}, out: {}, cut: out, weights: {}}}", h, w, w),
       fmt::format("{{op: product, name: linear_x, in: {}, out: {}, cut: out, beside: true, weights: {}}}", h, w, w),
       fmt::format("{{op: elementwise, name: gelu, reads: {0}, writes: {0}, keeps: {0}}}", w),
       fmt::format(
           "{{op: elementwise, name: convolution, reads: {0}, writes: {0}, keeps: {0}, weights: {1}, cut: out}}", w,
           w * (taps + 1)),
       fmt::format("{{op: matmul, name: gates of the recurrence, flops: {}, reads: {}, writes: {}, keeps: {}}}",
                   4 * w * block, w, 2 * w, w),
       fmt::format("{{op: elementwise, name: rg_lru, reads: {}, writes: {}, backward: {}, keeps: {}, weights: {}, cut: "
                   "out}}",
                   3 * w, w, 7 * w, 3 * w, 2 * w * block + 3 * w),
       fmt::format("{{op: elementwise, name: times the other branch, reads: {}, writes: {}, backward: {}, keeps: {}}}",
                   2 * w, w, 5 * w, 2 * w),
       fmt::format("{{op: product, name: linear_out, in: {}, out: {}, cut: in, weights: {}}}", w, h, h),
       "{op: residual}"});
  put_kind(draft, "mixers.W", "sliding");
  put(draft, "mixers.W", "heads", heads);
  put(draft, "mixers.W", "kv_heads", number_of(config, "num_key_value_heads", heads));
  if (const std::int64_t dim = number_of(config, "head_dim", 0); dim > 0) put(draft, "mixers.W", "head_dim", dim);
  put(draft, "mixers.W", "window", number_of(config, "attention_window_size", 2048));
  put_kind(draft, "channels.F", "mlp");
  put(draft, "channels.F", "ffn_hidden", inside);
  const Settings* kinds = config.find("_block_types");
  if (kinds == nullptr) kinds = config.find("block_types");
  std::vector<std::string> turn;
  if (kinds != nullptr && kinds->is_sequence())
    for (const Settings& kind : kinds->items())
      turn.emplace_back(kind.as_choice({"recurrent", "attention"}) == "recurrent" ? "R+F" : "W+F");
  if (turn.empty()) turn = {"R+F", "R+F", "W+F"};
  std::vector<std::string> words;
  for (std::int64_t i = 0; i < config.count(config.need({"num_hidden_layers"})); ++i)
    words.push_back(turn[static_cast<std::size_t>(i) % turn.size()]);
  for (const char* key :
       {"embeddings_scale_by_sqrt_dim", "logits_soft_cap", "w_init_variance_scale", "final_w_init_variance_scale"})
    config.find(key);
  put_blocks(draft, words);
}

// ---- Step-3 ----

/// Step-3 (arXiv 2507.19427, section 3): queries of one matrix in two parts, one head of keys and values.
void step3_text(Config& config, Draft& draft) {
  config.assume("max_position_embeddings",
                number_of(config, "max_seq_len", number_of(config, "max_position_embedding", 65536)));
  take_model(config, draft, "rotary");
  const std::int64_t h = config.count(config.need({"hidden_size"})),
                     heads = config.count(config.need({"num_attention_heads"}));
  const std::int64_t dim = config.count(config.need({"head_dim"})), rank = config.count(config.need({"share_q_dim"}));
  const std::int64_t groups = number_of(config, "num_attention_groups", 1), keys = groups * dim, wide = heads * dim;
  put_operators(
      draft, "A",
      {"{op: norm}", fmt::format("{{op: product, name: q_proj, in: {}, out: {}}}", h, rank),
       fmt::format("{{op: product, name: k_proj, in: {}, out: {}, beside: true}}", h, keys),
       fmt::format("{{op: product, name: v_proj, in: {}, out: {}, beside: true}}", h, keys),
       fmt::format("{{op: elementwise, name: inter_norm, reads: {0}, writes: {0}, keeps: {0}, weights: {0}}}", rank),
       fmt::format("{{op: product, name: wq, in: {}, out: {}, cut: out}}", rank, wide),
       fmt::format("{{op: elementwise, name: rotary, reads: {0}, writes: {0}}}", wide + keys),
       fmt::format("{{op: attention, heads: {}, kv_heads: {}, head_dim: {}}}", heads, groups, dim),
       fmt::format("{{op: product, name: o_proj, in: {}, out: {}, cut: in}}", wide, h), "{op: residual}"});
  const Settings* listed = config.find("moe_layers_enum");
  const std::int64_t layers = config.count(config.need({"num_hidden_layers"}));
  std::vector<bool> routed;
  if (listed != nullptr && !listed->is_null()) routed = named_layers(*listed, layers);
  std::vector<std::string> words;
  for (std::int64_t i = 0; i < layers; ++i) {
    const bool of_class = i >= 4 && i + 1 < layers;
    words.emplace_back((routed.empty() ? of_class : routed[static_cast<std::size_t>(i)]) ? "A+E" : "A+F");
  }
  const auto has = [&](const char* word) { return std::find(words.begin(), words.end(), word) != words.end(); };
  if (has("A+F")) put_dense(config, draft);
  if (has("A+E")) {
    put_kind(draft, "channels.E", "moe");
    put(draft, "channels.E", "experts", config.count(config.need({"moe_num_experts"})));
    put(draft, "channels.E", "top_k", config.count(config.need({"moe_top_k"})));
    put(draft, "channels.E", "expert_ffn_hidden", config.count(config.need({"moe_intermediate_size"})));
    put_shared_expert(draft, 1, number_of(config, "share_expert_dim", 0), false);
  }
  for (const char* key : {"norm_expert_weight", "max_seq_len", "max_position_embedding"}) config.find(key);
  put_blocks(draft, words);
}

}  // namespace

const std::vector<std::pair<const char*, void (*)(Config&, Draft&)>>& hf_of_operators() {
  static const std::vector<std::pair<const char*, void (*)(Config&, Draft&)>> kFamilies{
      {"lfm2", lfm2_dense},
      {"lfm2_moe", lfm2_moe},
      {"jamba", jamba},
      {"mamba", mamba},
      {"falcon_mamba", falcon_mamba},
      {"zamba2", zamba2},
      {"phi4flash", phi4_flash},
      {"recurrent_gemma", recurrent_gemma},
      {"step3_text", step3_text}};
  return kFamilies;
}

}  // namespace orrery::tools
