// The structures of an engine's kernels: what each counts of a shape (Work), and what its time is made of. Common to
// all: tasks are dealt out to processors in waves, a processor pulls no more than `stream` times its share of the
// memory's bandwidth, all of them no more than `efficiency` of it, and a kernel takes `launch` at least. Bounds of
// parameters are what is physical; where one leaves a bound's neighbourhood open, the data do not tell it.
#pragma once

#include "calibration/device/serving_model.h"

namespace orrery::calibration {

/// Paged attention of one query a sequence. A task is a sequence's key/value head, split along its keys where
/// processors would idle (flash decoding), the parts then joined.
namespace decode {
enum : std::size_t {
  sequences,
  visible,
  longest,
  heads,
  kv_heads,
  head_dim,
  value_dim,
  kv_bytes,
  cached,
  shared,
  windowed
};
extern const ServingFamily kFamily;
extern const ServingFamily kLatent;
}  // namespace decode

/// Causal attention of prompts: tasks of 128 queries and one head.
namespace prefill {
enum : std::size_t {
  sequences,
  fresh,
  keys,
  heads,
  kv_heads,
  head_dim,
  value_dim,
  kv_bytes,
  pairs,
  longest,
  type,
  full,
  windowed
};
extern const ServingFamily kFamily;
extern const ServingFamily kLatent;
}  // namespace prefill

/// A product of few rows: tiles, split along the inner dimension where processors would idle.
namespace product {
enum : std::size_t { m, n, k, weight, type };
extern const ServingFamily kFamily;
}  // namespace product

/// Experts of a rank: two grouped products with an activation between, rows sorted before and summed up after.
namespace mixture {
enum : std::size_t { tokens, activated, rows, hidden, ffn, first, top_k, experts, weight, type };
extern const ServingFamily kFamily;
}  // namespace mixture

/// A small all-reduce: everyone reads all (one shot), or a part that is then gathered (two shots), or the collective
/// library's.
namespace reduce {
enum : std::size_t { gpus, bytes };
extern const ServingFamily kFamily;
}  // namespace reduce

/// A layer's whole latent attention, decoding (absorbed) or on prompts (expanded).
namespace block {
enum : std::size_t { sequences, fresh, visible, heads, pairs, weight, type, kv_bytes, projected, row, expanded };
extern const ServingFamily kDecode;
extern const ServingFamily kPrompt;
}  // namespace block

/// Mixers with a state: the convolution ahead of a scan, the scan of prompts, and the step of a state.
namespace scan {
enum : std::size_t { sequences, positions, heads, width, flops, bytes, links };
extern const ServingFamily kConvolution;
extern const ServingFamily kPrompt;
extern const ServingFamily kStep;
}  // namespace scan

/// A layer's whole sparse attention: keys that are chosen, or that stand for many tokens. `scored`: pairs of a query
/// and a key; `indexed`: elements that a score multiplies; `slots`: pairs that attention computes, each of `width`.
namespace sparse {
enum : std::size_t {
  sequences,
  fresh,
  keys,
  heads,
  scored,
  indexed,
  slots,
  width,
  read,
  projected,
  weight,
  type,
  hidden
};
extern const ServingFamily kDecode;
extern const ServingFamily kPrompt;
extern const ServingFamily kMsaDecode;
extern const ServingFamily kMsaPrompt;
}  // namespace sparse

/// Softmax over rows of logits, and a token of each by its probability.
namespace sample {
enum : std::size_t { rows, logits };
extern const ServingFamily kFamily;
}  // namespace sample

/// Low-latency dispatch and combine.
namespace exchange {
enum : std::size_t { tokens, row_bytes, top_k, experts, gpus, nodes };
extern const ServingFamily kFamily;
}  // namespace exchange

}  // namespace orrery::calibration
