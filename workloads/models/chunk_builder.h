// Internal to the model family: builds the pieces of one chunk of a GPT, kernel by kernel, in the order in which
// Megatron-LM issues them; see gpt.h for the sources and what is left out.
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "workloads/models/gpt.h"
#include "workloads/schedules/schedule.h"

namespace orrery::workloads {

using calibration::Attention;
using calibration::Gemm;
using calibration::Streaming;
using CollectiveOp = calibration::CollectiveOp;

/// Builds the pieces of one chunk. Sizes: tokens = micro-batch x sequence; norm_tokens = what one rank holds of them
/// outside the tensor-parallel regions.
class ChunkBuilder {
  using Duration = sim::Duration;

 public:
  explicit ChunkBuilder(const Job& job)
      : job_(job),
        model_(job.model),
        software_(job.software),
        tensor_(job.parallelism.tensor),
        context_(job.parallelism.context),
        tokens_(job.batch.micro * job.rank_seq()),
        sequence_parallel_(job.parallelism.sequence_parallel && tensor_ > 1),
        norm_tokens_(static_cast<double>(tokens_) / static_cast<double>(sequence_parallel_ ? tensor_ : 1)),
        element_(calibration::bytes_of(job.precision.activations)),
        fp8_(job.precision.matmul == DataType::fp8) {}

  ChunkPasses build(const ChunkShape& shape) {
    ChunkPasses passes;
    out_ = &passes.forward;
    if (shape.embedding) embedding_forward();
    for (layer_ = 0; layer_ < shape.layers; ++layer_) layer_forward();
    layer_ = -1;
    if (shape.head) head_forward();

    backward(shape, passes.backward, nullptr, passes.layer_done);
    if (job_.parallelism.schedule->splits_backward())
      backward(shape, passes.input_gradient, &passes.weight_gradient, passes.weight_done);
    return passes;
  }

 private:
  /// The backward pass; its weight gradients go to `weights` where that is given.
  void backward(const ChunkShape& shape, Pieces& out, Pieces* weights, std::vector<std::size_t>& done) {
    out_ = &out;
    weights_ = weights;
    cut_ = false;
    backward_ = true;
    if (shape.head) head_backward();
    done.resize(static_cast<std::size_t>(shape.layers));
    for (layer_ = static_cast<std::int32_t>(shape.layers) - 1; layer_ >= 0; --layer_) {
      recomputing_ = true;
      if (job_.recompute == Recompute::full) layer_forward();
      recomputing_ = false;
      layer_backward();
      done[static_cast<std::size_t>(layer_)] = (weights != nullptr ? *weights : out).size();
    }
    layer_ = -1;
    if (shape.embedding) embedding_backward();
  }

  // ---- emitting ----
  void add(Kernel kernel) {
    if (out_->empty() || out_->back().is_comm() || out_->back().layer != layer_ || cut_) {
      out_->push_back({});
      out_->back().layer = layer_;
      cut_ = false;
    }
    kernel.backward = backward_ && !recomputing_;
    out_->back().kernels.push_back(std::move(kernel));
  }

  void stream(Streaming kernel, double bytes, const char* name) {
    add({name, job_.device.streaming(kernel, bytes), false, 0, bytes, {}});
  }

  void comm(CollectiveOp op, double elements, const char* what, CommOverlap overlap, double element_bytes) {
    if (tensor_ == 1) return;
    Piece piece;
    piece.op = op;
    piece.bytes = elements * element_bytes;
    piece.what = recomputing_ ? std::string(what) + " (recomputed)" : what;
    piece.overlap = job_.overlap.tensor || overlap == CommOverlap::behind ? overlap : CommOverlap::none;
    piece.layer = layer_;
    out_->push_back(std::move(piece));
  }

  double hidden_elements() const { return static_cast<double>(tokens_) * static_cast<double>(model_.hidden); }
  double norm_elements() const { return norm_tokens_ * static_cast<double>(model_.hidden); }
  double per_rank(std::int64_t width) const {
    return static_cast<double>(tokens_) * static_cast<double>(width) / static_cast<double>(tensor_);
  }

  /// The small kernels that the model does not name: views made contiguous, masks. Each is taken as the
  /// floor of a copy, because that is what such a kernel costs.
  void extra_kernels(double share) {
    const auto n = static_cast<int>(std::lround(software_.layers.extra_kernels_per_layer * share));
    for (int i = 0; i < n; ++i) stream(Streaming::copy, 2 * element_, "view");
  }

  // ---- linear layers ----
  /// `sum`: of the result that is added to; nothing: the result is written in 16 bit.
  void gemm(const char* name, std::int64_t m, std::int64_t n, std::int64_t k, Gemm::Form form,
            std::optional<DataType> sum = {}, std::int64_t batch = 1, bool may_be_fp8 = true) {
    Gemm shape;
    shape.dtype = may_be_fp8 ? job_.precision.matmul : job_.precision.activations;
    shape.m = m, shape.n = n, shape.k = k, shape.batch = batch, shape.form = form;
    shape.accumulate = sum.has_value(), shape.sum = sum.value_or(DataType::fp32);
    shape.aligned = batch == 1 || model_.head_dim() % 8 == 0;  // products of attention are cut by heads
    const auto d = [](std::int64_t count) { return static_cast<double>(count); };
    const double operand = calibration::bytes_of(shape.dtype), result = sum ? 2 * calibration::bytes_of(*sum) : 2;
    const double bytes = d(batch) * ((d(m) * d(k) + d(k) * d(n)) * operand + d(m) * d(n) * result);
    add({name, gemm_time(shape), batch == 1, 2 * d(batch) * d(m) * d(n) * d(k), bytes, shape.dtype});
  }

  /// Rows of a linear layer's matrices are its widths long; 16-bit ones begin at 16 bytes if these are multiples of
  /// eight.
  sim::Duration gemm_time(const Gemm& shape) const {
    const sim::Duration time = job_.device.gemm(shape);
    constexpr std::int64_t kAligned = 8;
    const bool aligned = shape.m % kAligned == 0 && shape.n % kAligned == 0 && shape.k % kAligned == 0;
    if (aligned || shape.batch > 1 || calibration::bytes_of(shape.dtype) != 2) return time;
    return sim::Duration(std::llround(static_cast<double>(time.value()) / software_.layers.misaligned_gemm_rate));
  }

  /// A fp8 GEMM reads operands that somebody has to cast and transpose: inside the kernel before it when the software
  /// fuses that, else in a kernel of its own (reads 16 bit, writes fp8 twice).
  void cast(double elements, const char* name) {
    if (!fp8_) return;
    if (!software_.layers.fused_cast) stream(Streaming::cast_transpose, elements * (element_ + 2), name);
  }
  /// What a producing kernel writes more when it also casts for the GEMM behind it.
  double fused_cast_bytes(double elements) const { return fp8_ && software_.layers.fused_cast ? elements : 0.0; }

  /// Emits into the pass of weight gradients, if there is one of its own.
  template <class Emit>
  void into_weights(Emit emit) {
    Pieces* const inputs = out_;
    if (weights_ != nullptr) out_ = weights_;
    emit();
    out_ = inputs;
  }

  void weight_gradient(const char* name, std::int64_t m, std::int64_t n) {
    into_weights([&] { weight_gradient_kernels(name, m, n); });
  }

  void weight_gradient_kernels(const char* name, std::int64_t m, std::int64_t n) {
    const bool fused = fuses_wgrad_accumulation(job_);
    gemm(name, m, n, tokens_, Gemm::Form::weight_gradient,
         fused ? std::optional(job_.precision.gradients) : std::nullopt);
    if (!fused) {
      const int gradient = calibration::bytes_of(job_.precision.gradients);
      if (software_.gradients.keeps_training_gradients && gradient > element_) {
        // Autograd adds onto the 16-bit gradient that stays allocated, which is cleared ahead of the next pass.
        const double parameters = static_cast<double>(m) * static_cast<double>(n);
        stream(Streaming::accumulate, parameters * 3 * element_, "add training gradient");
        stream(Streaming::copy, parameters * element_, "clear training gradient");
      }
      stream(Streaming::accumulate, static_cast<double>(m) * static_cast<double>(n) * (element_ + 2 * gradient),
             "add weight gradient");
    }
  }

  // ---- shared parts ----
  void layer_norm_forward(const char* name) {
    const double bytes = 2 * norm_elements() * element_ + fused_cast_bytes(norm_elements());
    if (software_.layers.fused_layer_norm) {
      stream(Streaming::layer_norm, bytes, name);
    } else {  // mean and variance, normalise, scale and shift: each reads and writes
      for (int pass = 0; pass < 3; ++pass) stream(Streaming::layer_norm, bytes, name);
    }
  }

  void layer_norm_backward(const char* name) {
    stream(Streaming::layer_norm_backward, 3 * norm_elements() * element_, name);
    if (!software_.layers.persistent_layer_norm)
      stream(Streaming::layer_norm_backward, 2 * norm_elements() * element_, "layer norm weight gradient");
    stream(Streaming::accumulate, 3 * norm_elements() * element_, "add residual gradient");
  }

  void bias_dropout_residual(const char* name) {
    if (software_.layers.fused_bias_dropout_residual) {
      stream(Streaming::bias_dropout_residual, norm_elements() * (3 * element_ + (software_.layers.dropout ? 1 : 0)),
             name);
    } else {
      add_bias(norm_elements());
      dropout(norm_elements(), "dropout");
      stream(Streaming::accumulate, norm_elements() * 3 * element_, "add residual");
    }
  }

  /// Reads and writes, with a mask of one byte.
  void dropout(double elements, const char* name) {
    if (software_.layers.dropout) stream(Streaming::dropout, elements * (2 * element_ + 1), name);
  }
  void add_bias(double elements) {
    if (biases() && !software_.layers.bias_in_gemm) stream(Streaming::accumulate, elements * 2 * element_, "add bias");
  }

  void bias_dropout_backward(const char* name) {
    dropout(norm_elements(), name);
    if (biases()) stream(Streaming::accumulate, norm_elements() * element_, "bias gradient");
  }

  /// The bias of the layer that makes queries, keys and values is not left to a later kernel.
  void add_qkv_bias() {
    if (has_qkv_bias() && !software_.layers.bias_in_gemm)
      stream(Streaming::accumulate, qkv_elements() * 2 * element_, "add qkv bias");
  }
  void qkv_bias_backward() {
    if (has_qkv_bias() && !software_.layers.bias_in_gemm)
      stream(Streaming::accumulate, qkv_elements() * element_, "qkv bias gradient");
  }

  std::int64_t heads() const { return model_.heads / tensor_; }
  std::int64_t kv_heads() const { return std::max<std::int64_t>(1, model_.kv_heads / tensor_); }
  std::int64_t qkv_width() const { return (heads() + 2 * kv_heads()) * model_.head_dim(); }
  std::int64_t attention_width() const { return model_.attention_width() / tensor_; }
  double qkv_elements() const { return static_cast<double>(tokens_) * static_cast<double>(qkv_width()); }
  bool biases() const { return model_.biases == Biases::all; }
  bool has_qkv_bias() const { return model_.biases != Biases::none; }
  std::int64_t ffn() const { return model_.ffn_hidden / tensor_; }
  std::int64_t ffn_up() const { return model_.gated_mlp ? 2 * ffn() : ffn(); }

  // ---- attention: gpt_attention.cc ----
  Attention fused_attention(bool backward) const;
  void add_attention(const Attention& shape);
  double score_elements() const;
  double layout_copy(std::int64_t width) const;
  void context_comm(CollectiveOp op, double elements, const char* what, CommOverlap overlap);
  void flash_attention(bool backward);
  void ring_attention(Attention shape, double keys_and_values);
  void rotate(const char* name);
  void input_layout();
  void gradient_layout();
  bool fuses_softmax() const;
  void add_position_bias();
  void softmax_forward();
  void softmax_backward();
  void attention_core_forward();
  void attention_core_backward();

  // ---- activation function ----
  void activation_forward() {
    const double elements = per_rank(model_.ffn_hidden);
    const double reads = model_.gated_mlp ? 2 : 1;
    if (!software_.layers.fused_bias_gelu) add_bias(elements * reads);
    stream(Streaming::gelu, elements * (reads + 1) * element_ + fused_cast_bytes(elements),
           model_.gated_mlp ? "swiglu" : "gelu");
  }
  void activation_backward() {
    const double elements = per_rank(model_.ffn_hidden);
    const double gates = model_.gated_mlp ? 2 : 1;
    stream(Streaming::gelu_backward, elements * (1 + 2 * gates) * element_ + fused_cast_bytes(elements * gates),
           model_.gated_mlp ? "swiglu backward" : "gelu backward");
    // A kernel of GeLU with bias returns one gradient for both, which autograd sums over the tokens for the bias.
    if (biases() && !(software_.layers.fused_bias_gelu && software_.layers.bias_in_gemm))
      stream(Streaming::accumulate, elements * element_, "bias gradient");
  }

  // ---- tensor-parallel boundaries ----
  // Forward: g gathers the sequence shards before a column-parallel layer; f reduces after a row-parallel one. Without
  // sequence parallelism the first is nothing and the second an all-reduce (arXiv 2205.05198, figure 5).
  double wire_element() const { return element_; }
  void enter_forward(const char* what = "activations, forward") {
    if (sequence_parallel_)
      comm(CollectiveOp::all_gather, hidden_elements(), what, CommOverlap::with_next, wire_element());
  }
  void leave_forward(const char* what = "activations, forward") {
    comm(sequence_parallel_ ? CollectiveOp::reduce_scatter : CollectiveOp::all_reduce, hidden_elements(), what,
         CommOverlap::with_previous, wire_element());
  }
  void enter_backward(const char* what = "activation gradients, backward") {  // the gradient of leave_forward
    if (sequence_parallel_)
      comm(CollectiveOp::all_gather, hidden_elements(), what, CommOverlap::with_next, wire_element());
  }

  /// A reduction runs beside the weight gradients, unless these have a pass of their own.
  CommOverlap beside_weights(bool async) const {
    return async && weights_ == nullptr ? CommOverlap::behind : CommOverlap::none;
  }

  /// Backward of column-parallel layers that share one input: data gradients, then their reduction beside the weight
  /// gradients. With sequence parallelism only a shard of the input was kept, so it is gathered once more, beside the
  /// data gradient.
  struct Linear {
    const char* data_name;
    const char* weight_name;
    std::int64_t width;
  };
  void column_backward(const std::vector<Linear>& linears, bool reduces_apart = false) {
    const bool async = software_.layers.async_tensor_backward || job_.overlap.tensor;
    if (sequence_parallel_) {
      comm(CollectiveOp::all_gather, hidden_elements(), "saved inputs, backward",
           async ? CommOverlap::behind : CommOverlap::none, wire_element());
    }
    for (const Linear& l : linears) gemm(l.data_name, model_.hidden, tokens_, l.width, Gemm::Form::data_gradient);
    const auto reduce = [&](CommOverlap overlap) {
      comm(sequence_parallel_ ? CollectiveOp::reduce_scatter : CollectiveOp::all_reduce, hidden_elements(),
           "activation gradients, backward", overlap, wire_element());
    };
    const bool apart = reduces_apart && !sequence_parallel_;
    if (apart)
      for (std::size_t i = 1; i < linears.size(); ++i) reduce(CommOverlap::none);
    for (std::size_t i = 1; i < linears.size(); ++i)
      stream(Streaming::accumulate, 3 * hidden_elements() * element_, "add input gradients");
    reduce(beside_weights(async));
    for (const Linear& l : linears) weight_gradient(l.weight_name, l.width, model_.hidden);
    cut_ = tensor_ > 1;
  }

  void row_backward(const char* data_name, const char* weight_name, std::int64_t width) {
    gemm(data_name, width, tokens_, model_.hidden, Gemm::Form::data_gradient);
    weight_gradient(weight_name, model_.hidden, width);
  }

  // ---- queries, keys and values ----
  std::vector<Linear> qkv_linears() const {
    const std::int64_t q = attention_width(), kv = kv_heads() * model_.head_dim();
    if (!software_.layers.separate_qkv) return {{"qkv data gradient", "qkv weight gradient", qkv_width()}};
    return {{"query data gradient", "query weight gradient", q},
            {"key data gradient", "key weight gradient", kv},
            {"value data gradient", "value weight gradient", kv}};
  }

  /// As one product or as three.
  void qkv_forward() {
    if (software_.layers.separate_qkv) {
      const std::int64_t kv = kv_heads() * model_.head_dim();
      gemm("query", attention_width(), tokens_, model_.hidden, Gemm::Form::forward);
      gemm("key", kv, tokens_, model_.hidden, Gemm::Form::forward);
      gemm("value", kv, tokens_, model_.hidden, Gemm::Form::forward);
    } else {
      gemm("qkv", qkv_width(), tokens_, model_.hidden, Gemm::Form::forward);
    }
    add_qkv_bias();
  }
  void qkv_backward() {
    qkv_bias_backward();
    column_backward(qkv_linears(), software_.layers.separate_qkv);
  }

  // ---- layers ----
  void layer_forward() {
    layer_norm_forward("layer norm");
    cast(norm_elements(), "cast input");
    if (model_.parallel_block) return parallel_block_forward();
    enter_forward();
    qkv_forward();
    extra_kernels(0.5);
    rotate("rotate queries and keys");
    attention_core_forward();
    cast(per_rank(model_.attention_width()), "cast attention output");
    gemm("attention projection", model_.hidden, tokens_, attention_width(), Gemm::Form::forward);
    leave_forward();
    bias_dropout_residual("bias dropout residual");
    layer_norm_forward("layer norm");
    cast(norm_elements(), "cast input");
    enter_forward();
    gemm("mlp up", ffn_up(), tokens_, model_.hidden, Gemm::Form::forward);
    activation_forward();
    cast(per_rank(model_.ffn_hidden), "cast activation");
    extra_kernels(0.5);
    gemm("mlp down", model_.hidden, tokens_, ffn(), Gemm::Form::forward);
    leave_forward();
    bias_dropout_residual("bias dropout residual");
  }

  void parallel_block_forward() {
    enter_forward();
    gemm("qkv", qkv_width(), tokens_, model_.hidden, Gemm::Form::forward);
    add_qkv_bias();
    gemm("mlp up", ffn_up(), tokens_, model_.hidden, Gemm::Form::forward);
    extra_kernels(1.0);
    rotate("rotate queries and keys");
    attention_core_forward();
    activation_forward();
    cast(per_rank(model_.attention_width()), "cast attention output");
    cast(per_rank(model_.ffn_hidden), "cast activation");
    gemm("attention projection", model_.hidden, tokens_, attention_width(), Gemm::Form::forward);
    gemm("mlp down", model_.hidden, tokens_, ffn(),
         Gemm::Form::forward);  // adds onto the projection's output (beta = 1)
    leave_forward();
    bias_dropout_residual("bias dropout residual");
  }

  void layer_backward() {
    bias_dropout_backward("dropout backward");
    cast(norm_elements(), "cast gradient");
    if (model_.parallel_block) return parallel_block_backward();
    enter_backward();
    row_backward("mlp down data gradient", "mlp down weight gradient", ffn());
    activation_backward();
    cast(per_rank(model_.ffn_hidden), "cast gradient");
    extra_kernels(0.5);
    column_backward({{"mlp up data gradient", "mlp up weight gradient", ffn_up()}});
    layer_norm_backward("layer norm backward");
    bias_dropout_backward("dropout backward");
    cast(norm_elements(), "cast gradient");
    enter_backward();
    row_backward("attention projection data gradient", "attention projection weight gradient", attention_width());
    attention_core_backward();
    rotate("rotate query and key gradients");
    cast(static_cast<double>(tokens_) * static_cast<double>(qkv_width()), "cast gradient");
    extra_kernels(0.5);
    qkv_backward();
    layer_norm_backward("layer norm backward");
  }

  void parallel_block_backward() {
    enter_backward();
    row_backward("mlp down data gradient", "mlp down weight gradient", ffn());
    row_backward("attention projection data gradient", "attention projection weight gradient", attention_width());
    activation_backward();
    attention_core_backward();
    rotate("rotate query and key gradients");
    cast(per_rank(model_.ffn_hidden), "cast gradient");
    cast(static_cast<double>(tokens_) * static_cast<double>(qkv_width()), "cast gradient");
    extra_kernels(1.0);
    qkv_bias_backward();
    column_backward({{"mlp up data gradient", "mlp up weight gradient", ffn_up()},
                     {"qkv data gradient", "qkv weight gradient", qkv_width()}});
    layer_norm_backward("layer norm backward");
  }

  // ---- ends: gpt.cc ----
  void embedding_forward();
  void embedding_backward();
  double logits() const;
  void training_metrics();
  void head_forward();
  void head_backward();

  const Job& job_;
  const Model& model_;
  const calibration::Software& software_;
  std::int64_t tensor_, context_;
  std::int64_t tokens_;
  bool sequence_parallel_;
  double norm_tokens_;
  double element_;
  bool fp8_;
  std::int32_t layer_ = -1;
  bool recomputing_ = false;
  bool backward_ = false;
  bool cut_ =
      false;  // the next kernel starts a new run although none lies between (a collective must be awaited there)
  Pieces* out_ = nullptr;
  Pieces* weights_ = nullptr;  // where weight gradients go; nullptr: among the rest
};

}  // namespace orrery::workloads
