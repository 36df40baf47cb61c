// See served_mixers.h. A mixer with a state is one product in, the split of what it made, a short convolution, the scan
// (prompts in chunks; decoding, a step of the state), a norm times a gate, one product out (sglang, srt/models/
// qwen3_next.py, srt/layers/attention/linear/gdn_backend.py; vLLM, model_executor/layers/mamba/mamba_mixer2.py). States
// are kept in fp32 (mamba_ssm_dtype of Qwen3-Next's configuration) but where an engine is told otherwise, the
// convolution's last positions in 16 bits. Heads of keys that are fewer than ranks have copies.
//
// Sparse attention is a block that calibration/device/serving_sparse.cc counts whole. What a token leaves: DeepSeek's
// latent row, in 8 bits with a scale in fp32 for each 128 channels and its rotated part in 16 (656 bytes;
// deepseek-ai/FlashMLA, README, "FP8 KV cache"), and the indexer's key in 8 bits with its scale; of compressed keys one
// for so many tokens, and the last tokens as they are.
//
// Operators of a graph run one by one: products with what tensor ranks add up, kernels of what they read and write.
//
// Left out: the padding of pages that vLLM shares between states and keys; the few positions that an operator's
// convolution sees of earlier tokens.
#include "workloads/model/served_mixers.h"

#include <algorithm>
#include <cmath>

#include "sim/real.h"
#include "workloads/model/mixers/mixers.h"

namespace orrery::workloads {

namespace {

using calibration::SparseBlock;
using sim::real;

constexpr double kServedActivation = 2, kServedSingle = 4;  // bytes
constexpr double kScaleChannels = 128;                      // channels that share a scale

double served_key_heads(std::int64_t heads, double tensor) { return std::max(1.0, real(heads) / tensor); }

/// Weights with a scale a tensor run as those with one a block, which tables have.
WeightType sparse_type(WeightType type) { return type == WeightType::fp8 ? WeightType::fp8_block : type; }

SparseBlock::Kind sparse_kind(const SparseAttention& sparse) {
  if (sparse.compressed())
    return sparse.indexes() || sparse.chooses() ? SparseBlock::Kind::csa : SparseBlock::Kind::hca;
  return sparse.block > 1 ? SparseBlock::Kind::msa : SparseBlock::Kind::dsa;
}

/// Bytes of what a token leaves in the cache, and of what a sequence does however long it is.
void count_sparse_cache(SparseOp& op, const SparseAttention& sparse, double kv_bytes) {
  const SparseBlock& b = op.block;
  const double index = sparse.indexes() ? b.index_dim + kServedSingle * std::ceil(b.index_dim / kScaleChannels) : 0;
  if (b.kind == SparseBlock::Kind::dsa) {
    const double latent =
        kv_bytes < 2 ? b.kv_rank * (1 + kServedSingle / kScaleChannels) + 2 * b.rope : 2 * (b.kv_rank + b.rope);
    op.token_bytes = latent + index;
  } else if (b.kind == SparseBlock::Kind::msa) {
    op.token_bytes = 2 * served_key_heads(std::llround(b.kv_heads), b.all_heads / b.heads) * b.value * kv_bytes + index;
  } else {
    op.token_bytes = b.ratio > 0 ? (b.value * kv_bytes + index) / b.ratio : 0;
    op.sequence_bytes = b.window * b.value * kv_bytes;
  }
}

}  // namespace

void add_served_state(std::vector<ServedOp>& ops, const Model& model, const StateMixer& mixer,
                      const ServedPrecision& precision, double tensor) {
  const double hidden = real(model.hidden), heads = real(mixer.heads) / tensor;
  const double key_heads = served_key_heads(mixer.key_heads, tensor);
  const double values = heads * real(mixer.value_dim), keys = key_heads * real(mixer.key_dim);
  const MixerParts parts = mixer.kind->parts(mixer);
  const double rates = real(parts.rates) / tensor;
  const double made = values + 2 * keys + (parts.makes_gate ? values : 0);
  // Mamba-2's steps are made with the rest, a delta rule's rates by a product of their own in 16 bits.
  const bool apart = mixer.kind->rates_apart && rates > 0;
  const double mixtures = parts.mixtures > 1 ? 1 + real(parts.mixtures) : 0;  // one tensor read, so many written
  if (mixtures > 0) ops.push_back(RowsOp{"mixtures of tokens", kServedActivation * mixtures * hidden});
  ops.push_back(ProductOp{"mixer in", precision.attention, made + (apart ? 0 : rates), hidden});
  if (apart) ops.push_back(ProductOp{"rates", WeightType::bf16, rates, hidden});
  if (const std::int64_t inside = thin_inside(parts); inside > 0)
    ops.push_back(ProductOp{"thin gates down", precision.attention, real(inside), hidden});
  for (const ThinProduct& thin : parts.thin)
    ops.push_back(ProductOp{thin.name, precision.attention, real(thin.out) / tensor, real(thin.inside)});
  ops.push_back(RowsOp{"mixer split", 2 * kServedActivation * (made + rates)});
  StateOp state;
  state.scan.kind = mixer.kind->scan;
  state.scan.heads = heads;
  state.scan.key_heads = key_heads;
  state.scan.key_dim = real(mixer.key_dim);
  state.scan.value_dim = real(mixer.value_dim);
  state.convolved = mixer.conv > 0;
  const double taps = state.convolved ? real(mixer.conv - 1) : 0;
  state.scan.state_bytes = precision.state_bytes;
  state.sequence_bytes = precision.state_bytes * heads * real(mixer.key_dim * mixer.value_dim) +
                         kServedActivation * (taps * (values + 2 * keys) + (mixtures > 0 ? hidden : 0));
  state.weights = kServedActivation * real(mixer.conv) * (values + 2 * keys) + kServedSingle * 2 * heads;
  ops.push_back(state);
  ops.push_back(RowsOp{mixer.normed ? "gated norm" : "gate", 3 * kServedActivation * values});
  ops.push_back(ProductOp{"mixer out", precision.attention, hidden, values});
}

void add_served_operators(std::vector<ServedOp>& ops, const Model& model, const Operators& operators,
                          const ServedPrecision& precision, double tensor) {
  const double row = kServedActivation * real(model.hidden);
  bool inside = false;
  for (const Operator& op : operators.run) {
    const bool opens = op.cut == Operator::Cut::out, sums = op.cut == Operator::Cut::in || op.cut == Operator::Cut::sum;
    switch (op.kind) {
      case Operator::Kind::norm:
        ops.push_back(RowsOp{"operator norm", 2 * row});
        break;
      case Operator::Kind::product:
        ops.push_back(ProductOp{"operator product", precision.weights, real(op.out) / (opens ? tensor : 1),
                                real(op.in) / (sums ? tensor : 1), Rows::all, Branch::line, !op.shared});
        if (sums && tensor > 1) ops.push_back(SumOp{tensor, kServedActivation * real(op.out), std::nullopt});
        inside = opens || op.cut == Operator::Cut::sum;
        break;
      case Operator::Kind::residual:
        ops.push_back(RowsOp{"operator sum", (model.post_norm ? 4 : 3) * row});
        break;
      case Operator::Kind::attention: {
        const double parts = inside ? tensor : 1, keys = std::max(1.0, real(op.kv_heads) / parts),
                     dim = real(op.head_dim);
        ops.push_back(RowsOp{"operator cache", keys * dim * 2 * (kServedActivation + precision.kv_bytes)});
        ops.push_back(AttendOp{real(op.heads) / parts, keys, dim, 0, precision.kv_bytes, op.causal, op.causal});
        break;
      }
      default:
        ops.push_back(RowsOp{"operator", kServedActivation * (op.reads + op.writes) / (inside ? tensor : 1)});
    }
    if (op.weights > 0 && !op.shared)
      ops.push_back(TableOp{"operator weights", kServedActivation * op.weights / (opens ? tensor : 1)});
  }
}

void add_served_inputs(std::vector<ServedOp>& ops, const Model& model, const ServedPrecision& precision,
                       double tensor) {
  if (!model.layer_inputs.any()) return;
  const double all = real(model.layer_inputs.width * model.layers), moved = kServedActivation * all;
  ops.push_back(RowsOp{"layer input embedding", 2 * moved});
  ops.push_back(TableOp{"layer input embedding", kServedActivation * real(model.layer_inputs.vocab) * all / tensor});
  ops.push_back(ProductOp{"layer inputs of the embedding", precision.weights, all, real(model.hidden)});
  ops.push_back(RowsOp{"layer input norm", 5 * moved});  // and what the table has added
}

void add_served_sparse(std::vector<ServedOp>& ops, const Model& seen, const ServedPrecision& precision, double tensor) {
  const Model::Attention& attention = seen.attention;
  const SparseAttention& sparse = attention.sparse;
  SparseOp op;
  SparseBlock& b = op.block;
  b.kind = sparse_kind(sparse);
  b.type = sparse_type(precision.attention);
  b.heads = real(attention.heads) / tensor;
  b.all_heads = real(attention.heads);
  b.kv_heads = real(attention.kv_heads);
  b.kv_bytes = precision.kv_bytes;
  b.hidden = real(seen.hidden);
  b.value = real(seen.head_dim());
  b.index_heads = real(sparse.index_heads);
  b.index_dim = real(sparse.index_dim);
  b.chosen = real(sparse.chosen * sparse.block);
  b.ratio = real(sparse.ratio);
  b.window = real(sparse.window);
  b.out_groups = real(sparse.out_groups);
  b.out_rank = real(sparse.out_rank);
  b.q_rank = real(sparse.q_rank);
  if (const LatentAttention& latent = attention.latent; b.kind == SparseBlock::Kind::dsa) {
    b.q_rank = real(latent.q_rank);
    b.kv_rank = real(latent.kv_rank);
    b.nope = real(latent.nope_dim);
    b.rope = real(latent.rope_dim);
    b.value = real(latent.v_dim);
  }
  op.weights = calibration::work_of(b).weights * calibration::weight_bytes(b.type);
  count_sparse_cache(op, sparse, precision.kv_bytes);
  ops.push_back(op);
}

}  // namespace orrery::workloads
