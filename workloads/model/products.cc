// Products and attention as shapes. See products.h.
#include "workloads/model/products.h"

#include <algorithm>

#include "workloads/model/families/families.h"
#include "workloads/model/mixers/mixers.h"

namespace orrery::workloads {

std::vector<calibration::Gemm> products(const Layer& layer) {
  std::vector<calibration::Gemm> shapes;
  for (const LayerOp& op : layer.ops) {
    const auto* linear = std::get_if<LinearOp>(&op);
    if (linear == nullptr) continue;
    for (const MatMul& p : linear->products) {
      if (p.copies > 1) continue;  // grouped products are timed as such
      calibration::Gemm& gemm = shapes.emplace_back();
      gemm.dtype = p.type;
      gemm.m = p.out;
      gemm.n = p.tokens;
      gemm.k = p.in;
    }
  }
  return shapes;
}

std::optional<calibration::Attention> fused_attention(const Layer& layer) {
  for (const LayerOp& op : layer.ops) {
    const auto* a = std::get_if<AttentionOp>(&op);
    if (a == nullptr || !a->fused) continue;
    calibration::Attention attention;
    attention.dtype = a->type;
    attention.batch = a->batch;
    attention.queries = attention.keys = a->seq / a->context;
    if (a->other_keys > 0) attention.keys = a->other_keys;
    attention.heads = a->heads;
    attention.kv_heads = a->kv_heads;
    attention.head_dim = a->head_dim;
    const auto [keys, chunked] = a->window;
    attention.window = chunked ? 0 : keys;
    if (chunked) {
      attention.queries = attention.keys = keys;
      attention.batch *= a->seq / keys;
    }
    return attention;
  }
  return {};
}

std::vector<TensorCut> tensor_cuts(const Model::Block& block) {
  std::vector<TensorCut> cuts;
  if (block.attends) {
    cuts.push_back({block.attention.heads, "heads"});
    cuts.push_back({block.attention.kv_heads, kKeyHeadsCut});
  }
  if (block.crosses) {
    cuts.push_back({block.cross.heads, "heads of cross attention"});
    cuts.push_back({block.cross.kv_heads, "heads of keys of cross attention"});
  }
  if (block.channel == Model::Block::Channel::mlp) cuts.push_back({block.mlp.hidden, "elements inside the MLP"});
  if (block.state.any()) {
    cuts.push_back({block.state.heads, "heads of the mixer"});
    cuts.push_back({block.state.key_heads, block.state.kind->key_heads});
  }
  for (const Operators* operators : {&block.operators, &block.behind}) {
    for (const Operator& op : operators->run) {
      if (op.cut != Operator::Cut::none)
        cuts.push_back({op.cut == Operator::Cut::out ? op.out : op.in, "elements of an operator's cut"});
      if (op.kind != Operator::Kind::attention) continue;
      cuts.push_back({op.heads, "heads of an operator"});
      cuts.push_back({op.kv_heads, "heads of keys of an operator"});
    }
  }
  return cuts;
}

bool can_be_cut(const Model& model, std::int64_t tensor) {
  if (!model.pattern.any()) return model.attention.heads % tensor == 0 && model.mlp.hidden % tensor == 0;
  return std::all_of(model.pattern.kinds.begin(), model.pattern.kinds.end(), [&](const Model::Block& block) {
    if (block.attends && block.attention.sparse.compressed() && tensor > 1) return false;
    const std::vector<TensorCut> cuts = tensor_cuts(block);
    return std::all_of(cuts.begin(), cuts.end(), [&](const TensorCut& cut) { return cut.size % tensor == 0; });
  });
}

calibration::ModelKernels measured_kernels(const Model& model, std::int64_t tensor) {
  Split split;
  split.tensor = tensor;
  const Network network = workloads::network(model, split, {});
  calibration::ModelKernels kernels;
  kernels.seq = model.seq;
  for (const Layer& layer : network.kinds) {
    for (const calibration::Gemm& gemm : products(layer)) kernels.products.push_back({gemm.m, gemm.k});
    if (const auto attention = fused_attention(layer)) {
      kernels.heads = attention->heads;
      kernels.kv_heads = attention->kv_heads;
      kernels.head_dim = attention->head_dim;
    }
  }
  return kernels;
}

}  // namespace orrery::workloads
