// Embedding and LM head with its loss. See halves.h. The embedding keeps its dropout mask, the head its two inputs and
// what its loss keeps of the logits (calibration/recipes/loss.yaml; arXiv 2205.05198, section 4.3). Its backward pass
// has two halves: that of the loss frees what was kept of the logits before the head's products begin.
#include <cmath>

#include "sim/real.h"
#include "workloads/model/encoder_layers.h"
#include "workloads/model/halves.h"
#include "workloads/model/layer_inputs.h"

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

  calibration::RecipeSizes loss_sizes() const {
    const bool group = w_.sizes().tensor > 1;
    return {calibration::RecipePart::loss,
            {{"logits", logits_},
             {"tokens", real(w_.sizes().tokens)},
             {"e", e_},
             {"group", group},
             {"shards", group && !gathers()}}};
  }
  void loss() { w_.run(loss_sizes()); }

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
  void reduce() {
    if (w_.sizes().tensor > 1 && !gathers())
      w_.add(CommOp{w_.out_group(), Exchange::all_reduce, real(w_.sizes().tokens), 4, "loss", "", CommOverlap::none,
                    CommOverlap::none});
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
  // Buckets of distances, for every head, of each stack.
  if (model.positions == Positions::relative)
    layer.weights.push_back({"relative positions", real(kDistanceBuckets * model.stacks() * sizes.heads)});
  if (model.layer_inputs.any()) put_layer_inputs(writer, layer);
  if (model.encoder.any()) put_encoder_ahead(writer, layer);
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
  layer.kept = {{"norm and linear input", norm_input + linear_input, e, kProducts}};
  layer.working = {{"logit gradient", logits, e, kProducts},
                   {"input gradient", sizes.hidden, e, kProducts},
                   {"weight gradient", real(sizes.vocab) * real(sizes.width), writer.own_gradient(), kProducts, true}};
  writer.keep(loss.loss_sizes(), kLoss, layer);
  if (writer.style().head.z_loss) layer.kept.push_back({"softmax of the z-loss", logits, 4, kLoss});
  layer.between = {{"linear input and logit gradient", outside + logits, e}};
  layer.weights = {{"final norm", real(model.norm_parameters()) / real(sizes.tensor_in), 0, true}};
  layer.weights.front().tensors = static_cast<std::int32_t>(model.norm_parameters() / model.hidden);
  // Tied weights: where one stage has both ends the head is the embedding; else the last stage holds a copy.
  if (!model.tied_embeddings || !computation.ends_on_one_stage)
    layer.weights.push_back({"lm head", real(sizes.vocab) * real(sizes.width)});
  writer.copied_unit(layer, false);
  return layer;
}

}  // namespace orrery::workloads
