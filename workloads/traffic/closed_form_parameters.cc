// Formulas of a GPT's parameters on one rank. See closed_form_parameters.h.
#include "workloads/traffic/closed_form_parameters.h"

namespace orrery::workloads {

namespace {

/// Of an encoder of images: patches and their places, blocks of four squares and an MLP, mergers of two products.
double encoder_parameters(const Model& model) {
  const Encoder& e = model.encoder;
  if (!e.any()) return 0;
  const auto d = [](std::int64_t count) { return static_cast<double>(count); };
  const double h = d(e.hidden), f = d(e.ffn_hidden), wide = d(e.merge) * h, out = d(model.hidden);
  const double norm = e.gated ? h : 2 * h, biases = e.gated ? 3 * h : 4 * h + f + h;
  const double block = 4 * h * h + (e.gated ? 3 : 2) * h * f + biases + 2 * norm;
  const double merger = wide * wide + wide + wide * out + out;
  return h * d(e.patch) + h + h * d(e.positions) + d(e.layers) * block + d(e.mergers) * (merger + 2 * wide) -
         2 * (wide - h);  // the first merger's norm is of patches
}

/// A table of all layers' inputs, a product of the hidden state to them, and a norm of a layer's.
double layer_input_parameters(const Model& model) {
  const auto width = static_cast<double>(model.layer_inputs.width), all = width * static_cast<double>(model.layers);
  const auto h = static_cast<double>(model.hidden), words = static_cast<double>(model.layer_inputs.vocab);
  return width > 0 ? words * all + h * all + width : 0;
}

}  // namespace

ShardParameters shard_parameters(const Model& model, std::int64_t tensor, bool pads_vocabulary, bool ends_meet,
                                 std::int64_t inputs, bool whole_embedding) {
  const auto t = static_cast<double>(tensor), in = static_cast<double>(inputs), out = t / in;
  const auto h = static_cast<double>(model.hidden);
  const auto f = static_cast<double>(model.mlp.hidden);
  const auto a = static_cast<double>(model.attention_width()), norm = static_cast<double>(model.norm_parameters());
  const double qkv = a + 2 * static_cast<double>(model.attention.kv_heads * model.head_dim());
  const double up = model.mlp.gated ? 2 : 1;
  const double qkv_bias = model.biases == Biases::none ? 0 : 1, bias = model.biases == Biases::all ? 1 : 0;
  const double norms = (model.parallel_block ? norm : 2 * norm) * (model.post_norm ? 2 : 1);
  const auto of_heads = static_cast<double>(model.qk_norm_parameters());  // on every rank, of a head's width
  ShardParameters shard;
  // Weights and the biases of column-parallel layers are split; norms and the biases after a reduction are copied.
  shard.layer = (qkv * h + a * h + up * f * h + f * h) / t + (qkv * qkv_bias + up * f * bias) / out +
                (bias * 2 * h + norms) / in + of_heads;
  const double vocabulary = static_cast<double>(padded_vocab(model.vocab, tensor, pads_vocabulary)) / t * h;
  shard.embedding = (whole_embedding ? t : 1) * vocabulary +
                    (model.positions == Positions::learned ? static_cast<double>(model.seq) * h / in : 0);
  if (model.positions == Positions::relative)  // T5's 32 buckets
    shard.embedding += 32 * static_cast<double>(model.attention.heads) / t * (model.source > 0 ? 2 : 1);
  shard.embedding += encoder_parameters(model) + layer_input_parameters(model);
  // Around each half maps of n (n + 2) numbers a token from n streams, ahead of the head of n; biases, and factors.
  const auto n = static_cast<double>(model.residual_streams);
  if (n > 1) shard.layer += (model.parallel_block ? 1 : 2) * (n * (n + 2) * (n * h + 1) + 3);
  // Tied weights: where one stage has both ends the head is the embedding; else the last stage holds a copy.
  shard.head = norm / in + (model.tied_embeddings && ends_meet ? 0 : vocabulary) + (n > 1 ? n * (n * h + 1) + 1 : 0);
  return shard;
}

}  // namespace orrery::workloads
