// See hf_operators.h. Kernels are those of transformers' and of the mixers' own libraries: LFM2's convolution with two
// gates (models/lfm2, Lfm2ShortConv: one product to gates and input, three taps a channel, one product back); Mamba-1
// (arXiv 2312.00752, algorithm 2; models/jamba, JambaMambaMixer, with norms of step, B and C; state-spaces/mamba,
// selective_scan_interface.py, which keeps what its products made and computes the states again). Its scan's FLOPs are
// nine a channel, state and token (state-spaces/mamba, issue 110).
//
// Left out: what the scan's exponentials take beyond bytes and products; tensor ranks of Mamba-1, whose steps, B and C
// come from a sum over channels (refused).
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
       fmt::format("{{op: elementwise, name: convolution, reads: {0}, writes: {0}, keeps: {0}, weights: {1}}}", h,
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

// ---- Jamba ----

/// Products run whole: a product's sum over channels makes steps, B and C.
void put_mamba1(Config& config, Draft& draft) {
  const std::int64_t h = config.count(config.need({"hidden_size"})), d = number_of(config, "mamba_expand", 2) * h,
                     n = number_of(config, "mamba_d_state", 16), taps = number_of(config, "mamba_d_conv", 4);
  const Settings* rank = config.find("mamba_dt_rank");
  const bool given = rank != nullptr && !rank->is_null() && rank->text() != "auto";
  const std::int64_t r = given ? rank->as_int(1, 1'000'000) : (h + 15) / 16;
  const std::int64_t conv_bias = config.flag("mamba_conv_bias", true) ? d : 0;
  const bool biased = config.flag("mamba_proj_bias", false);
  const std::int64_t thin = r + 2 * n;
  put_operators(
      draft, "M",
      {"{op: norm}",
       fmt::format("{{op: product, name: in_proj, in: {}, out: {}, weights: {}}}", h, 2 * d, biased ? 2 * d : 0),
       fmt::format("{{op: elementwise, name: convolution, reads: {0}, writes: {0}, keeps: {0}, weights: {1}}}", d,
                   d * taps + conv_bias),
       fmt::format("{{op: product, name: x_proj, in: {}, out: {}}}", d, thin),
       fmt::format(
           "{{op: elementwise, name: norms of step and B and C, reads: {0}, writes: {0}, keeps: {0}, weights: {0}}}",
           thin),
       fmt::format("{{op: product, name: dt_proj, in: {}, out: {}, weights: {}}}", r, d, d),
       // Input, step, gate, B and C; A in fp32, D and the states are of channels, not of tokens.
       fmt::format("{{op: matmul, name: selective_scan, flops: {}, reads: {}, writes: {}, keeps: {}}}", 9 * d * n,
                   3 * d + 2 * n, d, 2 * d),
       fmt::format("{{op: elementwise, name: decays, reads: 1, writes: 1, weights: {}}}", d * n + d),
       fmt::format("{{op: product, name: out_proj, in: {}, out: {}, weights: {}}}", d, h, biased ? h : 0),
       "{op: residual}"});
}

void jamba(Config& config, Draft& draft) {
  config.assume("max_position_embeddings", 262144);
  take_model(config, draft, "none");
  put_mamba1(config, draft);
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
  draft.ignored("mamba", "Mamba-1 runs by its operators, whole on every tensor rank: parallelism.tensor: 1");
}

}  // namespace

const std::vector<std::pair<const char*, void (*)(Config&, Draft&)>>& hf_of_operators() {
  static const std::vector<std::pair<const char*, void (*)(Config&, Draft&)>> kFamilies{
      {"lfm2", lfm2_dense}, {"lfm2_moe", lfm2_moe}, {"jamba", jamba}};
  return kFamilies;
}

}  // namespace orrery::tools
