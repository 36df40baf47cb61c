// Read off a layer's operations.
#include "workloads/memory/tensor_sizes.h"

#include <algorithm>
#include <variant>

#include "sim/real.h"

namespace orrery::workloads {

namespace {

using sim::real;

constexpr double kElement = 2;

/// What all of its products make.
double made(const LinearOp& op) {
  double bytes = 0;
  for (const MatMul& product : op.products) bytes += kElement * real(product.out) * real(product.tokens);
  return bytes;
}
double weighs(const LinearOp& op) {
  double bytes = 0;
  for (const MatMul& product : op.products) bytes += kElement * real(product.out) * real(product.in);
  return bytes;
}
double read(const LinearOp& op) {
  const MatMul& product = op.products.front();
  return kElement * real(product.in) * real(product.tokens);
}

const AttentionOp* attention_of(const Layer& layer) {
  for (const LayerOp& op : layer.ops) {
    if (const auto* attention = std::get_if<AttentionOp>(&op)) return attention;
  }
  return nullptr;
}

std::optional<BlockSizes> block_sizes(const Layer& layer, double keys_values) {
  using Part = LinearOp::Part;
  constexpr std::array parts{Part::attention_in, Part::attention_out, Part::mlp_in, Part::mlp_out};
  std::array<const LinearOp*, 4> found = {};
  for (const LayerOp& op : layer.ops) {
    const auto* linear = std::get_if<LinearOp>(&op);
    if (linear == nullptr) continue;
    const auto part = std::find(parts.begin(), parts.end(), linear->part);
    if (part == parts.end()) return {};
    const LinearOp*& here = found[static_cast<std::size_t>(part - parts.begin())];
    if (here != nullptr) return {};
    here = linear;
  }
  const AttentionOp* attention = attention_of(layer);
  if (std::count(found.begin(), found.end(), nullptr) > 0 || attention == nullptr || attention->context > 1) return {};
  const auto& [in, out, up, down] = found;
  BlockSizes sizes;
  sizes.queries_keys_values = made(*in);
  sizes.keys_values = keys_values;
  sizes.attention = read(*out);
  sizes.sums = 4 * real(attention->batch) * real(attention->seq) * real(attention->heads);
  sizes.up = made(*up);
  sizes.gate = read(*down);
  if (sizes.up < 2 * sizes.gate) return {};  // no gate
  for (std::size_t i = 0; i < found.size(); ++i) sizes.weights[i] = weighs(*found[i]);
  return sizes;
}

bool recomputes(const Layer& layer) {
  const auto again = [](const Kept& kept) { return kept.as == KeptAs::recomputed; };
  return layer.recomputed || layer.recomputed_by_operation || std::any_of(layer.kept.begin(), layer.kept.end(), again);
}

}  // namespace

std::optional<TensorSizes> tensor_sizes(const Network& network) {
  TensorSizes sizes;
  sizes.whole = kElement * network.hidden_elements;
  sizes.part = kElement * network.residual_elements;
  sizes.split = sizes.part < sizes.whole;
  bool has_block = false;
  for (const Layer& layer : network.kinds) {
    if (recomputes(layer)) return {};
    if (layer.kind == LayerKind::embedding) sizes.ends = kElement * parameters(layer);
    if (layer.kind == LayerKind::head) {
      for (const LayerOp& op : layer.ops) {
        if (const auto* linear = std::get_if<LinearOp>(&op)) sizes.logits += made(*linear);
      }
    }
    if (layer.kind != LayerKind::block) continue;
    const auto block = block_sizes(layer, kElement * network.kv_elements);
    if (!block || has_block) return {};
    sizes.block = *block;
    has_block = true;
  }
  return has_block ? std::optional(sizes) : std::nullopt;
}

}  // namespace orrery::workloads
