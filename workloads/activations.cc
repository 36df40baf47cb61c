// Activations, tensor by tensor, as Megatron-LM's autograd keeps them.
//
// Korthikanti et al. (arXiv 2205.05198), equations 1 to 6, with e = 2 byte activations and one-byte dropout masks: a
// layer keeps s b h (10 + 24/t + 5 a s / (h t)); with sequence parallelism s b h / t (34 + 5 a s / h); the last term
// goes with fused attention (which keeps the log-sum-exp of each row in fp32 instead; Dao, arXiv 2307.08691) and with
// selective recompute; full recompute keeps the input, 2 s b h. The embedding keeps its dropout mask, the head its two
// inputs and the logits: in fp32 where the loss is computed operation by operation on a copy, else in 16 bit (section
// 4.3 there). The backward pass needs more than was kept: gradients of the half layer it is in, what it recomputes, and
// where the weight-gradient GEMM does not add into the accumulators, the 16-bit gradient of the largest weight.
// Cut in two, the first half of a backward pass leaves what the weight gradients need, the inputs and the gradients of
// the linear layers' outputs, 32 s b h (Qi et al., arXiv 2401.10241, table 1).
// A sequence is cut over the context-parallel group. Left out: kernels' own workspaces, tensors alive for one kernel.
#include "workloads/activations.h"

#include <algorithm>

namespace orrery::workloads {

namespace {

double d(std::int64_t x) { return static_cast<double>(x); }

/// Sizes that every formula below starts from.
struct Sizes {
  explicit Sizes(const Job& job)
      : element(calibration::bytes_of(job.precision.activations)),
        tensor(d(job.parallelism.tensor)),
        tokens(d(job.rank_seq()) * d(job.batch.micro)),
        hidden(tokens * d(job.model.hidden)),
        cut(job.parallelism.sequence_parallel ? tensor : 1.0) {}
  double element, tensor, tokens;
  double hidden;  // elements of one hidden state
  double cut;     // ranks that share what lies outside the tensor-parallel regions
};

/// The gradient of a weight as an own tensor, which the fused accumulation avoids.
double weight_gradient_bytes(const Job& job, double elements) {
  return fuses_wgrad_accumulation(job) ? 0 : calibration::bytes_of(job.precision.activations) * elements;
}

}  // namespace

double LayerBytes::kept(Recompute recompute) const {
  if (recompute == Recompute::full) return input;
  return attention + mlp + (recompute == Recompute::none ? scores : 0);
}

double LayerBytes::working(Recompute recompute) const {
  const double all = attention + scores + mlp - input;
  const double in_mlp = mlp_gradients + (recompute == Recompute::full ? all : 0);
  // By then the feed-forward half has been freed.
  double in_attention = attention_gradients - mlp;
  if (recompute == Recompute::full) in_attention += all;
  if (recompute == Recompute::selective) in_attention += scores;
  return std::max(in_mlp, in_attention);
}

LayerBytes layer_bytes(const Job& job) {
  const Model& m = job.model;
  const Sizes z(job);
  const double e = z.element;
  const double kv = d(m.kv_heads * m.head_dim()) / d(m.hidden), q = d(m.attention_width()) / d(m.hidden);
  const double ffn = d(m.ffn_hidden) / d(m.hidden);
  const double branches = m.gated_mlp ? 3 : 2;  // gate, up projection, activation
  LayerBytes layer;
  layer.input = e * z.hidden / z.cut;
  // Norm input, input of the column-parallel layer, dropout mask; q, k, v and attention output.
  const double mask = job.software.layers.dropout ? 1 : 0;
  layer.attention = z.hidden * ((2 * e + mask) / z.cut + e * (2 * q + 2 * kv) / z.tensor);
  // The same outside; in a parallel block both halves share one norm, one input and one dropout.
  layer.mlp = z.hidden * ((m.parallel_block ? 0 : 2 * e + mask) / z.cut + e * ffn * branches / z.tensor);
  const double residual = 2 * e * z.hidden / z.cut;
  layer.mlp_gradients = residual + e * z.hidden * ffn * branches / z.tensor +
                        weight_gradient_bytes(job, d(m.hidden) * d(m.ffn_hidden) / z.tensor);
  // Gradients of q, k, v and the output; fused kernels add up q's in fp32.
  layer.attention_gradients = residual + e * z.hidden * (2 * q + 2 * kv) / z.tensor;
  // Of qkv, projection, up and down: inputs, then gradients of the outputs.
  layer.between = e * z.hidden * (2 / z.cut + (q + ffn) / z.tensor) +
                  e * z.hidden * (2 / z.cut + (q + 2 * kv + ffn * (branches - 1)) / z.tensor);
  const double rows = d(m.heads) / z.tensor * z.tokens;
  if (job.attention == AttentionKind::unfused) {
    const double scores = rows * d(m.seq);
    layer.scores = scores * (job.software.layers.dropout ? 2 * e + 1 : e);
    layer.attention_gradients += 2 * e * scores;
  } else {
    layer.attention += 4 * rows;
    layer.attention_gradients += 4 * q * z.hidden / z.tensor;
  }
  return layer;
}

EndBytes embedding_bytes(const Job& job) {
  const Sizes z(job);
  return {job.software.layers.dropout ? z.hidden / z.cut : 0, 0};
}

EndBytes head_bytes(const Job& job) {
  const Sizes z(job);
  const double shard = d(padded_vocab(job)) / z.tensor;
  const double logits = z.tokens * shard;
  EndBytes head;
  head.kept = 2 * z.element * z.hidden / z.cut + logits * (job.software.layers.fused_cross_entropy ? z.element : 4);
  // Forward: the 16-bit logits that are copied; backward: their gradient in 16 bit. Never both.
  head.working = z.element * logits + weight_gradient_bytes(job, shard * d(job.model.hidden));
  head.between = z.element * (z.hidden / z.cut + logits);
  return head;
}

PassBytes pass_bytes(const Job& job, const ChunkShape& shape, bool last) {
  const LayerBytes layer = layer_bytes(job);
  PassBytes pass;
  pass.kept = d(shape.layers) * layer.kept(job.recompute);
  if (shape.embedding) pass.kept += embedding_bytes(job).kept;
  if (!last && job.software.memory.keeps_pipeline_outputs) pass.kept += residual_bytes(job);
  const EndBytes head = shape.head ? head_bytes(job) : EndBytes{};
  pass.between = d(shape.layers) * layer.between + head.between;
  pass.kept += head.kept;
  pass.working = head.working;
  // The head's backward pass is over, and its activations freed, when the layers' begins.
  if (shape.layers > 0) pass.working = std::max(pass.working, layer.working(job.recompute) - head.kept);
  return pass;
}

double layer_activation_bytes(const Job& job) { return layer_bytes(job).kept(job.recompute); }

double hidden_bytes(const Job& job) {
  const Sizes z(job);
  return z.element * z.hidden;
}

double residual_bytes(const Job& job) {
  const Sizes z(job);
  return z.element * z.hidden / z.cut;
}

}  // namespace orrery::workloads
