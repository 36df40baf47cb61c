// FLOPs of training, token by token, by the conventions that papers count by.
#pragma once

#include "workloads/model/model.h"

namespace orrery::workloads {

/// Of one token in a forward pass over a sequence of the model's length; a multiplication and an addition are two.
struct TokenFlops {
  double linear = 0;            // products of linear layers, the head's among them, and scans
  double attention_square = 0;  // scores and values over the whole square of queries and keys, or the whole window
  double attention_causal = 0;  // of it, what a causal kernel does (causal_flops.h)
  /// Forward and backward, which does twice the work of forward: as Megatron-LM counts (Narayanan et al., arXiv
  /// 2104.04473, equation 3), and as a causal kernel computes.
  double training_square() const { return 3 * (linear + attention_square); }
  double training_causal() const { return 3 * (linear + attention_causal); }
};
TokenFlops token_flops(const Model& model);

/// 6 N for each token (Kaplan et al., arXiv 2001.08361, section 2.1), N the parameters that a token meets, the
/// embedding's among them as most authors have it.
double six_n(const Model& model);

/// Parameters of a plain GPT by the closed form of the contract: 12 l h^2 (1 + 13/12h + (V+s)/12lh).
double closed_form_parameters(const Model& model);
/// Whether that form is of this model: biases, one MLP of 4h, one head of keys and values for each of queries, learned
/// positions, tied ends.
bool is_plain_gpt(const Model& model);

}  // namespace orrery::workloads
