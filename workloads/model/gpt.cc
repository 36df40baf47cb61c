// The layers of a GPT: operations, and with them what is kept, weighed and needed. See gpt.h for the sources.
//
// Kept tensors: Korthikanti et al. (arXiv 2205.05198), equations 1 to 6, with e = 2 byte activations and one-byte
// dropout masks: a layer keeps s b h (10 + 24/t + 5 a s / (h t)); with sequence parallelism s b h / t (34 + 5 a s / h);
// the last term goes with fused attention (which keeps the log-sum-exp of each row in fp32 instead; Dao, arXiv
// 2307.08691) and with selective recompute; full recompute keeps the input, 2 s b h. The embedding keeps its dropout
// mask, the head its two inputs and the logits: in fp32 where the loss is computed operation by operation on a copy,
// else in 16 bit (section 4.3 there).
#include "workloads/model/gpt.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>
#include <utility>

namespace orrery::workloads {

namespace {

using calibration::Streaming;

double d(std::int64_t x) { return static_cast<double>(x); }

/// Sizes on one rank. Tokens are those of the micro-batch; outside the tensor-parallel regions sequence parallelism
/// leaves a rank `outside` elements of a hidden state.
struct Sizes {
  Sizes(const Model& m, const Split& s, const Computation& c)
      : tensor(s.tensor),
        tokens(s.micro_batch * (m.seq / s.context)),
        heads(m.heads / s.tensor),
        kv_heads(std::max<std::int64_t>(1, m.kv_heads / s.tensor)),
        q(m.attention_width() / s.tensor),
        kv(kv_heads * m.head_dim()),
        ffn(m.ffn_hidden / s.tensor),
        vocab(padded_vocab(m.vocab, s.tensor, c.style.pads_vocabulary) / s.tensor),
        sequence_parallel(s.sequence_parallel && s.tensor > 1),
        hidden(d(tokens) * d(m.hidden)),
        outside(d(tokens) / d(sequence_parallel ? s.tensor : 1) * d(m.hidden)) {}
  std::int64_t tensor, tokens, heads, kv_heads;
  std::int64_t q, kv, ffn, vocab;  // widths: queries and attention output, keys, inside of the MLP, logits
  bool sequence_parallel;
  double hidden, outside;  // elements
  double of_token(std::int64_t width) const { return d(tokens) * d(width); }
  double shared(std::int64_t whole_width) const { return d(tokens) * d(whole_width) / d(tensor); }
};

class Builder {
 public:
  Builder(const Model& model, const Split& split, const Computation& computation)
      : m_(model),
        split_(split),
        c_(computation),
        style_(computation.style),
        z_(model, split, computation),
        e_(calibration::bytes_of(computation.precision.activations)),
        operand_(calibration::operand_bytes(computation.precision.matmul)),
        quantised_(calibration::is_quantised(computation.precision.matmul)) {}

  Network network() {
    Network out;
    const std::int64_t window = m_.attention_window < m_.seq ? m_.attention_window : 0;
    out.kinds = {embedding(), block(window), head()};
    out.layers.assign(static_cast<std::size_t>(m_.layers) + 2, 1);
    out.layers.front() = 0;
    out.layers.back() = 2;
    if (const auto every = static_cast<std::size_t>(m_.attention_window_every); every > 0 && window > 0) {
      out.kinds.push_back(block(0));
      for (std::size_t i = every; i + 1 < out.layers.size(); i += every) out.layers[i] = 3;
    }
    out.hidden_elements = z_.hidden;
    out.residual_elements = z_.hidden / (split_.sequence_parallel ? d(split_.tensor) : 1.0);
    out.kv_elements = 2 * z_.hidden * (d(m_.kv_width()) / d(m_.hidden)) / d(split_.tensor);
    out.tied_elements = m_.tied_embeddings ? d(z_.vocab) * d(m_.hidden) : 0;
    return out;
  }

 private:
  // ---- kernels bound by memory ----
  void forward(const char* name, Streaming kernel, double elements, double bytes_each) {
    ops_.emplace_back(StreamingOp{name, kernel, elements, bytes_each, Direction::forward});
  }
  void backward(const char* name, Streaming kernel, double elements, double bytes_each) {
    ops_.emplace_back(StreamingOp{name, kernel, elements, bytes_each, Direction::backward});
  }

  /// What a producing kernel writes more, per element, when it also casts for the GEMM behind it.
  double fused_cast() const { return fuses_cast() ? operand_ : 0; }
  /// A scale of the whole tensor beside those of its blocks is known when all of it has been seen (nvfp4, arXiv
  /// 2509.25149, section 3): no kernel that makes the tensor can cast it.
  bool scales_twice() const { return c_.precision.matmul == DataType::nvfp4; }
  bool fuses_cast() const { return quantised_ && style_.fused_cast && !scales_twice(); }
  /// A GEMM of a type with scales reads operands that somebody has to cast, by rows and by columns (or transposed):
  /// inside the kernel before it when the software fuses that, else in a kernel of its own (reads 16 bit, writes
  /// twice), and where the whole tensor has a scale too, after one that looks for the largest magnitude.
  void cast(double elements, const char* name, Direction direction) {
    if (!quantised_ || fuses_cast()) return;
    const double read = scales_twice() ? 2 * e_ : e_;
    ops_.emplace_back(StreamingOp{name, Streaming::cast_transpose, elements, read + 2 * operand_, direction});
  }
  void cast_gradient(double elements) { cast(elements, "cast gradient", Direction::backward); }

  /// The small kernels that the model does not name: views made contiguous, masks. Each is taken as the floor of a
  /// copy, because that is what such a kernel costs.
  void views(double share, Direction direction) {
    const auto n = static_cast<int>(std::lround(style_.extra_kernels_per_layer * share));
    for (int i = 0; i < n; ++i) ops_.emplace_back(StreamingOp{"view", Streaming::copy, 1, 2 * e_, direction});
  }

  /// `residual`: its input goes on beside it, so that two gradients meet there.
  void norm(const char* name, const char* name_backward, bool residual = true) {
    if (residual) backward("add residual gradient", Streaming::accumulate, z_.outside, 3 * e_);
    if (!style_.persistent_layer_norm)
      backward("layer norm weight gradient", Streaming::layer_norm_backward, z_.outside, 2 * e_);
    backward(name_backward, Streaming::layer_norm_backward, z_.outside, 3 * e_);
    // One kernel, or mean and variance, normalise, scale and shift: each reads and writes.
    for (int pass = 0; pass < (style_.fused_layer_norm ? 1 : 3); ++pass)
      forward(name, Streaming::layer_norm, z_.outside, 2 * e_ + fused_cast());
  }

  bool has_biases() const { return m_.biases == Biases::all; }
  /// A bias that no kernel before or behind adds.
  void add_bias(double elements) {
    if (has_biases() && !style_.bias_in_gemm) forward("add bias", Streaming::accumulate, elements, 2 * e_);
  }
  /// Reads and writes, with a mask of one byte.
  void dropout(double elements, const char* name, Direction direction) {
    if (style_.dropout) ops_.emplace_back(StreamingOp{name, Streaming::dropout, elements, 2 * e_ + 1, direction});
  }

  void bias_dropout_residual() {
    cast_gradient(z_.outside);
    if (m_.post_norm) norm("post layer norm", "post layer norm backward", false);
    if (has_biases()) backward("bias gradient", Streaming::accumulate, z_.outside, e_);
    dropout(z_.outside, "dropout backward", Direction::backward);
    if (style_.fused_bias_dropout_residual) {
      forward("bias dropout residual", Streaming::bias_dropout_residual, z_.outside, 3 * e_ + (style_.dropout ? 1 : 0));
    } else {
      add_bias(z_.outside);
      dropout(z_.outside, "dropout", Direction::forward);
      forward("add residual", Streaming::accumulate, z_.outside, 3 * e_);
    }
  }

  void activation() {
    const double elements = z_.shared(m_.ffn_hidden), gates = m_.gated_mlp ? 2 : 1;
    // A kernel of GeLU with bias returns one gradient for both, which autograd sums over the tokens for the bias.
    if (has_biases() && !(style_.fused_bias_gelu && style_.bias_in_gemm))
      backward("bias gradient", Streaming::accumulate, elements, e_);
    const auto [name, name_backward] = activation_names();
    backward(name_backward, Streaming::gelu_backward, elements, (1 + 2 * gates) * e_ + gates * fused_cast());
    if (!style_.fused_bias_gelu) add_bias(elements * gates);
    forward(name, Streaming::gelu, elements, (gates + 1) * e_ + fused_cast());
  }
  /// All move the same bytes: each is one kernel over what the up projection made.
  std::pair<const char*, const char*> activation_names() const {
    switch (m_.activation) {
      case Activation::squared_relu:
        return {"squared relu", "squared relu backward"};
      case Activation::swiglu:
        return {"swiglu", "swiglu backward"};
      case Activation::gelu:
        break;
    }
    if (m_.gated_mlp) return {"geglu", "geglu backward"};
    return {"gelu", "gelu backward"};
  }

  /// A norm over every head's queries and keys, a kernel for each of the two (Megatron-Core's q_layernorm,
  /// k_layernorm).
  void norm_queries_and_keys() {
    if (!m_.qk_norm) return;
    for (const auto& [name, name_backward, width] :
         {std::tuple{"key norm", "key norm backward", z_.kv}, {"query norm", "query norm backward", z_.q}}) {
      backward(name_backward, Streaming::layer_norm_backward, z_.of_token(width), 3 * e_);
      forward(name, Streaming::layer_norm, z_.of_token(width), 2 * e_);
    }
  }

  /// One kernel that reads and writes queries and keys, as Megatron-Core's fused rotary embedding does; older
  /// generations take several, which no list of measured runs tells apart.
  void rotate() {
    if (m_.positions != Positions::rotary) return;
    const double elements = z_.of_token(z_.q + z_.kv);
    backward("rotate query and key gradients", Streaming::copy, elements, 2 * e_);
    forward("rotate queries and keys", Streaming::copy, elements, 2 * e_);
  }

  // ---- exchanges of the tensor group ----
  // Forward: g gathers the sequence shards before a column-parallel layer; f reduces after a row-parallel one. Without
  // sequence parallelism the first is nothing and the second an all-reduce (arXiv 2205.05198, figure 5).
  CommOverlap with(CommOverlap overlap) const { return c_.overlaps_tensor ? overlap : CommOverlap::none; }
  Exchange gathers() const { return z_.sequence_parallel ? Exchange::all_gather : Exchange::copy; }
  Exchange reduces() const { return z_.sequence_parallel ? Exchange::reduce_scatter : Exchange::all_reduce; }

  std::optional<InputExchange> enter(const char* what, const char* saved, const char* what_backward) const {
    if (z_.tensor == 1) return {};
    return InputExchange{gathers(),
                         z_.hidden,
                         e_,
                         with(CommOverlap::with_next),
                         style_.async_tensor_backward || c_.overlaps_tensor,
                         what,
                         saved,
                         what_backward};
  }
  std::optional<InputExchange> enter() const {
    return enter("activations, forward", "saved inputs, backward", "activation gradients, backward");
  }
  void leave() {
    if (z_.tensor > 1)
      ops_.emplace_back(CommOp{CommGroup::tensor, reduces(), z_.hidden, e_, "activations, forward",
                               "activation gradients, backward", with(CommOverlap::with_previous),
                               with(CommOverlap::with_next)});
  }

  // ---- linear layers ----
  MatMul product(const char* name, std::int64_t out, std::int64_t in) const {
    MatMul p{name, out, in, z_.tokens, c_.precision.matmul};
    if (c_.fuses_wgrad_accumulation()) {
      p.sum = c_.precision.gradients;
      return p;
    }
    const int gradient = calibration::bytes_of(c_.precision.gradients);
    const double weights = d(out) * d(in);
    if (c_.keeps_training_gradients && gradient > e_) {
      // Autograd adds onto the 16-bit gradient that stays allocated, which is cleared ahead of the next pass.
      p.after_gradient.push_back({"add training gradient", Streaming::accumulate, weights, 3 * e_});
      p.after_gradient.push_back({"clear training gradient", Streaming::copy, weights, e_});
    }
    p.after_gradient.push_back({"add weight gradient", Streaming::accumulate, weights, e_ + 2 * gradient});
    return p;
  }

  /// Queries, keys and values as one product or as three; a parallel block keeps one.
  std::vector<MatMul> qkv_products() const {
    if (m_.parallel_block || !style_.separate_qkv) return {product("qkv", z_.q + 2 * z_.kv, m_.hidden)};
    return {product("query", z_.q, m_.hidden), product("key", z_.kv, m_.hidden), product("value", z_.kv, m_.hidden)};
  }
  /// The bias of the layer that makes queries, keys and values is not left to a later kernel.
  bool adds_qkv_bias() const { return m_.biases != Biases::none && !style_.bias_in_gemm; }
  double qkv_elements() const { return z_.of_token(z_.q + 2 * z_.kv); }
  StreamingOp qkv_bias() const { return {"add qkv bias", Streaming::accumulate, qkv_elements(), 2 * e_}; }
  void qkv_bias_gradient() {
    if (adds_qkv_bias()) backward("qkv bias gradient", Streaming::accumulate, qkv_elements(), e_);
  }

  void column(std::vector<MatMul> products, std::optional<InputExchange> input, bool apart = false) {
    LinearOp op;
    op.sums.assign(products.size() - 1, {"add input gradients", Streaming::accumulate, z_.hidden, 3 * e_});
    op.products = std::move(products);
    op.input = input;
    op.reduces_apart = apart && !z_.sequence_parallel;
    ops_.emplace_back(std::move(op));
  }
  void row(const char* name, std::int64_t in) {
    LinearOp op;
    op.products = {product(name, m_.hidden, in)};
    ops_.emplace_back(std::move(op));
  }
  std::int64_t up_width() const { return m_.gated_mlp ? 2 * z_.ffn : z_.ffn; }

  void attention(std::int64_t window) {
    AttentionOp a;
    a.batch = split_.micro_batch;
    a.seq = m_.seq;
    a.context = split_.context;
    a.heads = z_.heads;
    a.kv_heads = z_.kv_heads;
    a.head_dim = m_.head_dim();
    a.window = window;
    a.fused = c_.attention == AttentionKind::flash;
    a.ring = split_.context_method == ContextMethod::ring;
    a.position_bias = m_.positions == Positions::alibi;
    a.dropout = style_.dropout;
    a.recomputed = c_.recompute == Recompute::selective;
    a.type = c_.precision.activations;
    a.style = c_.attention_style;
    ops_.emplace_back(std::move(a));
  }

  // ---- layers ----
  /// `window`: keys that a query sees, 0 for all.
  Layer block(std::int64_t window) {
    ops_.clear();
    norm("layer norm", "layer norm backward");
    cast(z_.outside, "cast input", Direction::forward);
    m_.parallel_block ? parallel_block(window) : attention_then_mlp(window);
    Layer layer;
    layer.kind = LayerKind::block;
    layer.recomputed = c_.recompute == Recompute::full;
    layer.ops = ops_;
    block_kept(layer);
    block_weights(layer);
    return layer;
  }

  void attention_then_mlp(std::int64_t window) {
    column(qkv_products(), enter(), style_.separate_qkv);
    qkv_bias_gradient();
    if (adds_qkv_bias()) ops_.emplace_back(qkv_bias());
    views(0.5, Direction::forward);
    views(0.5, Direction::backward);
    cast_gradient(qkv_elements());
    norm_queries_and_keys();
    rotate();
    attention(window);
    cast(z_.shared(m_.attention_width()), "cast attention output", Direction::forward);
    row("attention projection", z_.q);
    leave();
    bias_dropout_residual();
    norm("layer norm", "layer norm backward");
    cast(z_.outside, "cast input", Direction::forward);
    column({product("mlp up", up_width(), m_.hidden)}, enter());
    views(0.5, Direction::backward);
    cast_gradient(z_.shared(m_.ffn_hidden));
    activation();
    cast(z_.shared(m_.ffn_hidden), "cast activation", Direction::forward);
    views(0.5, Direction::forward);
    row("mlp down", z_.ffn);
    leave();
    bias_dropout_residual();
  }

  /// Attention and MLP read one norm; the second row-parallel product adds onto the first one's result (beta = 1).
  void parallel_block(std::int64_t window) {
    std::vector<MatMul> products = qkv_products();
    if (adds_qkv_bias()) products.front().after.push_back(qkv_bias());
    products.push_back(product("mlp up", up_width(), m_.hidden));
    column(std::move(products), enter());
    qkv_bias_gradient();
    views(1.0, Direction::forward);
    views(1.0, Direction::backward);
    cast_gradient(qkv_elements());
    cast_gradient(z_.shared(m_.ffn_hidden));
    norm_queries_and_keys();
    rotate();
    attention(window);
    activation();
    cast(z_.shared(m_.attention_width()), "cast attention output", Direction::forward);
    cast(z_.shared(m_.ffn_hidden), "cast activation", Direction::forward);
    row("attention projection", z_.q);
    row("mlp down", z_.ffn);
    leave();
    bias_dropout_residual();
  }

  /// The gradient of a weight as an own tensor, which the fused accumulation avoids.
  double own_gradient() const { return c_.fuses_wgrad_accumulation() ? 0 : e_; }

  void block_kept(Layer& layer) const {
    const double cut = split_.sequence_parallel ? d(split_.tensor) : 1.0, t = d(split_.tensor);
    const double outside = z_.hidden / cut, mask = style_.dropout ? 1 : 0;
    const double q = z_.of_token(m_.attention_width()) / t, kv = z_.of_token(m_.kv_width()) / t;
    const double ffn = z_.of_token(m_.ffn_hidden) / t, branches = m_.gated_mlp ? 3 : 2;
    const double rows = d(m_.heads) / t * d(z_.tokens);
    const bool fused = c_.attention == AttentionKind::flash;
    enum Half : std::int32_t { kAttention, kMlp };
    layer.kept = {{"norm input", outside, e_, kAttention, KeptAs::input},
                  {"linear input", outside, e_, kAttention},
                  {"dropout mask", outside, mask, kAttention},
                  {"queries and attention output", 2 * q, e_, kAttention},
                  {"keys and values", 2 * kv, e_, kAttention}};
    if (m_.qk_norm) layer.kept.push_back({"query and key norm inputs", q + kv, e_, kAttention});
    if (fused) {
      layer.kept.push_back({"log-sum-exp of scores", rows, 4, kAttention});
    } else {  // softmax, its dropout mask and output
      const KeptAs as = c_.recompute == Recompute::selective ? KeptAs::recomputed : KeptAs::tensor;
      layer.kept.push_back({"scores", rows * d(m_.seq), style_.dropout ? 2 * e_ + 1 : e_, kAttention, as});
    }
    // In a parallel block both halves share one norm, one input and one dropout.
    if (!m_.parallel_block) {
      layer.kept.push_back({"norm input", outside, e_, kMlp});
      layer.kept.push_back({"linear input", outside, e_, kMlp});
      layer.kept.push_back({"dropout mask", outside, mask, kMlp});
    }
    if (m_.post_norm) {
      layer.kept.push_back({"post norm input", outside, e_, kAttention});
      if (!m_.parallel_block) layer.kept.push_back({"post norm input", outside, e_, kMlp});
    }
    layer.kept.push_back({"up projection and activation", branches * ffn, e_, kMlp});
    // Gradients of q, k, v and the output; fused kernels add up q's in fp32, others hold two of the scores.
    layer.working = {{"residual gradients", 2 * outside, e_, kAttention},
                     {"gradients of queries and output", 2 * q, e_, kAttention},
                     {"gradients of keys and values", 2 * kv, e_, kAttention},
                     fused ? Working{"query gradient in fp32", q, 4, kAttention}
                           : Working{"gradients of scores", 2 * rows * d(m_.seq), e_, kAttention},
                     {"residual gradients", 2 * outside, e_, kMlp},
                     {"gradients of up projection and activation", branches * ffn, e_, kMlp},
                     {"weight gradient", d(m_.hidden) * d(m_.ffn_hidden) / t, own_gradient(), kMlp}};
    // Of qkv, projection, up and down: inputs, then gradients of the outputs.
    layer.between = {{"linear inputs", 2 * outside + q + ffn, e_},
                     {"linear output gradients", 2 * outside + q + 2 * kv + ffn * (branches - 1), e_}};
  }

  /// Weights and the biases of column-parallel layers are split; norms and the biases after a reduction are copied.
  void block_weights(Layer& layer) const {
    const double t = d(split_.tensor), h = d(m_.hidden), f = d(m_.ffn_hidden), up = m_.gated_mlp ? 2 : 1;
    const double q = d(m_.attention_width()), kv = d(m_.kv_width());
    const double norms = d(m_.norm_parameters()) * (m_.parallel_block ? 1 : 2) * (m_.post_norm ? 2 : 1);
    layer.weights = {
        {"attention projection", q * h / t, true}, {"mlp up", up * f * h / t, true}, {"mlp down", f * h / t, true}};
    if (style_.separate_qkv) {
      layer.weights.push_back({"query", q * h / t, true});
      layer.weights.push_back({"key", kv * h / t, true});
      layer.weights.push_back({"value", kv * h / t, true});
    } else {
      layer.weights.push_back({"qkv", (q + 2 * kv) * h / t, true});
    }
    if (m_.biases != Biases::none) layer.weights.push_back({"qkv bias", (q + 2 * kv) / t});
    if (has_biases()) {
      layer.weights.push_back({"mlp up bias", up * f / t});
      layer.weights.push_back({"projection and mlp down bias", 2 * h});
    }
    layer.weights.push_back({"norms", norms});
    if (m_.qk_norm) layer.weights.push_back({"query and key norms", d(m_.qk_norm_parameters())});
  }

  // ---- ends ----
  Layer embedding() {
    ops_.clear();
    const double gradient = calibration::bytes_of(c_.precision.gradients);
    backward("embedding backward", Streaming::embedding_backward, z_.hidden, e_ + 2 * gradient);
    forward("embedding", Streaming::embedding, z_.hidden, 2 * e_);
    if (z_.tensor > 1)
      ops_.emplace_back(CommOp{CommGroup::tensor, reduces(), z_.hidden, e_, "embedding, forward",
                               "embedding gradient, backward", CommOverlap::none, CommOverlap::none});
    dropout(z_.outside, "embedding dropout backward", Direction::backward);
    dropout(z_.outside, "embedding dropout", Direction::forward);
    Layer layer;
    layer.kind = LayerKind::embedding;
    layer.ops = ops_;
    layer.kept = {{"dropout mask", z_.hidden / (split_.sequence_parallel ? d(split_.tensor) : 1.0),
                   style_.dropout ? 1.0 : 0.0, 0}};
    layer.weights = {{"word embedding", d(z_.vocab) * d(m_.hidden)}};
    if (m_.positions == Positions::learned) layer.weights.push_back({"positions", d(m_.seq) * d(m_.hidden)});
    return layer;
  }

  double logits() const { return z_.of_token(z_.vocab); }
  void loss_kernel(const char* name, Streaming kernel, double bytes_each) {
    forward(name, kernel, logits(), bytes_each);
  }
  /// An fp32 number of every token, reduced over the shards of the vocabulary.
  void reduce_loss(double each = 1) {
    if (z_.tensor > 1)
      ops_.emplace_back(CommOp{CommGroup::tensor, Exchange::all_reduce, each * d(z_.tokens), 4, "loss", "",
                               CommOverlap::none, CommOverlap::none});
  }

  void loss() {
    if (style_.fused_cross_entropy) {
      backward("cross entropy backward", Streaming::cross_entropy, logits(), 2 * e_);
      loss_kernel("cross entropy", Streaming::cross_entropy, e_);
      reduce_loss(3);
      return;
    }
    backward("logit gradient to 16 bit", Streaming::cross_entropy, logits(), 4 + e_);
    backward("scale softmax gradient", Streaming::cross_entropy, logits(), 8);
    loss_kernel("logits to fp32", Streaming::cross_entropy, e_ + 4);
    if (style_.cross_entropy_kernel && z_.tensor == 1)
      return loss_kernel("softmax with cross entropy", Streaming::cross_entropy, 8);
    // One operation at a time on fp32 copies, as megatron/core/tensor_parallel/cross_entropy.py does.
    loss_kernel("logit maximum", Streaming::cross_entropy, 4);
    reduce_loss();
    loss_kernel("subtract maximum", Streaming::cross_entropy, 8);
    reduce_loss();  // target logits
    loss_kernel("exponentials", Streaming::cross_entropy, 8);
    loss_kernel("sum of exponentials", Streaming::cross_entropy, 4);
    reduce_loss();
    loss_kernel("divide by sum", Streaming::cross_entropy, 8);
  }

  /// Losses for the log, from the same logits: torch.nn.CrossEntropyLoss under autocast makes a fp32 copy and a
  /// log-softmax of it (Composer, composer/metrics/nlp.py; llmfoundry's models log two unless told otherwise).
  void training_metrics() {
    const auto losses = static_cast<int>(std::lround(style_.training_metrics));
    for (int i = 0; i < losses; ++i) {
      loss_kernel("metric: logits to fp32", Streaming::copy, e_ + 4);
      loss_kernel("metric: log-softmax", Streaming::softmax, 8);
    }
  }

  Layer head() {
    ops_.clear();
    norm("final layer norm", "final layer norm backward");
    MatMul p{"lm head", z_.vocab, m_.hidden, z_.tokens, c_.precision.activations};
    p.sum = c_.fuses_wgrad_accumulation() ? c_.precision.gradients : DataType::fp32;
    column({p}, enter("head input, forward", "head saved input, backward", "head input gradient, backward"));
    loss();
    training_metrics();
    Layer layer;
    layer.kind = LayerKind::head;
    layer.ops = ops_;
    const double outside = z_.hidden / (split_.sequence_parallel ? d(split_.tensor) : 1.0);
    layer.kept = {{"norm and linear input", 2 * outside, e_, 0},
                  {"logits", logits(), style_.fused_cross_entropy ? e_ : 4, 0}};
    // Forward: the 16-bit logits that are copied; backward: their gradient in 16 bit. Never both.
    layer.working = {{"logits in 16 bit", logits(), e_, 0},
                     {"weight gradient", d(z_.vocab) * d(m_.hidden), own_gradient(), 0}};
    layer.between = {{"linear input and logit gradient", outside + logits(), e_}};
    layer.weights = {{"final norm", d(m_.norm_parameters()), false, true}};
    // Tied weights: where one stage has both ends the head is the embedding; else the last stage holds a copy.
    if (!m_.tied_embeddings || !c_.ends_on_one_stage) layer.weights.push_back({"lm head", d(z_.vocab) * d(m_.hidden)});
    return layer;
  }

  const Model& m_;
  const Split& split_;
  const Computation& c_;
  const calibration::LayerStyle& style_;
  Sizes z_;
  double e_;        // bytes of an activation
  double operand_;  // bytes of an operand of a product, with its scales
  bool quantised_;
  std::vector<LayerOp> ops_;
};

}  // namespace

Network gpt(const Model& model, const Split& split, const Computation& computation) {
  return Builder(model, split, computation).network();
}

std::int64_t padded_vocab(std::int64_t vocab, std::int64_t tensor, bool pads) {
  if (!pads) return vocab / tensor * tensor;
  const std::int64_t multiple = 128 * tensor;
  return (vocab + multiple - 1) / multiple * multiple;
}

namespace {
constexpr std::array<std::string_view, 2> kContextMethods{"ring", "all_gather"};
}  // namespace

std::string_view name_of(ContextMethod method) { return kContextMethods[static_cast<std::size_t>(method)]; }

}  // namespace orrery::workloads
