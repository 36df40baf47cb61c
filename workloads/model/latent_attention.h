// Multi-head latent attention on one rank: the attention half of DeepSeek's models (arXiv 2405.04434, section 2.1).
#pragma once

#include "workloads/model/chosen_keys.h"
#include "workloads/model/halves.h"

namespace orrery::workloads {

/// Queries, keys and values by way of compressed ones, attention and its projection. The down projections are repeated
/// on every tensor rank, each over its own positions where sequences are cut too; the up projections are split by heads
/// and gather what these compressed (Megatron-Core, transformer/multi_latent_attention.py). Training makes whole keys
/// and values of every head: nothing is absorbed into the queries, but where keys are chosen, whose attention is to the
/// compressed vectors themselves, one head of keys and values of all (arXiv 2512.02556, section 2.1).
class LatentAttentionHalf {
 public:
  explicit LatentAttentionHalf(LayerWriter& writer);

  /// All of it, from norm to residual sum. `window`: keys that a query sees; 0: all.
  void write(std::int64_t window);
  void keep(Layer& layer) const;
  void weigh(Layer& layer) const;

 private:
  LinearOp::Part part(LinearOp::Part of_all) const;
  void compress();
  void norm(const char* name, const char* name_backward, std::int64_t width);
  void expand(const char* name, std::int64_t width_per_head, std::int64_t rank, std::int64_t gathered);
  void rotate();
  double of_heads(std::int64_t width) const { return z_.of_token(heads_ * width); }
  void keep_attention(Layer& layer) const;

  LayerWriter& w_;
  const Model& m_;
  const LatentAttention& latent_;
  const Sizes& z_;
  double e_;            // bytes of an activation
  std::int64_t heads_;  // of this rank
  std::int64_t own_;    // positions whose compressed vectors it makes
  ChosenKeys keys_;     // where not all are seen
};

}  // namespace orrery::workloads
