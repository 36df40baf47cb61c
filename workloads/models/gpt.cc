// The ends of a GPT, embedding and LM head, and the entry of the model family; see gpt.h for the sources.
#include "workloads/models/gpt.h"

#include "workloads/models/chunk_builder.h"

namespace orrery::workloads {

void ChunkBuilder::embedding_forward() {
  stream(Streaming::embedding, 2 * hidden_elements() * element_, "embedding");
  comm(sequence_parallel_ ? CollectiveOp::reduce_scatter : CollectiveOp::all_reduce, hidden_elements(),
       "embedding, forward", CommOverlap::none, wire_element());
  dropout(norm_elements(), "embedding dropout");
}

void ChunkBuilder::embedding_backward() {
  dropout(norm_elements(), "embedding dropout backward");
  if (sequence_parallel_)
    comm(CollectiveOp::all_gather, hidden_elements(), "embedding gradient, backward", CommOverlap::none,
         wire_element());
  stream(Streaming::embedding_backward,
         hidden_elements() * (element_ + 2 * calibration::bytes_of(job_.precision.gradients)), "embedding backward");
}

double ChunkBuilder::logits() const {
  return static_cast<double>(tokens_) * static_cast<double>(padded_vocab(job_) / tensor_);
}

/// Losses for the log, from the same logits: torch.nn.CrossEntropyLoss under autocast makes a fp32 copy and a
/// log-softmax of it (Composer, composer/metrics/nlp.py; llmfoundry's models log two unless told otherwise).
void ChunkBuilder::training_metrics() {
  const auto losses = static_cast<int>(std::lround(software_.layers.training_metrics));
  for (int i = 0; i < losses; ++i) {
    stream(Streaming::copy, logits() * (element_ + 4), "metric: logits to fp32");
    stream(Streaming::softmax, logits() * 8, "metric: log-softmax");
  }
}

void ChunkBuilder::head_forward() {
  layer_norm_forward("final layer norm");
  enter_forward("head input, forward");
  gemm("lm head", padded_vocab(job_) / tensor_, tokens_, model_.hidden, Gemm::Form::forward, {}, 1, false);
  if (software_.layers.fused_cross_entropy) {
    stream(Streaming::cross_entropy, logits() * element_, "cross entropy");
    comm(CollectiveOp::all_reduce, 3 * static_cast<double>(tokens_), "loss", CommOverlap::none, 4);
    return training_metrics();
  }
  if (software_.layers.cross_entropy_kernel && tensor_ == 1) {
    stream(Streaming::cross_entropy, logits() * (element_ + 4), "logits to fp32");
    stream(Streaming::cross_entropy, logits() * 8, "softmax with cross entropy");
    return training_metrics();
  }
  // One operation at a time on fp32 copies, as megatron/core/tensor_parallel/cross_entropy.py does.
  stream(Streaming::cross_entropy, logits() * (element_ + 4), "logits to fp32");
  stream(Streaming::cross_entropy, logits() * 4, "logit maximum");
  comm(CollectiveOp::all_reduce, static_cast<double>(tokens_), "loss", CommOverlap::none, 4);
  stream(Streaming::cross_entropy, logits() * 8, "subtract maximum");
  comm(CollectiveOp::all_reduce, static_cast<double>(tokens_), "loss", CommOverlap::none, 4);  // target logits
  stream(Streaming::cross_entropy, logits() * 8, "exponentials");
  stream(Streaming::cross_entropy, logits() * 4, "sum of exponentials");
  comm(CollectiveOp::all_reduce, static_cast<double>(tokens_), "loss", CommOverlap::none, 4);
  stream(Streaming::cross_entropy, logits() * 8, "divide by sum");
  training_metrics();
}

void ChunkBuilder::head_backward() {
  if (software_.layers.fused_cross_entropy) {
    stream(Streaming::cross_entropy, logits() * 2 * element_, "cross entropy backward");
  } else {
    stream(Streaming::cross_entropy, logits() * 8, "scale softmax gradient");
    stream(Streaming::cross_entropy, logits() * (4 + element_), "logit gradient to 16 bit");
  }
  const bool async = software_.layers.async_tensor_backward || job_.overlap.tensor;
  if (sequence_parallel_) {
    comm(CollectiveOp::all_gather, hidden_elements(), "head saved input, backward",
         async ? CommOverlap::behind : CommOverlap::none, wire_element());
  }
  gemm("lm head data gradient", model_.hidden, tokens_, padded_vocab(job_) / tensor_, Gemm::Form::data_gradient, {}, 1,
       false);
  comm(sequence_parallel_ ? CollectiveOp::reduce_scatter : CollectiveOp::all_reduce, hidden_elements(),
       "head input gradient, backward", beside_weights(async), wire_element());
  into_weights([&] {
    gemm("lm head weight gradient", padded_vocab(job_) / tensor_, model_.hidden, tokens_, Gemm::Form::weight_gradient,
         fuses_wgrad_accumulation(job_) ? job_.precision.gradients : DataType::fp32, 1, false);
  });
  cut_ = tensor_ > 1;
  layer_norm_backward("final layer norm backward");
}

ChunkPasses gpt_chunk(const Job& job, const ChunkShape& shape) { return ChunkBuilder(job).build(shape); }

}  // namespace orrery::workloads
