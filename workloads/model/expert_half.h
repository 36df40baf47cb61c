// The half of a block whose MLP is a mixture of experts, on one rank of a tensor, an expert and an expert-tensor group.
//
// Sources: Shazeer et al. (arXiv 1701.06538); GShard (arXiv 2006.16668) for capacity; MegaBlocks (arXiv 2211.15841) for
// dropless routing; kernels and exchanges in the order of Megatron-Core (transformer/moe/: router.py,
// token_dispatcher.py, experts.py, shared_experts.py).
#pragma once

#include <vector>

#include "workloads/model/halves.h"

namespace orrery::workloads {

/// What a rank has to do with routed experts. Tokens are those of one micro-batch; routing spreads them evenly but for
/// ExpertStyle::imbalance.
struct ExpertSizes {
  ExpertSizes(const LayerWriter& writer);
  std::int64_t tokens;  // that this rank routes
  std::int64_t copies;  // experts that it holds, or their parts
  std::int64_t ffn;     // elements inside one of these
  std::int64_t sent;    // copies of tokens that it sends to experts
  std::int64_t routed;  // copies that come to its experts
  double arriving;      // tokens that it holds when they have come, each counted once where it is sent once
};

class ExpertHalf {
 public:
  explicit ExpertHalf(LayerWriter& writer);

  /// All of it, from norm to residual sum.
  void write();
  void keep(Layer& layer) const;
  void weigh(Layer& layer) const;

 private:
  bool shares() const { return m_.experts.shared > 0; }
  bool gathers() const { return style_.dispatcher == Dispatcher::allgather; }
  bool runs_beside() const { return style_.overlaps_shared && shares() && !gathers() && w_.split().expert > 1; }
  double of_hidden(double tokens) const;
  std::int64_t moved() const { return m_.experts.width(m_.hidden); }  // elements of a token at the experts
  std::int64_t gates() const { return m_.mlp.gated ? 2 : 1; }

  void route();
  /// Tokens down to what experts read, and what these made back up.
  void narrow();
  void widen();
  void pick_tokens();
  void dispatch();
  void scaled_bias();
  void experts();
  void combine();
  void reduce_outputs(CommGroup group, double tokens, double share, const char* name, const char* name_backward);
  void put_back_tokens();
  void exchange(const char* what, const char* what_backward, double bytes_each, void (ExpertHalf::*beside)());
  /// Rows picked for experts, put into another order, or added up into tokens.
  enum class Permutation : std::uint8_t { pick, sort, add };
  void permute(const char* name, const char* name_backward, Permutation how, double few, double many);
  void activation(double elements, bool fused);
  calibration::RecipeSizes activation_sizes(double elements, double cast) const;
  calibration::RecipeSizes row_sizes() const;
  void activation_in_products(double elements);
  void pad(const char* name, const char* name_backward);
  void stash();
  void shared_up();
  void shared_down();
  MatMul of_experts(const char* name, std::int64_t out, std::int64_t in) const;

  LayerWriter& w_;
  const Model& m_;
  const Sizes& z_;
  const ExpertStyle& style_;
  ExpertSizes x_;
  double e_;                   // bytes of an activation
  std::int64_t shared_width_;  // inside of the shared experts, on this rank
};

}  // namespace orrery::workloads
