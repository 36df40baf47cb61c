// See hf_operators.h. Kernels are those of transformers' and of the mixers' own libraries: LFM2's convolution with two
// gates (models/lfm2, Lfm2ShortConv: one product to gates and input, three taps a channel, one product back); Mamba-1
// (arXiv 2312.00752, algorithm 2; models/jamba, JambaMambaMixer, with norms of step, B and C; state-spaces/mamba,
// selective_scan_interface.py, which keeps what its products made and computes the states again). Its scan's FLOPs are
// nine a channel, state and token (state-spaces/mamba, issue 110).
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

}  // namespace

const std::vector<std::pair<const char*, void (*)(Config&, Draft&)>>& hf_of_operators() {
  static const std::vector<std::pair<const char*, void (*)(Config&, Draft&)>> kFamilies{
      {"lfm2", lfm2_dense}, {"lfm2_moe", lfm2_moe}, {"jamba", jamba}, {"mamba", mamba}, {"falcon_mamba", falcon_mamba}};
  return kFamilies;
}

}  // namespace orrery::tools
