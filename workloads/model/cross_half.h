// Attention of a decoder to what an encoder made, as a part of a block on one rank: queries of the decoder's tokens,
// keys and values of the encoder's output, which sees no mask (Vaswani et al., arXiv 1706.03762, section 3.2.3).
#pragma once

#include "workloads/model/halves.h"

namespace orrery::workloads {

class CrossHalf {
 public:
  /// `block`: the writer that its operations go to; `seen`: its model, with the attention across in place of its own.
  CrossHalf(LayerWriter& block, const Model& seen);

  /// All of it, from norm to residual sum.
  void write();
  void keep(Layer& layer) const;
  void weigh(Layer& layer) const;

 private:
  void bias(const LayerWriter& writer, const char* name, double elements);

  LayerWriter& block_;
  const Model& m_;
  Model read_;  // as the encoder's output has it
  LayerWriter w_, source_;
  const Sizes& z_;
  double e_;  // bytes of an activation
};

}  // namespace orrery::workloads
