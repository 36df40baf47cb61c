// DeepSeek-V4's attention as the half of a block, on one rank: to the last tokens as they are and to keys that stand
// for many (sparse_attention.h).
#pragma once

#include "workloads/model/chosen_keys.h"
#include "workloads/model/halves.h"

namespace orrery::workloads {

class CompressedHalf {
 public:
  explicit CompressedHalf(LayerWriter& writer);

  /// All of it, from norm to residual sum.
  void write();
  void keep(Layer& layer) const;
  void weigh(Layer& layer) const;

 private:
  void norm(const char* name, const char* name_backward, double elements);
  void compress();

  LayerWriter& w_;
  const Model& m_;
  const SparseAttention& s_;
  const Sizes& z_;
  ChosenKeys keys_;
  double e_;            // bytes of an activation
  std::int64_t width_;  // of a head
};

}  // namespace orrery::workloads
