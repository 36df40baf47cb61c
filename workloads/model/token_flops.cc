// Folds over the layers of the whole model. See token_flops.h. Left out: norms, activations, the softmax and everything
// else that is no product of matrices.
#include "workloads/model/token_flops.h"

#include <vector>

#include "sim/real.h"
#include "workloads/model/causal_flops.h"
#include "workloads/model/families/families.h"

namespace orrery::workloads {

namespace {

using sim::real;

}  // namespace

TokenFlops token_flops(const Model& model) {
  Computation computation;
  computation.style.head.pads_vocabulary = false;
  const Network network = workloads::network(model, {}, computation);
  std::vector<ForwardFlops> kinds;
  for (const Layer& layer : network.kinds) kinds.push_back(forward_flops(layer));
  const double tokens = real(model.seq);
  TokenFlops sum;
  for (const std::uint8_t kind : network.layers) {
    sum.linear += (kinds[kind].linear + kinds[kind].mixers) / tokens;
    sum.attention_square += kinds[kind].attention / tokens;
  }
  const double masked = (model_flops(model, 1) - causal_model_flops(model, 1)) / 3;  // of one forward pass
  sum.attention_causal = sum.attention_square - masked / tokens;
  return sum;
}

double six_n(const Model& model) { return 6 * active_parameter_count(model); }

double closed_form_parameters(const Model& model) {
  const double l = real(model.layers), h = real(model.hidden), vocab = real(model.vocab), s = real(model.seq);
  return 12 * l * h * h * (1 + 13 / (12 * h) + (vocab + s) / (12 * l * h));
}

bool is_plain_gpt(const Model& model) {
  const bool attention = model.attention.kv_heads == model.attention.heads && model.attention_width() == model.hidden &&
                         !model.attention.qk_norm && !model.attention.latent.any();
  const bool mlp = !model.mlp.gated && model.mlp.hidden == 4 * model.hidden && !model.experts.any();
  const bool rest = model.positions == Positions::learned && model.norm == Norm::layer_norm &&
                    model.biases == Biases::all && model.tied_embeddings && !model.parallel_block && !model.post_norm;
  return attention && mlp && rest;
}

}  // namespace orrery::workloads
