// A block's operators (operators.h) on one rank.
#pragma once

#include "workloads/model/halves.h"

namespace orrery::workloads {

class OperatorHalf {
 public:
  /// `half`: whose place in a block it has (Kept::half).
  OperatorHalf(LayerWriter& writer, const Operators& operators, Half half)
      : w_(writer), operators_(operators), z_(writer.sizes()), e_(writer.element()), half_(half) {}

  void write();
  void keep(Layer& layer) const;
  void weigh(Layer& layer) const;

 private:
  /// Tokens that a rank has outside of what the tensor group cuts.
  double own_tokens() const;
  /// Elements of a rank, of so many of each token that the operator runs on, inside of what is cut or outside.
  double of(const Operator& op, double elements, bool inside) const;
  std::int64_t tokens_of(const Operator& op, double tokens) const;
  void write_products(std::size_t first, std::size_t end);
  void cast_gradients(std::size_t first, std::size_t end);
  void sum(double elements);
  void write_attention(const Operator& op);
  void write_matmul(const Operator& op, bool inside);
  void write_streaming(const Operator& op, bool inside);

  LayerWriter& w_;
  const Operators& operators_;
  const Sizes& z_;
  double e_;  // bytes of an activation
  Half half_;
  bool summed_ = false;  // the product ahead is one whose sums are whole
  double closing_ = 0;   // products that closed parts since the last residual, by their shares of the tokens
};

}  // namespace orrery::workloads
