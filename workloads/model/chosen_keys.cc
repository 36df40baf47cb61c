// See chosen_keys.h. What runs, forward: the indexer's products, its scores of all pairs under the causal diagonal, the
// choice, attention to the chosen keys, and, since the indexer is trained to foresee attention, the products of queries
// and chosen keys once more for its target (deepseek-ai/DeepSeek-V3.2-Exp, arXiv 2512.02556, section 2.1, of its sparse
// stage; NVIDIA/Megatron-LM, megatron/core/transformer/experimental_attention_variant/dsa.py, msa.py). Backward: of
// attention five products in place of two, of the indexer scores of the chosen keys again and their two gradients. The
// indexer reads its input detached: nothing goes on from it into the layers ahead.
//
// Attention computes every slot of the choice, also of early queries that have fewer keys (flash_mla and TileLang's
// kernels loop over top_k). Keys are counted as read from memory once: queries side by side choose many of the same,
// and caches hold the rest; what this leaves out lies in the shares that tables of whole blocks show (a profile's
// `sparse`). On tensor ranks the indexer is whole on each (parallel_mode="duplicated" there), over gathered inputs.
//
// Context ranks each have queries of their own positions, and gather all keys, those of the indexer too; their
// gradients are scattered back (there, dsa.py, DSAttention.forward: cp_comm_type allgather alone, positions dealt out
// from both ends). Compressed keys are made of a rank's own tokens and gathered; positions are dealt out in one piece,
// so that the last rank, which the others wait for, sees up to twice the keys of the mean one (csa.py,
// csa_utils/cp_utils.py of the branch dev; rows of a window at a rank's first positions come from the rank ahead).
//
// Left out: those rows, and keys that its kernels pad to a fixed capacity; averaging the indexer's gradients over the
// tensor group, its rotation and Hadamard transform, scores in fp8 (engines' way; training multiplies 16 bits),
// attention's window kernel apart, and sinks, which are a number a head.
#include "workloads/model/chosen_keys.h"

#include <fmt/format.h>

#include "sim/real.h"
#include "workloads/model/halves.h"

namespace orrery::workloads {

namespace {

using calibration::MixerKernel;
using calibration::MixerWork;
using calibration::Streaming;
using sim::real;

constexpr double kSingle = 4, kIndex = 4;  // bytes of fp32; of the number of a key

}  // namespace

ChosenKeys::ChosenKeys(LayerWriter& writer, const Widths& widths)
    : w_(writer),
      s_(writer.model().attention.sparse),
      x_(widths),
      z_(writer.sizes()),
      e_(writer.element()),
      batch_(real(writer.split().micro_batch)),
      seq_(real(writer.model().seq)),
      ranks_(real(writer.split().context)),
      queries_(seq_ / ranks_),
      keys_(s_.compressed() ? (s_.ratio > 0 ? std::floor(seq_ / real(s_.ratio)) : 0) : seq_) {}

/// Slots of a query's choice.
double ChosenKeys::chosen() const { return std::min(real(s_.chosen * s_.block), keys_); }

/// Of the keys ahead of a query in the mean those that are ahead of the last rank's queries.
double ChosenKeys::late() const { return s_.compressed() ? 2 - 1 / ranks_ : 1; }

void ChosenKeys::gather_keys(double elements, const char* what, const char* what_backward) {
  if (ranks_ == 1) return;
  w_.add(CommOp{CommGroup::context, Exchange::all_gather, elements, e_, what, what_backward, CommOverlap::none,
                CommOverlap::none});
  w_.backward("put key gradients in order of ranks", Streaming::copy, elements, 2 * e_);
  w_.forward("put keys in order", Streaming::copy, elements, 2 * e_);
}

/// Of a rank's shard of every token, where sequences are cut.
void ChosenKeys::gather(double width) {
  if (!z_.sequence_parallel) return;
  CommOp op{w_.out_group(),
            Exchange::all_gather,
            real(z_.tokens) * width,
            e_,
            "indexer inputs, forward",
            "indexer inputs, backward",
            CommOverlap::none,
            CommOverlap::none};
  op.in = CommOp::In::forward;
  w_.add(op);
}

void ChosenKeys::choose(std::int64_t q_rank) {
  if (!s_.indexes()) return;
  const std::int64_t queries = s_.index_heads * s_.index_dim;
  gather(real(z_.width));
  if (q_rank > 0) gather(real(q_rank));
  LinearOp of_queries, of_hidden;
  of_queries.detached = of_hidden.detached = true;
  of_queries.products = {w_.product("index queries", queries, q_rank > 0 ? q_rank : z_.width)};
  // Keys, and where heads are weighed against each other their weights; keys of compressed tokens with their gates.
  const bool weighed = s_.block == 1;
  const std::int64_t made = s_.compressed() ? 2 * s_.copies() * s_.index_dim : s_.index_dim;
  of_hidden.products = {w_.product("index keys", made, z_.width)};
  if (weighed) of_hidden.products.push_back(w_.product("index weights", s_.index_heads, z_.width));
  w_.add(std::move(of_queries));
  w_.add(std::move(of_hidden));
  w_.backward("index rotation backward", Streaming::copy, z_.of_token(queries + s_.index_dim), 2 * e_);
  w_.forward("rotate index queries and keys", Streaming::copy, z_.of_token(queries + s_.index_dim), 2 * e_);

  const DataType type = w_.computation().precision.activations;
  const double heads = real(s_.index_heads), dim = real(s_.index_dim);
  gather_keys(batch_ * keys_ * dim, "index keys, forward", "index key gradients, backward");
  const double below = batch_ * queries_ * keys_ / 2 * late(), slots = batch_ * queries_ * chosen();
  const double operands = batch_ * (queries_ * heads * dim + keys_ * dim) * e_;
  const double scores = below * real(s_.choices()) / real(s_.block);
  MixerOp op;
  op.forward = {{"index scores", MixerKernel::index, {2 * below * heads * dim, operands + kSingle * scores, 1}, type},
                {"choice of keys",
                 MixerKernel::choice,
                 {0, kSingle * scores + kIndex * slots * real(s_.choices()) / real(s_.block), 1},
                 type}};
  const MixerWork gradients{6 * slots * heads * dim, 3 * operands + 2 * kSingle * slots * real(s_.choices()), 3};
  op.backward = {{"index scores backward", MixerKernel::index, gradients, type}};
  op.flops = 2 * batch_ * queries_ * keys_ * heads * dim;
  op.masked = op.flops / 2;
  op.text = fmt::format("index: {} x {} positions over {:.0f} keys, {} heads of {}, of which {:.0f} are chosen",
                        w_.split().micro_batch, w_.model().seq, keys_, s_.index_heads, s_.index_dim, chosen());
  w_.add(std::move(op));
}

/// Of all context ranks, beside which a rank has its own tokens' where keys are compressed.
double ChosenKeys::gathered_keys() const { return batch_ * (s_.compressed() ? keys_ : seq_) * real(x_.keys); }

void ChosenKeys::attend() {
  const double window = std::min(real(s_.window), seq_);
  // Slots that are computed, pairs of whole squares, and of these the pairs below the diagonal, of one sequence.
  const double reach = s_.chooses() ? chosen() : keys_, span = s_.compressed() ? seq_ / std::max(1.0, keys_) : 1;
  const double slots = queries_ * (s_.chooses() ? reach : reach / 2 * late()) + queries_ * window;
  const double square = queries_ * (reach + window);
  const double below = (reach * (seq_ - reach * span / 2) + window * (seq_ - window / 2)) / ranks_;
  const double heads = real(x_.heads), wide = real(x_.query + x_.value);
  gather_keys(gathered_keys(), "chosen keys, forward", "chosen key gradients, backward");
  const double rows = batch_ * queries_ * heads * wide * e_,
               keys = batch_ * (s_.compressed() ? queries_ + keys_ : seq_) * real(x_.keys) * e_;
  const double numbers = s_.chooses() ? batch_ * queries_ * chosen() * real(s_.choices()) / real(s_.block) * kIndex : 0;
  const DataType type = w_.computation().precision.activations;
  const MixerKernel kernel = s_.block > 1 ? MixerKernel::block_attention : MixerKernel::attention;
  MixerOp op;
  op.forward = {{"sparse attention", kernel, {2 * batch_ * slots * heads * wide, rows + keys + numbers, 1}, type}};
  if (s_.indexes())
    op.forward.push_back(
        {"target of the indexer",
         kernel,
         {2 * batch_ * queries_ * chosen() * heads * real(x_.query),
          batch_ * queries_ * (heads * real(x_.query) * e_ + kSingle * chosen() * real(s_.choices())) + keys, 1},
         type});
  const double products = real(3 * x_.query + 2 * x_.value);
  op.backward = {{"sparse attention backward",
                  kernel,
                  {2 * batch_ * slots * heads * products, 2 * rows + (1 + 2 * kSingle / e_) * keys + numbers, 2},
                  type}};
  op.flops = 2 * batch_ * square * heads * wide;
  op.masked = op.flops - 2 * batch_ * below * heads * wide;
  op.text =
      fmt::format("sparse attention: {} x {} positions, {:.0f} {}keys of each{}, {} heads of {} and {}",
                  w_.split().micro_batch, w_.model().seq, s_.chooses() ? reach : keys_, s_.chooses() ? "chosen " : "",
                  window > 0 ? fmt::format(" and {:.0f} tokens", window) : "", x_.heads, x_.query, x_.value);
  w_.add(std::move(op));
}

/// The indexer's queries, keys and weights, and which keys it chose with their targets; the row's log-sum-exp.
void ChosenKeys::keep(Layer& layer) const {
  layer.kept.push_back({"log-sum-exp of scores", z_.of_token(x_.heads), kSingle, kAttention});
  if (ranks_ > 1) layer.kept.push_back({"gathered keys", gathered_keys(), e_, kAttention});
  if (ranks_ > 1 && s_.indexes())
    layer.kept.push_back({"gathered index keys", batch_ * keys_ * real(s_.index_dim), e_, kAttention});
  if (!s_.indexes()) return;  // a choice of another layer's is kept there
  layer.kept.push_back({"index queries and keys", z_.of_token((s_.index_heads + 1) * s_.index_dim), e_, kAttention});
  if (s_.block == 1) layer.kept.push_back({"index weights", z_.of_token(s_.index_heads), e_, kAttention});
  const double slots = real(z_.tokens) * chosen();
  const double choices = slots * real(s_.choices()) / real(s_.block);
  layer.kept.push_back({"choice of keys", choices, kIndex, kAttention});
  const double targets = slots * real(s_.choices());
  layer.kept.push_back({"target of the indexer", targets, kSingle, kAttention});
  layer.working.push_back({"gradients of index scores", targets, kSingle, kAttention});
}

void ChosenKeys::weigh(Layer& layer, std::int64_t q_rank) const {
  if (!s_.indexes()) return;
  const double h = real(z_.width), dim = real(s_.index_dim), heads = real(s_.index_heads);
  const double in = q_rank > 0 ? real(q_rank) : h, made = s_.compressed() ? 2 * real(s_.copies()) * dim : dim;
  layer.weights.push_back({"index queries", heads * dim * in, in});
  layer.weights.push_back({"index keys", made * h, h});
  if (s_.block == 1) layer.weights.push_back({"index weights", heads * h, h});
  // Of compressed keys a scale, and a place of each token of a key; else a layer norm; by blocks norms of both.
  const double norm = s_.compressed() ? dim + real(s_.ratio * s_.copies()) * dim : 2 * dim;
  layer.weights.push_back({"index norm", norm});
  layer.weights.back().tensors = 2;
}

}  // namespace orrery::workloads
