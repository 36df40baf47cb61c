// The part of a block's attention that sees some of the keys, on one rank: an indexer with its products, the choice,
// and attention to what was chosen.
#pragma once

#include "workloads/model/layer_writer.h"

namespace orrery::workloads {

/// Refers to the writer, whose model's attention is sparse.
class ChosenKeys {
 public:
  /// What a query multiplies of a key, and what it sums up, by heads of this rank; `keys`: elements of a token's keys
  /// and values together.
  struct Widths {
    std::int64_t heads, query, value, keys;
  };
  ChosenKeys(LayerWriter& writer, const Widths& widths);

  /// From the indexer's products to the choice. `q_rank`: of the compressed queries that it reads; 0: hidden states.
  void choose(std::int64_t q_rank);
  void attend();
  void keep(Layer& layer) const;
  void weigh(Layer& layer, std::int64_t q_rank) const;

 private:
  double chosen() const;
  double late() const;
  double gathered_keys() const;
  void gather(double width);
  void gather_keys(double elements, const char* what, const char* what_backward);

  LayerWriter& w_;
  const SparseAttention& s_;
  Widths x_;
  const Sizes& z_;
  double e_;  // bytes of an activation
  double batch_, seq_;
  double ranks_, queries_;  // of a context group; of one of them
  double keys_;             // that an indexer scores, or that are compressed: of one sequence
};

}  // namespace orrery::workloads
