// Attention and MLP with what they keep, need and weigh. See halves.h.
//
// Kept tensors: Korthikanti et al. (arXiv 2205.05198), equations 1 to 6, with e = 2 byte activations and one-byte
// dropout masks: a layer keeps s b h (10 + 24/t + 5 a s / (h t)); with sequence parallelism s b h / t (34 + 5 a s / h);
// the last term goes with fused attention (which keeps the log-sum-exp of each row in fp32 instead; Dao, arXiv
// 2307.08691) and with selective recompute; full recompute keeps the input, 2 s b h.
#include "workloads/model/halves.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "sim/real.h"

namespace orrery::workloads {

namespace {

using calibration::Streaming;

using sim::real;

/// Weights and the biases of column-parallel layers are split; norms and the biases after a reduction are copied.
double norms_of_half(const Model& model) { return real(model.norm_parameters()) * (model.post_norm ? 2 : 1); }

/// The norms of a half: as many tensors as they have parameters for each element of a hidden state.
Weights norm_weights(const char* name, const Model& model, const Sizes& sizes) {
  Weights weights{name, norms_of_half(model) / real(sizes.tensor_in)};
  weights.tensors = static_cast<std::int32_t>(norms_of_half(model) / real(model.hidden));
  return weights;
}

/// What a half that begins with a norm keeps of its input, and of the dropout behind it.
void keep_ends(const LayerWriter& writer, Half half, KeptAs input, Layer& layer) {
  const double outside = writer.sizes().outside, e = writer.element();
  const double linear_input = writer.style().linear.keeps_gathered_inputs ? writer.sizes().hidden : outside;
  const bool norm_again = writer.computation().again(&RecomputedParts::norms);
  layer.kept.push_back({"norm input", outside, e, half, input});
  layer.kept.push_back(
      {"linear input", linear_input, kept_input(writer), half, norm_again ? KeptAs::recomputed : KeptAs::tensor, true});
  layer.kept.push_back({"dropout mask", outside, writer.style().dropout ? 1.0 : 0.0, half});
}

void keep_post_norm(const LayerWriter& writer, Half half, Layer& layer) {
  if (writer.model().post_norm)
    layer.kept.push_back({"post norm input", writer.sizes().outside, writer.element(), half});
}

}  // namespace

double kept_input(const LayerWriter& writer) {
  const DataType type = writer.computation().precision.matmul;
  return calibration::is_quantised(type) ? calibration::operand_bytes(type) : writer.element();
}

double kept_activation_input(const LayerWriter& writer) {
  const Computation& computation = writer.computation();
  return computation.adapters.fp8_activation_input || computation.style.linear.fp8_activation_input ? 1
                                                                                                    : writer.element();
}

// ---- attention ----

std::vector<MatMul> AttentionHalf::products() const {
  if (m_.parallel_block || !style_.linear.queries.separate())
    return {w_.product("qkv", z_.q + z_.gate + z_.kv_made + z_.values_made, z_.width)};
  if (m_.attention.shares_keys) return {w_.product("query", z_.q + z_.gate, z_.width)};
  std::vector<MatMul> apart{w_.product("query", z_.q + z_.gate, z_.width), w_.product("key", z_.kv, z_.width)};
  if (!m_.attention.key_is_value) apart.push_back(w_.product("value", z_.values, z_.width));
  return apart;
}

bool AttentionHalf::adds_bias() const { return m_.biases != Biases::none && !style_.linear.bias_in_gemm; }

StreamingOp AttentionHalf::bias() const { return {"add qkv bias", Streaming::accumulate, qkv_elements(), 2 * e_}; }

void AttentionHalf::bias_gradient() {
  if (adds_bias()) w_.backward("qkv bias gradient", Streaming::accumulate, qkv_elements(), e_);
}

/// Parts of every group's channels, which have gaps between them. Keys without a norm go to the rotation as they lie.
void AttentionHalf::part_queries() {
  if (style_.linear.queries.layers != calibration::QueryLayers::parted || z_.kv_heads >= z_.heads) return;
  if (m_.attention.shares_keys) return;
  const double copied = z_.of_token(z_.q + (m_.attention.qk_norm ? z_.kv : 0) + z_.values);
  w_.backward("join gradients of queries, keys and values", Streaming::copy, qkv_elements(), 2 * e_);
  w_.forward("part queries from keys and values", Streaming::strided, copied, 2 * e_);
}

/// Where a recipe takes packed documents one by one, queries go first, then keys: each time the host reads from the
/// device where documents end.
void rotate(LayerWriter& writer, double queries, double keys) {
  const Model::Attention& attention = writer.model().attention;
  const double tokens = real(writer.sizes().tokens * writer.split().context), document = real(attention.document);
  const double documents = document > 0 ? std::max(1.0, std::round(tokens / document)) : 1;
  const bool one_by_one = documents > 1 && rotates_by_document(writer);
  const auto run = [&](double q, double kv) {
    writer.run({calibration::RecipePart::rotary,
                {{"q", q},
                 {"kv", kv},
                 {"e", writer.element()},
                 {"factor", attention.rotary_factor != 1 ? 1 : 0},
                 {"packed", one_by_one ? documents : 0}}});
  };
  if (!one_by_one) return run(queries, keys);
  for (const auto& [q, kv] : {std::pair{queries, 0.0}, std::pair{0.0, keys}}) {
    writer.add(RunEnd{true});
    for (double done = 0; done < documents; ++done) run(q / documents, kv / documents);
  }
}

bool rotates_by_document(const LayerWriter& writer) {
  const calibration::Recipe& recipe = writer.style().recipes.of(calibration::RecipePart::rotary);
  return !recipe.forward.empty() && calibration::reads(recipe, "packed");
}

void AttentionHalf::rotate() {
  if (m_.positions == Positions::rotary) workloads::rotate(w_, z_.of_token(z_.q), z_.of_token(keys_made()));
}

void AttentionHalf::norm_queries_and_keys() {
  if (!m_.attention.qk_norm) return;
  for (const auto& [name, name_backward, width] :
       {std::tuple{"key norm", "key norm backward", keys_made()}, {"query norm", "query norm backward", z_.q}}) {
    if (width == 0) continue;
    w_.backward(name_backward, Streaming::layer_norm_backward, z_.of_token(width), 3 * e_);
    w_.forward(name, Streaming::layer_norm, z_.of_token(width), 2 * e_);
  }
}

/// How far queries see, `window` beyond which layers of the model see nothing (0: all): no farther than their document.
/// Left out: that a sliding window is shorter at the begin of each.
void set_reach(AttentionOp& a, std::int64_t window, const Model::Attention& attention) {
  const std::int64_t document = attention.document;
  a.window = {window, window > 0 && attention.chunked};
  if (document == 0 || document >= a.seq) return;
  if (a.context > 1 && !a.by_heads) {  // each document's blocks are shared out and go round by themselves
    a.batch *= a.seq / document;
    a.seq = document;
  } else if (window == 0 || window >= document || attention.chunked) {
    a.window = {window == 0 ? document : std::min(window, document), true};
  }
}

AttentionOp attention_op(const LayerWriter& writer, std::int64_t heads, std::int64_t kv_heads, std::int64_t head_dim,
                         std::int64_t window) {
  const Split& split = writer.split();
  const Computation& computation = writer.computation();
  AttentionOp a;
  a.batch = split.micro_batch;
  a.seq = writer.model().seq;
  a.context = split.context;
  a.heads = heads;
  a.kv_heads = kv_heads;
  a.head_dim = head_dim;
  a.fused = computation.attention == AttentionKind::flash;
  a.ring = split.context_method == ContextMethod::ring;
  a.by_heads = split.context > 1 && split.context_method == ContextMethod::all_to_all;
  set_reach(a, window, writer.model().attention);
  const Positions positions = writer.model().positions;
  a.position_bias = positions == Positions::alibi || positions == Positions::relative;
  a.causal = !writer.model().attention.bidirectional;
  a.dropout = writer.style().dropout;
  a.recomputed = computation.again(&RecomputedParts::core_attention);
  a.type = computation.precision.activations;
  a.style = computation.attention_style;
  a.way = &computation.style.recipes.of(calibration::RecipePart::attention_in);
  a.order = &computation.style.recipes.of(calibration::RecipePart::head_exchange);
  const std::int64_t document = writer.model().attention.document;
  if (document > 0) a.documents = std::max<std::int64_t>(1, std::llround(real(a.seq) / real(document)));
  if (a.style.attention_kernel == calibration::AttentionKernel::fused_fp8 && !writer.quantised())
    a.style.attention_kernel = calibration::AttentionKernel::fused;
  return a;
}

/// More ranks than heads of keys: what their products make is gathered whole, of which each takes its queries and the
/// head of keys that these share (NVIDIA/Megatron-LM, megatron/core/transformer/attention.py,
/// get_query_key_value_tensors). Shards are put side by side behind the gather, gradients apart ahead of their scatter.
void AttentionHalf::gather_heads() {
  if (z_.kv_made == z_.kv || m_.attention.shares_keys) return;
  const std::int64_t gate = m_.attention.output_gate ? m_.output_width() : 0;
  const double elements = z_.of_token(m_.attention_width() + gate + m_.kv_made());
  w_.add(CommOp{CommGroup::tensor, Exchange::all_gather, elements, e_, "queries, keys and values, forward",
                "query, key and value gradients, backward", CommOverlap::none, CommOverlap::none});
  w_.backward("put gradients in order of ranks", Streaming::copy, elements, 2 * e_);
  w_.forward("put heads side by side", Streaming::copy, elements, 2 * e_);
}

bool AttentionHalf::repeats_keys() const {
  return w_.computation().attention_style.repeats_keys() && z_.kv_heads < z_.heads;
}

/// Reads keys and values and writes them once for every query that shares them; backward sums over these.
void AttentionHalf::repeat_keys() {
  if (!repeats_keys()) return;
  const double elements = z_.of_token(z_.q + z_.out), read = e_ * real(z_.kv) / real(z_.q);
  w_.backward("sum repeated gradients", Streaming::copy, elements, e_ + read);
  w_.forward("repeat keys and values", Streaming::copy, elements, e_ + read);
}

void AttentionHalf::attention(std::int64_t window) {
  if (m_.attention.sparse.any()) {
    ChosenKeys keys = chosen_keys();
    keys.choose(0);
    return keys.attend();
  }
  repeat_keys();
  if (m_.attention.shares_keys)
    w_.backward("add shared key and value gradients", Streaming::accumulate, z_.of_token(z_.kv + z_.values), 3 * e_);
  w_.add(attention_op(w_, z_.heads, repeats_keys() ? z_.heads : z_.kv_heads, m_.mean_head_dim(), window));
  if (!copies_output()) return;
  if (w_.computation().attention_style.output_copy == calibration::OutputCopy::made_again)
    w_.backward("copy attention output again", Streaming::copy, z_.of_token(z_.out), 2 * e_);
  w_.forward("copy attention output", Streaming::copy, z_.of_token(z_.out), 2 * e_);
}

/// Sequences and tokens change places; of one sequence nothing moves.
bool AttentionHalf::copies_output() const {
  return w_.computation().attention_style.output_copy != calibration::OutputCopy::none && w_.split().micro_batch > 1;
}

void AttentionHalf::gate_output() {
  if (z_.gate == 0) return;
  w_.backward("output gate backward", Streaming::gelu_backward, z_.of_token(z_.gate), 5 * e_);
  w_.forward("output gate", Streaming::gelu, z_.of_token(z_.gate), 3 * e_);
}

void AttentionHalf::cast_output() {
  w_.find_scales(Direction::forward, true);
  w_.cast(z_.shared(m_.output_width()), "cast attention output", Direction::forward);
}

void AttentionHalf::write(std::int64_t window) {
  w_.half_norm(products().size());
  w_.cast_input();
  mix(window);
  w_.bias_dropout_residual();
}

void AttentionHalf::mix(std::int64_t window) {
  w_.again(&RecomputedParts::qkv,
           [&] { w_.column(products(), w_.enter(), LinearOp::Part::attention_in, style_.linear.queries.separate()); });
  bias_gradient();
  if (adds_bias()) w_.add(bias());
  w_.again(&RecomputedParts::qkv, [&] { gather_heads(); });
  w_.views(0.5, Direction::forward);
  w_.views(0.5, Direction::backward);
  cast_gradients();
  part_queries();
  norm_queries_and_keys();
  rotate();
  attention(window);
  gate_output();
  cast_output();
  w_.again(&RecomputedParts::attention_out, [&] { project(); });
  w_.leave();
}

void AttentionHalf::keep(Layer& layer) const {
  const double t = z_.parts();
  const double q = z_.of_token(m_.attention_width()) / t, kv = z_.of_token(z_.kv);
  const double out = z_.of_token(m_.output_width()) / t, kv_both = z_.of_token(z_.kv + z_.values);
  const bool makes_keys = !m_.attention.shares_keys;  // else the layer ahead that made them keeps them
  const double rows = real(m_.attention.heads) / t * real(z_.tokens), outside = z_.outside;
  const bool fused = w_.computation().attention == AttentionKind::flash;
  keep_ends(w_, kAttention, KeptAs::input, layer);
  const KeptAs made = w_.computation().again(&RecomputedParts::qkv) ? KeptAs::recomputed : KeptAs::tensor;
  layer.kept.push_back({"queries", q, e_, kAttention, made});
  // A region that is run again keeps what it made for what reads it, but where that runs again too, or where nothing is
  // kept that can be made.
  const bool core_again = w_.computation().again(&RecomputedParts::core_attention);
  const bool out_again = w_.computation().again(&RecomputedParts::attention_out);
  const bool output_again = core_again && (out_again || style_.linear.recomputes_needed_only);
  const KeptAs output = output_again ? KeptAs::recomputed : KeptAs::tensor;
  layer.kept.push_back({"attention output", out, e_, kAttention, output});
  if (makes_keys) layer.kept.push_back({"keys and values", repeats_keys() ? q + out : kv_both, e_, kAttention, made});
  const calibration::AttentionStyle& style = w_.computation().attention_style;
  if (style.key_copies == calibration::KeyCopies::apart && z_.kv_heads == z_.heads)
    layer.kept.push_back({"first copy of keys and values", kv_both, e_, kAttention, made});
  if (copies_output() && style.output_copy == calibration::OutputCopy::kept)
    layer.kept.push_back({"copy of attention output", out, e_, kAttention, output});
  if (calibration::is_quantised(w_.computation().precision.matmul))
    layer.kept.push_back({"cast attention output", out, kept_input(w_), kAttention, output, true});
  if (m_.attention.qk_norm)
    layer.kept.push_back({"query and key norm inputs", q + (makes_keys ? kv : 0), e_, kAttention});
  if (z_.gate > 0) layer.kept.push_back({"output gate and gated output", 2 * out, e_, kAttention});
  if (m_.attention.sparse.any()) {
    chosen_keys().keep(layer);
  } else if (fused) {
    layer.kept.push_back(
        {"log-sum-exp of scores", rows, 4, kAttention, core_again ? KeptAs::recomputed : KeptAs::tensor});
  } else {  // softmax, its dropout mask and output
    layer.kept.push_back({"scores", rows * real(m_.seq), style_.dropout ? 2 * e_ + 1 : e_, kAttention,
                          core_again ? KeptAs::recomputed : KeptAs::tensor});
  }
  keep_post_norm(w_, kAttention, layer);
  // Gradients of q, k, v and the output; fused kernels add up q's in fp32, others hold two of the scores.
  layer.working.push_back({"residual gradients", 2 * outside, e_, kAttention});
  layer.working.push_back({"gradients of queries and output", q + out, e_, kAttention});
  layer.working.push_back({"gradients of keys and values", kv_both, e_, kAttention});
  const Working of_chosen{"key and value gradients in fp32", kv_both, 4, kAttention};
  layer.working.push_back(m_.attention.sparse.any() ? of_chosen
                          : fused                   ? Working{"query gradient in fp32", q, 4, kAttention}
                                  : Working{"gradients of scores", 2 * rows * real(m_.seq), e_, kAttention});
  // Of qkv and projection: inputs, then gradients of the outputs.
  layer.between.push_back({"attention's linear inputs", outside + out, kept_input(w_)});
  layer.between.push_back({"attention's linear output gradients", outside + q + kv_both, kept_input(w_)});
}

void AttentionHalf::weigh(Layer& layer) const {
  const double t = z_.parts(), h = real(z_.width), q = real(m_.attention_width()), kv = real(m_.kv_width());
  const double out = real(m_.output_width()), made = m_.attention.output_gate ? q + out : q;
  if (style_.linear.queries.separate()) {
    layer.weights.push_back({"query", made * h / t, h});
    const bool makes_keys = !m_.attention.shares_keys;
    if (makes_keys) layer.weights.push_back({"key", kv * h / t, h});
    if (makes_keys && !m_.attention.key_is_value)
      layer.weights.push_back({"value", real(m_.values_width()) * h / t, h});
  } else {
    layer.weights.push_back({"qkv", (made + real(m_.kv_made())) * h / t, h});
  }
  layer.weights.push_back({"attention projection", out * h / t, out / t});
  if (m_.biases != Biases::none) layer.weights.push_back({"qkv bias", (made + real(m_.kv_made())) / t});
  if (w_.has_biases()) layer.weights.push_back({"attention projection bias", h});
  layer.weights.push_back(norm_weights("attention norms", m_, z_));
  if (m_.attention.qk_norm) layer.weights.push_back({"query and key norms", real(m_.qk_norm_parameters())});
  if (m_.attention.sparse.any()) chosen_keys().weigh(layer, 0);
}

ChosenKeys AttentionHalf::chosen_keys() const { return {w_, {z_.heads, m_.head_dim(), m_.head_dim(), 2 * z_.kv}}; }

// ---- MLP ----

std::vector<MatMul> FeedForwardHalf::up_products() const {
  if (!m_.mlp.gated || !style_.linear.separate_gate) return {up()};
  return {w_.product("mlp gate", z_.ffn, z_.width), w_.product("mlp up", z_.ffn, z_.width)};
}

/// All move the same bytes: each is one kernel over what the up projection made.
std::pair<const char*, const char*> activation_names(const Model& model) {
  switch (model.mlp.activation) {
    case Activation::squared_relu:
      return {"squared relu", "squared relu backward"};
    case Activation::swiglu:
      return {"swiglu", "swiglu backward"};
    case Activation::relu:
      return model.mlp.gated ? std::pair{"reglu", "reglu backward"} : std::pair{"relu", "relu backward"};
    case Activation::gelu:
      break;
  }
  if (model.mlp.gated) return {"geglu", "geglu backward"};
  return {"gelu", "gelu backward"};
}

calibration::RecipeSizes FeedForwardHalf::activation_sizes() const {
  return {calibration::RecipePart::activation,
          {{"ffn", z_.shared(m_.mlp.hidden)},
           {"gates", m_.mlp.gated ? 2 : 1},
           {"e", e_},
           {"cast", w_.fused_cast(LayerWriter::Maker::activation)},
           {"made", w_.backward_makes_activation() ? e_ : 0},
           {"gated", m_.mlp.gated},
           {"squared", m_.mlp.activation == Activation::squared_relu},
           {"bias", w_.has_biases()},
           {"bias_in_gemm", style_.linear.bias_in_gemm}}};
}

void FeedForwardHalf::activation() {
  const auto [name, name_backward] = activation_names(m_);
  w_.run(activation_sizes(), {{"activation", name}, {"activation backward", name_backward}});
}

void FeedForwardHalf::cast_activation() {
  w_.find_scales(Direction::forward, true);
  w_.cast(z_.shared(m_.mlp.hidden), "cast activation", Direction::forward, LayerWriter::Maker::activation);
}

void FeedForwardHalf::write() {
  w_.half_norm(up_products().size());
  w_.cast_input();
  const bool whole = w_.computation().again(&RecomputedParts::mlp);
  w_.again(&RecomputedParts::mlp, [&] {
    w_.column(up_products(), w_.enter(), LinearOp::Part::mlp_in);
    w_.views(0.5, Direction::backward);
    cast_gradients();
    const auto activate = [&] {
      if (w_.backward_makes_activation()) ahead_of_down_ = w_.size();
      activation();
      cast_activation();
    };
    if (whole)
      activate();
    else
      w_.again(&RecomputedParts::activation, activate);
  });
  w_.views(0.5, Direction::forward);
  if (!w_.backward_makes_activation()) ahead_of_down_ = w_.size();
  if (makes_last_product_again(m_, style_.linear))
    w_.again(&RecomputedParts::mlp_down, [&] { down(); });
  else
    down();
  w_.leave();
  w_.bias_dropout_residual();
}

void FeedForwardHalf::keep(Layer& layer, Reads reads) const {
  const double t = z_.parts(), ffn = z_.of_token(m_.mlp.hidden) / t, branches = m_.mlp.gated ? 3 : 2;
  const double outside = z_.outside;
  if (reads == Reads::own_norm) {
    // The sum behind attention, which its projection and the block's input make.
    const bool made_again = w_.computation().again(&RecomputedParts::attention_out);
    keep_ends(w_, kFeedForward, made_again ? KeptAs::recomputed : KeptAs::tensor, layer);
    keep_post_norm(w_, kFeedForward, layer);
  }
  const bool again = w_.computation().again(&RecomputedParts::mlp);
  const KeptAs as = again ? KeptAs::recomputed : KeptAs::tensor;
  const double up_bytes = kept_activation_input(w_);
  const bool activated = again || w_.computation().again(&RecomputedParts::activation);
  // The gradient of a ReLU follows from its output, which the down projection keeps unless it casts it.
  const bool from_output = m_.mlp.activation == Activation::relu && !m_.mlp.gated && !activated &&
                           !calibration::is_quantised(w_.computation().precision.matmul);
  if (!from_output) layer.kept.push_back({"up projection", (branches - 1) * ffn, up_bytes, kFeedForward, as});
  layer.kept.push_back(
      {"activation", ffn, kept_input(w_), kFeedForward, activated ? KeptAs::recomputed : KeptAs::tensor, true});
  w_.keep(activation_sizes(), kFeedForward, layer);
  layer.working.push_back({"residual gradients", 2 * outside, e_, kFeedForward});
  layer.working.push_back({"gradients of up projection and activation", branches * ffn, e_, kFeedForward});
  layer.working.push_back(
      {"weight gradient", real(z_.width) * real(m_.mlp.hidden) / t, w_.own_gradient(), kFeedForward, true});
  // Of up and down: inputs, then gradients of the outputs.
  layer.between.push_back({"MLP's linear inputs", outside + ffn, kept_input(w_)});
  layer.between.push_back({"MLP's linear output gradients", outside + ffn * (branches - 1), kept_input(w_)});
}

void FeedForwardHalf::weigh(Layer& layer) const {
  const double t = z_.parts(), h = real(z_.width), f = real(m_.mlp.hidden), up = m_.mlp.gated ? 2 : 1;
  layer.weights.push_back({"mlp up", up * f * h / t, h});
  layer.weights.push_back({"mlp down", f * h / t, f / t});
  if (w_.has_biases()) {
    layer.weights.push_back({"mlp up bias", up * f / t});
    layer.weights.push_back({"mlp down bias", h});
  }
  if (!m_.parallel_block) layer.weights.push_back(norm_weights("mlp norms", m_, z_));
}

}  // namespace orrery::workloads
