// Embedding and LM head with its loss. See halves.h. The embedding keeps its dropout mask, the head its two inputs and
// the logits: in fp32 where the loss is computed operation by operation on a copy, else in 16 bit (arXiv 2205.05198,
// section 4.3). Its backward pass has two halves: that of the loss frees what was kept of the logits before the head's
// products begin.
#include <cmath>

#include "sim/real.h"
#include "workloads/model/halves.h"

namespace orrery::workloads {

namespace {

using calibration::Streaming;

using sim::real;

/// What turns logits into a loss.
class LossWriter {
 public:
  explicit LossWriter(LayerWriter& writer)
      : w_(writer), style_(writer.style()), e_(writer.element()), logits_(logits_of(writer)) {}

  /// On this rank: its share of the vocabulary, or all of it where that is gathered ahead of the loss.
  static double logits_of(const LayerWriter& writer) {
    const double shards = writer.style().head.gathers_logits ? writer.sizes().parts() : 1;
    return shards * writer.sizes().of_token(writer.sizes().vocab);
  }

  /// Shards lie one behind the other until they are copied into the order of the vocabulary; every rank takes its own
  /// part of the gradient.
  void gather() {
    if (gathers())
      w_.add(CommOp{w_.out_group(), Exchange::all_gather, logits_, e_, "logits, forward", "", CommOverlap::none,
                    CommOverlap::none, 0, CommOp::In::forward, 2 * e_});
  }

  void loss() {
    if (style_.head.fused_cross_entropy) {
      w_.backward("cross entropy backward", Streaming::cross_entropy, logits_, 2 * e_);
      // Where the gradient is written over the logits, a second kernel reads and writes them once more.
      kernel("cross entropy", Streaming::cross_entropy, style_.head.loss_copies > 0 ? e_ : 3 * e_);
      reduce(3);
      return;
    }
    if (style_.head.compiled_cross_entropy) return compiled();
    const bool whole = style_.head.cross_entropy_kernel && w_.sizes().tensor == 1;
    w_.backward("logit gradient to 16 bit", Streaming::cross_entropy, logits_, 4 + e_);
    if (whole && style_.head.log_softmax_loss) return log_softmax();
    w_.backward("scale softmax gradient", Streaming::cross_entropy, logits_, 8);
    kernel("logits to fp32", Streaming::cross_entropy, e_ + 4);
    if (whole) return kernel("softmax with cross entropy", Streaming::cross_entropy, 8);
    // One operation at a time on fp32 copies, as megatron/core/tensor_parallel/cross_entropy.py does.
    kernel("logit maximum", Streaming::cross_entropy, 4);
    reduce();
    kernel("subtract maximum", Streaming::cross_entropy, 8);
    reduce();  // target logits
    kernel("exponentials", Streaming::cross_entropy, 8);
    kernel("sum of exponentials", Streaming::cross_entropy, 4);
    reduce();
    kernel("divide by sum", Streaming::cross_entropy, 8);
  }

  /// PyTorch's on the device (aten/src/ATen/native/cuda/SoftMax.cu, NLLLoss.cu): rows that no processor can hold are
  /// read for their sum, and again for what is written; the gradient of what is picked is zero but for one element a
  /// row.
  void log_softmax() {
    w_.backward("log-softmax backward", Streaming::cross_entropy, logits_, 12);
    w_.backward("clear gradient of log-softmax", Streaming::cross_entropy, logits_, 4);
    kernel("logits to fp32", Streaming::cross_entropy, e_ + 4);
    kernel("log-softmax", Streaming::cross_entropy, 12);
  }

  /// What megatron/core/fusions/fused_cross_entropy.py leaves to the compiler: one kernel between two reductions. The
  /// gradient is written over the softmax and once more in 16 bit.
  void compiled() {
    w_.backward("cross entropy backward", Streaming::cross_entropy, logits_, 8 + e_);
    kernel("logits to fp32 and their maximum", Streaming::cross_entropy, e_ + 4);
    reduce();
    kernel("exponentials and their sum", Streaming::cross_entropy, 8);
    reduce(2);
    kernel("softmax and loss", Streaming::cross_entropy, 8);
  }

  /// The logits' log-sum-exp by itself: fp32 copy, maximum, difference, exponentials, their sum, quotient; backward the
  /// softmax times the gradient, cast, added to the other gradient of the logits (OpenEuroLLM/NVIDIA-Megatron-LM,
  /// megatron/core/tensor_parallel/cross_entropy.py, vocab_parallel_logsumexp).
  void z_loss() {
    if (!style_.head.z_loss) return;
    w_.backward("add z-loss gradient", Streaming::accumulate, logits_, 3 * e_);
    w_.backward("z-loss gradient to 16 bit", Streaming::cross_entropy, logits_, 4 + e_);
    w_.backward("scale z-loss softmax", Streaming::cross_entropy, logits_, 8);
    kernel("z-loss: logits to fp32", Streaming::cross_entropy, e_ + 4);
    kernel("z-loss: maximum", Streaming::cross_entropy, 4);
    reduce();
    for (const char* name : {"z-loss: subtract maximum", "z-loss: exponentials"})
      kernel(name, Streaming::cross_entropy, 8);
    kernel("z-loss: sum", Streaming::cross_entropy, 4);
    reduce();
    kernel("z-loss: divide by sum", Streaming::cross_entropy, 8);
  }

  /// Losses for the log, from the same logits: torch.nn.CrossEntropyLoss under autocast makes a fp32 copy and a
  /// log-softmax of it (Composer, composer/metrics/nlp.py; llmfoundry's models log two unless told otherwise).
  void metrics() {
    const auto losses = static_cast<int>(std::lround(style_.head.training_metrics));
    for (int i = 0; i < losses; ++i) {
      kernel("metric: logits to fp32", Streaming::copy, e_ + 4);
      kernel("metric: log-softmax", Streaming::softmax, 8);
    }
  }

 private:
  bool gathers() const { return style_.head.gathers_logits && w_.sizes().tensor > 1; }
  void kernel(const char* name, Streaming kind, double bytes_each) { w_.forward(name, kind, logits_, bytes_each); }
  /// An fp32 number of every token, reduced over the shards of the vocabulary.
  void reduce(double each = 1) {
    if (w_.sizes().tensor > 1 && !gathers())
      w_.add(CommOp{w_.out_group(), Exchange::all_reduce, each * real(w_.sizes().tokens), 4, "loss", "",
                    CommOverlap::none, CommOverlap::none});
  }

  LayerWriter& w_;
  const calibration::LayerStyle& style_;
  double e_, logits_;  // bytes of an activation, elements
};

}  // namespace

Layer embedding_layer(LayerWriter& writer) {
  const Model& model = writer.model();
  const Sizes& sizes = writer.sizes();
  const double e = writer.element();
  const double gradient = calibration::bytes_of(writer.computation().precision.gradients);
  writer.backward("embedding backward", Streaming::embedding_backward, sizes.hidden, e + 2 * gradient);
  writer.forward("embedding", Streaming::embedding, sizes.hidden, 2 * e);
  // Held whole, it leaves each rank's tokens where they are; gradients of all tokens come together for its own.
  const bool whole = writer.style().head.whole_embedding, gathers = whole && sizes.sequence_parallel;
  if (sizes.tensor > 1 && (!whole || gathers))
    writer.add(CommOp{writer.out_group(), writer.reduces(), sizes.hidden, e, "embedding, forward",
                      "embedding gradient, backward", CommOverlap::none, CommOverlap::none, 0,
                      gathers ? CommOp::In::backward : CommOp::In::both, writer.ordering(e), writer.ordering(e)});
  writer.dropout(sizes.outside, "embedding dropout backward", Direction::backward);
  writer.dropout(sizes.outside, "embedding dropout", Direction::forward);
  Layer layer;
  layer.kind = LayerKind::embedding;
  layer.ops = writer.take();
  layer.kept = {{"dropout mask", sizes.outside, writer.style().dropout ? 1.0 : 0.0, 0}};
  const double words = real(sizes.vocab) * (whole ? sizes.parts() : 1) * real(sizes.width);
  layer.working = {{"weight gradient", words, writer.own_gradient(), 0, true}};
  layer.weights = {{"word embedding", words}};
  if (model.positions == Positions::learned)
    layer.weights.push_back({"positions", real(model.seq) * real(sizes.width)});
  writer.copied_unit(layer, false);
  return layer;
}

Layer head_layer(LayerWriter& writer) {
  constexpr std::int32_t kProducts = 0, kLoss = 1;  // halves of its backward pass, from the last
  const Model& model = writer.model();
  const Sizes& sizes = writer.sizes();
  const Computation& computation = writer.computation();
  const double e = writer.element();
  writer.final_norm();
  MatMul p{"lm head", sizes.vocab, sizes.width, sizes.tokens, computation.precision.activations};
  p.sum = computation.fuses_wgrad_accumulation() ? computation.precision.gradients : DataType::fp32;
  writer.column({p}, writer.enter_head());
  LossWriter loss(writer);
  loss.gather();
  loss.z_loss();
  loss.loss();
  loss.metrics();
  Layer layer;
  layer.kind = LayerKind::head;
  layer.ops = writer.take();
  const double outside = sizes.outside, logits = LossWriter::logits_of(writer);
  const double linear_input = writer.style().linear.keeps_gathered_inputs ? sizes.hidden : outside;
  // In steps a norm keeps its input in fp32, and what it made of it ahead of its weights.
  const double norm_input = writer.final_norm_in_steps() ? (4 + e) / e * outside : outside;
  layer.kept = {{"norm and linear input", norm_input + linear_input, e, kProducts},
                {"logits", logits, writer.style().head.fused_cross_entropy ? e : 4, kLoss}};
  if (writer.style().head.z_loss) layer.kept.push_back({"softmax of the z-loss", logits, 4, kLoss});
  // One copy: forward the 16-bit logits that are cast, backward their gradient in 16 bit, never both. In steps over
  // shards of a vocabulary one more in fp32 (pytorch/pytorch, torch/distributed/tensor/parallel/loss.py,
  // _nll_loss_and_log_softmax_backward: gradient, exponentials and their sum).
  const bool shards = sizes.tensor > 1 && !writer.style().head.gathers_logits;
  const double steps = writer.style().head.loss_copies, copies = steps > 1 && shards ? steps + 4 / e : steps;
  layer.working = {{"logits beside the kept ones", logits, e * copies, kLoss},
                   {"logit gradient", logits, e, kProducts},
                   {"input gradient", sizes.hidden, e, kProducts},
                   {"weight gradient", real(sizes.vocab) * real(sizes.width), writer.own_gradient(), kProducts, true}};
  layer.between = {{"linear input and logit gradient", outside + logits, e}};
  layer.weights = {{"final norm", real(model.norm_parameters()) / real(sizes.tensor_in), 0, true}};
  layer.weights.front().tensors = static_cast<std::int32_t>(model.norm_parameters() / model.hidden);
  // Tied weights: where one stage has both ends the head is the embedding; else the last stage holds a copy.
  if (!model.tied_embeddings || !computation.ends_on_one_stage)
    layer.weights.push_back({"lm head", real(sizes.vocab) * real(sizes.width)});
  layer.gap = writer.style().head.loss_gap * e * logits;
  writer.copied_unit(layer, false);
  return layer;
}

}  // namespace orrery::workloads
