// See hf_diffusers.h. Names of keys, their defaults and what stands in a block are those of diffusers' classes
// (src/diffusers/models/transformers: transformer_flux.py, transformer_flux2.py, transformer_qwenimage.py,
// transformer_hunyuan_video.py, transformer_wan.py). No file says how large pictures are: those that a model is known
// for are taken, 1024 x 1024 with 512 tokens of text, 81 frames of 480 x 832 (Wan), 129 of 720 x 1280 (HunyuanVideo).
// Products of a text run on its share of a sequence, modulation once a sequence.
//
// Left out: encoders of texts and pictures ahead of it, and inputs of pictures beside text (image_dim).
#include "tools/import/hf_diffusers.h"

#include <algorithm>

#include "tools/import/hf_blocks.h"

namespace orrery::tools {

namespace {

/// The operators of one block, line by line.
class BlockLines {
 public:
  explicit BlockLines(bool biased) : biased_(biased) {}

  /// `cut`: none, out or in. `share`: of a sequence's tokens.
  void product(const std::string& name, std::int64_t in, std::int64_t out, const char* cut, double share) {
    lines_.push_back(fmt::format("{{op: product, name: {}, in: {}, out: {}, cut: {}, share: {:.17g}, weights: {}}}",
                                 name, in, out, cut, share, biased_ ? out : 0));
  }
  /// A kernel that reads and writes so much of a token.
  void kernel(const char* name, std::int64_t reads, std::int64_t writes, std::int64_t backward, std::int64_t keeps,
              std::int64_t weights = 0) {
    lines_.push_back(
        fmt::format("{{op: elementwise, name: {}, reads: {}, writes: {}, backward: {}, keeps: {}, weights: {}}}", name,
                    reads, writes, backward, keeps, weights));
  }
  void modulated_norm(std::int64_t h) { kernel("norm and modulation", h, h, 4 * h, h); }
  /// What modulation lets through is added.
  void gated_sum(std::int64_t h) {
    kernel("gate", h, h, 3 * h, h);
    sum();
  }
  void sum() { lines_.emplace_back("{op: residual}"); }
  void attention(std::int64_t heads, std::int64_t dim) {
    lines_.push_back(fmt::format("{{op: attention, heads: {}, head_dim: {}, causal: false}}", heads, dim));
  }
  /// Norms of queries and keys, of so many parameters, and their rotation.
  void turned(std::int64_t h, std::int64_t weights) {
    kernel("norms of queries and keys", 2 * h, 2 * h, 6 * h, 2 * h, weights);
    kernel("rotary", 2 * h, 2 * h, 4 * h, 0);
  }
  /// Queries of all tokens meet so many keys of another sequence.
  void across(std::int64_t h, std::int64_t keys) {
    lines_.push_back(
        fmt::format("{{op: matmul, name: attention to the text, flops: {}, reads: {}, writes: {}, keeps: "
                    "{}}}",
                    4 * keys * h, h, h, 2 * h));
  }
  void copy(const char* name, std::int64_t elements) {
    lines_.push_back(fmt::format("{{op: copy, name: {0}, reads: {1}, writes: {1}}}", name, elements));
  }
  void put(Draft& draft, const char* name) const {
    draft.set(fmt::format("model.mixers.{}.kind", name), std::string("operators"));
    draft.apply(fmt::format("model.mixers.{}.run=[{}]", name, fmt::join(lines_, ", ")));
  }

 private:
  bool biased_;
  std::vector<std::string> lines_;
};

/// Sizes that all classes have, and what share of a sequence is a picture's and a text's.
struct Picture {
  std::int64_t heads, dim, hidden, seq;
  double image, text, once;
};

Picture take_picture(Config& config, Draft& draft, std::int64_t image, std::int64_t text, const char* what) {
  Picture p{};
  p.heads = config.count(config.need({"num_attention_heads"}));
  p.dim = config.count(config.need({"attention_head_dim"}));
  p.hidden = p.heads * p.dim;
  p.seq = image + text;
  p.image = static_cast<double>(image) / static_cast<double>(p.seq);
  p.text = static_cast<double>(text) / static_cast<double>(p.seq);
  p.once = 1 / static_cast<double>(p.seq);
  draft.set("model.hidden", p.hidden);
  draft.set("model.seq", p.seq);
  draft.assumed("model.seq", fmt::format("{}: {} tokens and {} of a text; for other sizes set the share of operators "
                                         "too",
                                         what, image, text));
  set_shape(draft, false, false, "none", "layer_norm");
  draft.set("model.biases", std::string("none"));
  draft.set("model.activation", std::string("gelu"));
  draft.set("model.tied_embeddings", false);
  for (const char* key :
       {"_diffusers_version", "axes_dims_rope", "rope_axes_dim", "rope_theta", "eps", "patch_size_t", "qk_norm",
        "rope_max_seq_len", "cross_attn_norm", "timestep_guidance_channels", "attention_bias", "zero_cond_t",
        "use_additional_t_cond", "use_layer3d_rope", "pos_embed_seq_len", "image_condition_type"})
    config.find(key);
  return p;
}

std::int64_t times(Config& config, const char* key, double fallback, std::int64_t h) {
  const Settings* ratio = config.find(key);
  const double value = ratio == nullptr || ratio->is_null() ? fallback : ratio->as_number(0.1, 1000);
  return static_cast<std::int64_t>(value * static_cast<double>(h));
}

/// Blocks with weights of their own for a picture and a text, whose tokens attend to each other (MM-DiT, arXiv
/// 2403.03206). `inside`: of the MLP; `gated`: of two products; `modulates`: itself.
void put_double(Draft& draft, const Picture& p, std::int64_t inside, bool gated, bool modulates, bool biased) {
  BlockLines d(biased);
  const std::int64_t h = p.hidden, up = gated ? 2 * inside : inside;
  if (modulates) {
    d.product("img_mod", h, 6 * h, "none", p.once);
    d.product("txt_mod", h, 6 * h, "none", p.once);
  }
  d.modulated_norm(h);
  d.product("img_qkv", h, 3 * h, "out", p.image);
  d.product("txt_qkv", h, 3 * h, "out", p.text);
  d.turned(h, 4 * p.dim);
  d.attention(p.heads, p.dim);
  d.product("img_proj", h, h, "in", p.image);
  d.product("txt_proj", h, h, "in", p.text);
  d.gated_sum(h);
  d.modulated_norm(h);
  d.product("img_mlp_up", h, up, "out", p.image);
  d.product("txt_mlp_up", h, up, "out", p.text);
  d.kernel("activation", up, inside, gated ? 2 * up + inside : 3 * inside, up);
  d.product("img_mlp_down", inside, h, "in", p.image);
  d.product("txt_mlp_down", inside, h, "in", p.text);
  d.gated_sum(h);
  d.put(draft, "D");
}

/// Blocks of one stream whose attention and MLP share their products.
void put_single(Draft& draft, const Picture& p, std::int64_t inside, bool gated, bool modulates, bool biased) {
  BlockLines s(biased);
  const std::int64_t h = p.hidden, up = gated ? 2 * inside : inside;
  if (modulates) s.product("modulation", h, 3 * h, "none", p.once);
  s.modulated_norm(h);
  s.product("linear1", h, 3 * h + up, "out", 1);
  s.turned(h, 2 * p.dim);
  s.attention(p.heads, p.dim);
  s.kernel("activation", up, inside, gated ? 2 * up + inside : 3 * inside, up);
  s.copy("attention beside the MLP", h + inside);
  s.product("linear2", h + inside, h, "in", 1);
  s.gated_sum(h);
  s.put(draft, "S");
}

/// Embeddings of the step and of what else runs once a picture, of the text, and the last modulation.
void embed_once(BlockLines& c, const Picture& p, const char* name, std::int64_t in) {
  c.product(fmt::format("{}_in", name), in, p.hidden, "none", p.once);
  c.product(fmt::format("{}_out", name), p.hidden, p.hidden, "none", p.once);
}

void put_stream(Config& config, Draft& draft, const char* blocks) {
  const auto repeat = [&](const char* name, const char* key) {
    return fmt::format("{{pattern: {}, repeat: {}}}", name, config.count(config.need({key})));
  };
  std::string list = "C";
  for (const char* at = blocks; *at != '\0'; ++at)
    list += ", " + repeat(std::string(1, *at).c_str(), *at == 'S' ? "num_single_layers" : "num_layers");
  draft.apply(fmt::format("model.blocks=[{}]", list));
}

constexpr std::int64_t kSquare = 4096, kText = 512, kSteps = 256;  // tokens; numbers that embed a step

void flux(Config& config, Draft& draft) {
  const Picture p = take_picture(config, draft, kSquare, kText, "a picture of 1024 x 1024");
  const std::int64_t h = p.hidden;
  draft.set("model.vocab", config.count(config.need({"in_channels"})));
  BlockLines c(true);
  embed_once(c, p, "time", kSteps);
  if (config.flag("guidance_embeds", false)) embed_once(c, p, "guidance", kSteps);
  embed_once(c, p, "vector", number_of(config, "pooled_projection_dim", 768));
  c.product("text", number_of(config, "joint_attention_dim", 4096), h, "none", p.text);
  c.product("final modulation", h, 2 * h, "none", p.once);
  c.sum();
  c.put(draft, "C");
  put_double(draft, p, 4 * h, false, true, true);
  put_single(draft, p, 4 * h, false, true, true);
  for (const char* key : {"patch_size", "out_channels"}) config.find(key);
  put_stream(config, draft, "DS");
}

/// All blocks share the products of their modulation; MLPs have a gate, nothing has a bias.
void flux2(Config& config, Draft& draft) {
  const Picture p = take_picture(config, draft, kSquare, kText, "a picture of 1024 x 1024");
  const std::int64_t h = p.hidden, inside = times(config, "mlp_ratio", 3, h);
  draft.set("model.vocab", config.count(config.need({"in_channels"})));
  BlockLines c(false);
  embed_once(c, p, "time", kSteps);
  if (config.flag("guidance_embeds", true)) embed_once(c, p, "guidance", kSteps);
  c.product("img_mod", h, 6 * h, "none", p.once);
  c.product("txt_mod", h, 6 * h, "none", p.once);
  c.product("single_mod", h, 3 * h, "none", p.once);
  c.product("text", number_of(config, "joint_attention_dim", 15360), h, "none", p.text);
  c.product("final modulation", h, 2 * h, "none", p.once);
  c.sum();
  c.put(draft, "C");
  put_double(draft, p, inside, true, false, false);
  put_single(draft, p, inside, true, false, false);
  for (const char* key : {"patch_size", "out_channels"}) config.find(key);
  put_stream(config, draft, "DS");
}

void qwen_image(Config& config, Draft& draft) {
  const Picture p = take_picture(config, draft, kSquare, kText, "a picture of 1024 x 1024");
  const std::int64_t h = p.hidden, text = number_of(config, "joint_attention_dim", 3584);
  draft.set("model.vocab", config.count(config.need({"in_channels"})));
  BlockLines c(true);
  embed_once(c, p, "time", kSteps);
  c.product("text", text, h, "none", p.text);
  c.product("final modulation", h, 2 * h, "none", p.once);
  c.sum();
  c.put(draft, "C");
  put_double(draft, p, 4 * h, false, true, true);
  for (const char* key : {"patch_size", "out_channels", "guidance_embeds", "pooled_projection_dim"}) config.find(key);
  put_stream(config, draft, "D");
}

/// Numbers of a patch: channels, frames and pixels.
std::int64_t patch_of(Config& config, const char* channels) {
  std::int64_t patch = config.count(config.need({channels}));
  const Settings& size = config.need({"patch_size"});
  if (size.is_sequence()) {
    for (const Settings& side : size.items()) patch *= side.as_int(1, 1024);
    return patch;
  }
  const std::int64_t side = size.as_int(1, 1024);
  return patch * side * side * number_of(config, "patch_size_t", 1);
}

/// Ahead of its blocks the text goes through some of its own (HunyuanVideoTokenRefiner).
void hunyuan_video(Config& config, Draft& draft) {
  const Picture p = take_picture(config, draft, 33 * 45 * 80, 256, "129 frames of 720 x 1280");
  const std::int64_t h = p.hidden, inside = times(config, "mlp_ratio", 4, h);
  const std::int64_t text = number_of(config, "text_embed_dim", 4096);
  draft.set("model.vocab", patch_of(config, "in_channels"));
  BlockLines c(true);
  embed_once(c, p, "time", kSteps);
  if (config.flag("guidance_embeds", true)) embed_once(c, p, "guidance", kSteps);
  embed_once(c, p, "vector", number_of(config, "pooled_projection_dim", 768));
  embed_once(c, p, "refiner time", kSteps);
  embed_once(c, p, "refiner text", text);
  c.product("refiner", text, h, "none", p.text);
  for (std::int64_t i = 0; i < std::min<std::int64_t>(64, number_of(config, "num_refiner_layers", 2)); ++i) {
    c.product("refiner qkv", h, 3 * h, "none", p.text);
    c.product("refiner out", h, h, "none", p.text);
    c.product("refiner up", h, inside, "none", p.text);
    c.product("refiner down", inside, h, "none", p.text);
    c.product("refiner gates", h, 2 * h, "none", p.once);
  }
  c.product("final modulation", h, 2 * h, "none", p.once);
  c.sum();
  c.put(draft, "C");
  put_double(draft, p, inside, false, true, true);
  put_single(draft, p, inside, false, true, true);
  config.find("out_channels");
  put_stream(config, draft, "DS");
}

/// Attention of all tokens of a video to each other, then to a text's, and an MLP (arXiv 2503.20314, section 4.2).
void wan(Config& config, Draft& draft) {
  const Picture p = take_picture(config, draft, 21 * 30 * 52, 0, "81 frames of 480 x 832");
  const std::int64_t h = p.hidden, inside = config.count(config.need({"ffn_dim"}));
  const double text = static_cast<double>(kText) * p.once;
  draft.set("model.vocab", patch_of(config, "in_channels"));
  BlockLines c(true);
  embed_once(c, p, "time", number_of(config, "freq_dim", kSteps));
  c.product("time_proj", h, 6 * h, "none", p.once);
  c.product("text_in", number_of(config, "text_dim", 4096), h, "none", text);
  c.product("text_out", h, h, "none", text);
  c.sum();
  c.put(draft, "C");
  BlockLines d(true);
  d.modulated_norm(h);
  d.product("attn1_qkv", h, 3 * h, "out", 1);
  d.turned(h, 2 * h);
  d.attention(p.heads, p.dim);
  d.product("attn1_out", h, h, "in", 1);
  d.gated_sum(h);
  d.kernel("norm ahead of the text", h, h, 3 * h, h, 2 * h);
  d.product("attn2_q", h, h, "out", 1);
  d.product("attn2_kv", h, 2 * h, "out", text);
  d.kernel("norm of queries", h, h, 3 * h, h, 2 * h);
  d.across(h, kText);
  d.product("attn2_out", h, h, "in", 1);
  d.sum();
  d.modulated_norm(h);
  d.product("ffn_up", h, inside, "out", 1);
  d.kernel("activation", inside, inside, 3 * inside, inside);
  d.product("ffn_down", inside, h, "in", 1);
  d.gated_sum(h);
  d.put(draft, "D");
  if (const Settings* pictures = config.find("image_dim"); pictures != nullptr && !pictures->is_null())
    draft.first("image_dim: a picture beside the text, and attention to it; left out");
  for (const char* key : {"added_kv_proj_dim", "out_channels"}) config.find(key);
  put_stream(config, draft, "D");
}

}  // namespace

const std::vector<std::pair<const char*, void (*)(Config&, Draft&)>>& hf_diffusers() {
  static const std::vector<std::pair<const char*, void (*)(Config&, Draft&)>> kClasses{
      {"FluxTransformer2DModel", flux},
      {"Flux2Transformer2DModel", flux2},
      {"QwenImageTransformer2DModel", qwen_image},
      {"HunyuanVideoTransformer3DModel", hunyuan_video},
      {"WanTransformer3DModel", wan},
  };
  return kClasses;
}

}  // namespace orrery::tools
