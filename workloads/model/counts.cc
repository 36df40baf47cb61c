// Parameters and floating-point operations of a model, as the contract's Metrics define them: folds over the layers of
// the model before any split.
//
// For a plain GPT they are the closed forms of Narayanan et al. (arXiv 2104.04473, equations 2 and 3):
// P = 12 l h^2 (1 + 13/12h + (V+s)/12lh) and F = 72 B s l h^2 (1 + s/6h + V/12lh), 96 B s l h^2 (1 + s/6h + V/16lh)
// with full recompute. They count the whole square of the attention matrix, causal or not, and leave out the final norm
// and the padding of the vocabulary.
#include <array>

#include "workloads/model/families/families.h"

namespace orrery::workloads {

namespace {

/// The model as one rank would hold it.
Network whole(const Model& model) {
  Computation computation;
  computation.style.head.pads_vocabulary = false;
  return network(model, {}, computation);
}

/// Of one forward pass over one sequence.
struct SequenceFlops {
  double linear = 0, attention = 0, head = 0;
};

SequenceFlops sequence_flops(const Model& model) {
  const Network network = whole(model);
  std::vector<ForwardFlops> kinds;
  for (const Layer& layer : network.kinds) kinds.push_back(forward_flops(layer));
  SequenceFlops flops;
  for (std::int64_t i = 0; i < network.size(); ++i) {
    const ForwardFlops& layer = kinds[network.layers[static_cast<std::size_t>(i)]];
    (network.layer(i).kind == LayerKind::head ? flops.head : flops.linear) += layer.linear;
    flops.linear += layer.mixers;
    flops.attention += layer.attention;
  }
  return flops;
}

constexpr std::array<std::string_view, 5> kPositions{"learned", "rotary", "none", "alibi", "relative"};
constexpr std::array<std::string_view, 2> kNorms{"layer_norm", "rms_norm"};
constexpr std::array<std::string_view, 3> kBiases{"all", "qkv", "none"};
constexpr std::array<std::string_view, kActivations> kActivationNames{"gelu", "swiglu", "squared_relu", "relu"};

}  // namespace

namespace {
/// Sum over the weights of all layers, the final norm left out, of what `counted` says of each.
template <class Counted>
double sum_of_weights(const Model& model, Counted counted) {
  const Network network = whole(model);
  std::vector<double> kinds;
  for (const Layer& layer : network.kinds) {
    double sum = 0;
    for (const Weights& weights : layer.weights) sum += weights.final_norm ? 0 : counted(weights);
    kinds.push_back(sum);
  }
  double sum = 0;
  for (const std::uint8_t kind : network.layers) sum += kinds[kind];
  return sum;
}
}  // namespace

double parameter_count(const Model& model) {
  return sum_of_weights(model, [](const Weights& weights) { return weights.elements; });
}

double active_parameter_count(const Model& model) {
  return sum_of_weights(model, [](const Weights& weights) { return weights.elements * weights.active; });
}

double model_flops(const Model& model, std::int64_t global_batch, Trained trained) {
  const SequenceFlops f = sequence_flops(model);
  if (trained == Trained::adapters)
    return static_cast<double>(global_batch) * (2 * f.linear + 3 * f.attention + 2 * f.head);
  // Backward does twice the work of forward.
  return 3 * static_cast<double>(global_batch) * (f.linear + f.attention + f.head);
}

namespace {
/// Of the way down of all MLPs, over one sequence.
double last_products(const Model& model) {
  const auto of = [&](std::int64_t tokens, std::int64_t inside) {
    return 2.0 * static_cast<double>(tokens) * static_cast<double>(inside * model.hidden);
  };
  if (!model.pattern.any()) return of(model.layers * model.seq, model.mlp.hidden);
  double flops = 0;
  for (const std::uint8_t kind : model.pattern.blocks) {
    const Model::Block& block = model.pattern.kinds[kind];
    if (block.channel == Model::Block::Channel::mlp) flops += of(model.tokens_of(block), block.mlp.hidden);
  }
  return flops;
}
}  // namespace

double hardware_flops(const Model& model, std::int64_t global_batch, Recompute recompute, Trained trained,
                      const BlocksAgain& again) {
  const SequenceFlops f = sequence_flops(model);
  double flops = model_flops(model, global_batch, trained);
  const double last = again.stops_early ? last_products(model) : 0;
  if (recompute == Recompute::full)
    flops += again.share * static_cast<double>(global_batch) * (f.linear + f.attention - last);
  if (recompute == Recompute::selective) flops += again.share * static_cast<double>(global_batch) * f.attention;
  return flops;
}

std::string_view name_of(Positions positions) { return kPositions[static_cast<std::size_t>(positions)]; }
std::string_view name_of(Norm norm) { return kNorms[static_cast<std::size_t>(norm)]; }
std::string_view name_of(Biases biases) { return kBiases[static_cast<std::size_t>(biases)]; }
std::string_view name_of(Activation activation) { return kActivationNames[static_cast<std::size_t>(activation)]; }

}  // namespace orrery::workloads
