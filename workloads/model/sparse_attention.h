// What attention to some of the keys says beside heads and widths. Keys are chosen by an indexer, small heads of its
// own that score every key ahead of a query: DeepSeek Sparse Attention (DSA, DeepSeek-V3.2, arXiv 2512.02556) chooses
// keys of latent attention, MiniMax Sparse Attention (MSA, MiniMax-M3) blocks of them for each head of keys. Or keys
// are compressed, many tokens to one: DeepSeek-V4's compressed sparse attention (CSA) chooses among keys of four
// tokens, its heavily compressed attention (HCA) sees all keys of 128; both see the last tokens as they are beside
// these.
#pragma once

#include <algorithm>
#include <cstdint>

namespace orrery::workloads {

struct SparseAttention {
  std::int64_t index_heads = 0;  // of the indexer; 0: it has none, and sees what a layer ahead has chosen, if anything
  std::int64_t index_dim = 0;
  std::int64_t chosen = 0;  // keys, or blocks of keys, that a query attends to
  std::int64_t block = 1;   // keys that are chosen together, for each head of keys by itself where there are several
  /// Compressed attention: queries by way of `q_rank`, one head that is both key and value, and an output in groups of
  /// heads, each by way of `out_rank`.
  std::int64_t q_rank = 0, out_groups = 0, out_rank = 0;
  std::int64_t ratio = 0;   // tokens to a key; 0: there are no such keys, the window alone is seen
  std::int64_t window = 0;  // the last tokens, which are keys too

  bool any() const { return chooses() || compressed(); }
  bool chooses() const { return chosen > 0; }
  bool indexes() const { return index_heads > 0; }
  bool compressed() const { return out_groups > 0; }
  /// Scores of one pair of positions that are kept apart for the choice.
  std::int64_t choices() const { return block > 1 && indexes() ? index_heads : 1; }
  /// Copies of what a compressor makes of a token: keys of few tokens overlap.
  std::int64_t copies() const { return ratio > 0 && ratio < kOverlap ? 2 : 1; }

  static constexpr std::int64_t kOverlap = 8;
  bool operator==(const SparseAttention&) const = default;
};

}  // namespace orrery::workloads
