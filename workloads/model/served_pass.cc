// Layers as engines run them.
#include "workloads/model/served_pass.h"

#include <algorithm>
#include <cmath>

namespace orrery::workloads {

namespace {

constexpr double kServedBytes = 2;  // bytes of an activation

double as_real(std::int64_t n) { return static_cast<double>(n); }

/// Norm with the residual sum: reads the sum and what is added, writes both.
RowsOp served_norm(const Model& model, double tensor) {
  return {"norm", 4 * kServedBytes * as_real(model.hidden), Rows::all, tensor > 1};
}

void add_all_reduce(std::vector<ServedOp>& ops, const Model& model, double gpus) {
  if (gpus > 1) ops.push_back(SumOp{gpus, kServedBytes * as_real(model.hidden)});
}

void add_served_attention(std::vector<ServedOp>& ops, const Model& model, const ServedLayout& layout,
                          const ServedPrecision& precision, std::int64_t layer) {
  const double tensor = as_real(layout.tensor), hidden = as_real(model.hidden),
               heads = as_real(model.attention.heads) / tensor;
  ops.push_back(served_norm(model, as_real(layout.tensor)));
  const LatentAttention& latent = model.attention.latent;
  if (latent.any()) {
    calibration::LatentBlock block;
    block.type = precision.attention;
    block.heads = heads;
    block.hidden = hidden;
    block.q_lora = as_real(latent.q_rank);
    block.kv_lora = as_real(latent.kv_rank);
    block.nope = as_real(latent.nope_dim);
    block.rope = as_real(latent.rope_dim);
    block.value = as_real(latent.v_dim);
    block.kv_bytes = precision.kv_bytes;
    const double queries = heads * as_real(latent.qk_dim());
    const double q = latent.q_rank > 0 ? as_real(latent.q_rank) * (hidden + queries) : hidden * queries;
    const double kv = hidden * (block.kv_lora + block.rope) + block.kv_lora * heads * (block.nope + block.value);
    const double weights = (q + kv + hidden * heads * block.value) * calibration::weight_bytes(precision.attention);
    ops.push_back(LatentOp{block, weights});
  } else {
    const double dim = as_real(model.head_dim());
    const double kv_heads = std::max(1.0, as_real(model.attention.kv_heads) / tensor);  // copies where there are fewer
    const double width = (heads + 2 * kv_heads) * dim;
    ops.push_back(ProductOp{"qkv", precision.attention, width, hidden});
    if (model.attention.qk_norm) ops.push_back(RowsOp{"qk norm", 2 * kServedBytes * (heads + kv_heads) * dim});
    // Rotation in place, and keys and values copied into the cache.
    ops.push_back(RowsOp{"rotary and cache", kServedBytes * (2 * (heads + kv_heads) + 2 * kv_heads) * dim +
                                                 2 * kv_heads * dim * precision.kv_bytes});
    const std::int64_t every = model.attention.window_every;
    const bool whole = model.attention.window == 0 || (every > 0 && layer % every == every - 1);
    ops.push_back(AttendOp{heads, kv_heads, dim, whole ? 0 : as_real(model.attention.window), precision.kv_bytes});
    ops.push_back(ProductOp{"attention out", precision.attention, hidden, heads * dim});
  }
  if (!model.parallel_block) add_all_reduce(ops, model, tensor);
}

void add_served_mlp(std::vector<ServedOp>& ops, const Model& model, const ServedPrecision& precision, double width,
                    Branch branch) {
  const double parts = model.mlp.gated ? 2 : 1;
  const bool shared = branch == Branch::shared;
  ops.push_back(ProductOp{shared ? "shared up" : "mlp up", precision.weights, parts * width, as_real(model.hidden),
                          Rows::all, branch});
  ops.push_back(RowsOp{shared ? "shared activation" : "activation", (parts + 1) * kServedBytes * width, Rows::all,
                       false, branch});
  ops.push_back(ProductOp{shared ? "shared down" : "mlp down", precision.weights, as_real(model.hidden), width,
                          Rows::all, branch});
}

void add_served_channel(std::vector<ServedOp>& ops, const Model& model, const ServedLayout& layout,
                        const ServedPrecision& precision, std::int64_t layer, std::int64_t gpus_per_node) {
  const double tensor = as_real(layout.tensor);
  if (!model.parallel_block) ops.push_back(served_norm(model, as_real(layout.tensor)));
  const Experts& experts = model.experts;
  if (!experts.in_layer(layer)) {
    add_served_mlp(ops, model, precision, as_real(model.mlp.hidden) / tensor, Branch::line);
    add_all_reduce(ops, model, tensor);
    return;
  }
  ops.push_back(
      ProductOp{"router", WeightType::bf16, as_real(experts.count), as_real(model.hidden), Rows::all, Branch::routed});
  const double ranks = as_real(layout.expert), groups = as_real(layout.attention_data);
  const bool routes = layout.attention_data > 1;
  calibration::LowLatencyExchange exchange;
  const double width = as_real(experts.width(model.hidden)), hidden = as_real(model.hidden);
  if (experts.latent > 0)
    ops.push_back(ProductOp{"latent down", precision.weights, width, hidden, Rows::all, Branch::routed});
  exchange.hidden = width;
  exchange.top_k = as_real(experts.top_k);
  exchange.experts = as_real(experts.count);
  exchange.gpus = as_real(layout.stage_gpus());
  exchange.nodes = std::ceil(as_real(layout.stage_gpus()) / as_real(gpus_per_node));
  const bool gathers = layout.expert == 1;
  if (routes) ops.push_back(RouteOp{exchange, gathers});
  calibration::ServedMixture mixture;
  mixture.type = precision.experts;
  mixture.hidden = width;
  mixture.ffn = as_real(experts.ffn_hidden) / as_real(layout.expert_tensor());
  mixture.top_k = as_real(experts.top_k);
  mixture.experts = as_real(experts.count);
  mixture.ranks = ranks;
  mixture.gated = model.mlp.gated;
  mixture.dealt = calibration::Dealt::by_chance;
  if (layout.redundant_experts > 0) mixture.slots = as_real(experts.count + layout.redundant_experts);
  ops.push_back(ExpertsOp{mixture, groups, routes && !gathers});
  if (routes) {
    exchange.pass = calibration::ExchangePass::combine;
    ops.push_back(RouteOp{exchange, gathers});
  }
  if (experts.latent > 0)
    ops.push_back(ProductOp{"latent up", precision.weights, hidden, width, Rows::all, Branch::routed});
  if (experts.shared > 0)
    add_served_mlp(ops, model, precision, as_real(experts.shared_width()) / tensor, Branch::shared);
  if (!routes || experts.shared > 0) add_all_reduce(ops, model, tensor);
}

std::vector<ServedOp> layer_ops(const Model& model, const ServedLayout& layout, const ServedPrecision& precision,
                                std::int64_t layer, std::int64_t gpus_per_node) {
  std::vector<ServedOp> ops;
  add_served_attention(ops, model, layout, precision, layer);
  add_served_channel(ops, model, layout, precision, layer, gpus_per_node);
  if (model.post_norm) {
    ops.push_back(served_norm(model, as_real(layout.tensor)));
    ops.push_back(served_norm(model, as_real(layout.tensor)));
  }
  return ops;
}

/// What tells layers apart: experts, and how far attention sees.
std::pair<bool, bool> layer_kind(const Model& model, std::int64_t layer) {
  const std::int64_t every = model.attention.window_every;
  return {model.experts.in_layer(layer), every > 0 && layer % every == every - 1};
}

double served_weights(const ServedOp& op) {
  if (const auto* p = std::get_if<ProductOp>(&op)) return p->n * p->k * calibration::weight_bytes(p->type);
  if (const auto* l = std::get_if<LatentOp>(&op)) return l->weights;
  if (const auto* t = std::get_if<TableOp>(&op)) return t->weights;
  if (const auto* e = std::get_if<ExpertsOp>(&op)) {
    const calibration::ServedMixture& m = e->mixture;
    const double here = std::ceil((m.slots > 0 ? m.slots : m.experts) / m.ranks);
    return here * (m.gated ? 3 : 2) * m.hidden * m.ffn * calibration::weight_bytes(m.type);
  }
  return 0;
}

double served_cache(const ServedOp& op) {
  if (const auto* a = std::get_if<AttendOp>(&op)) return 2 * a->kv_heads * a->head_dim * a->kv_bytes;
  if (const auto* l = std::get_if<LatentOp>(&op)) return (l->block.kv_lora + l->block.rope) * l->block.kv_bytes;
  return 0;
}

/// Sum over the layers of the fullest stage: the model's, over stages as even as can be.
template <class F>
double of_stage(const ServedPass& pass, F&& of) {
  double sum = 0;
  std::int64_t layers = 0;
  for (const ServedStack& stack : pass.stacks) {
    for (const ServedOp& op : stack.ops) sum += static_cast<double>(stack.layers) * of(op);
    layers += stack.layers;
  }
  const std::int64_t most = (layers + pass.layout.pipeline - 1) / pass.layout.pipeline;
  return sum * static_cast<double>(most) / static_cast<double>(std::max<std::int64_t>(1, layers));
}

}  // namespace

ServedPass served_pass(const Model& model, const ServedLayout& layout, const ServedPrecision& precision,
                       std::int64_t gpus_per_node, std::int64_t drafts) {
  ServedPass pass;
  pass.layout = layout;
  std::vector<std::pair<bool, bool>> kinds;
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    const auto kind = layer_kind(model, layer);
    const auto known = std::find(kinds.begin(), kinds.end(), kind);
    if (known != kinds.end()) {
      ++pass.stacks[static_cast<std::size_t>(known - kinds.begin())].layers;
      continue;
    }
    kinds.push_back(kind);
    pass.stacks.push_back({1, layer_ops(model, layout, precision, layer, gpus_per_node)});
  }
  const double vocab = std::ceil(as_real(model.vocab) / as_real(layout.tensor)), hidden = as_real(model.hidden);
  if (drafts > 0) {
    // DeepSeek-V3, section 2.2: the last hidden state and the next token's embedding, projected to one row; a layer of
    // the model's last kind; the model's own head.
    pass.draft.push_back(RowsOp{"draft norms", 8 * kServedBytes * hidden});
    pass.draft.push_back(ProductOp{"draft projection", precision.weights, hidden, 2 * hidden});
    for (ServedOp& op : layer_ops(model, layout, precision, model.layers - 1, gpus_per_node))
      pass.draft.push_back(std::move(op));
  }
  pass.ends.push_back(RowsOp{"embedding", 2 * kServedBytes * hidden});
  if (!model.tied_embeddings || layout.pipeline > 1)
    pass.ends.push_back(TableOp{"embedding", vocab * hidden * kServedBytes});
  pass.ends.push_back(RowsOp{"last norm", 4 * kServedBytes * hidden});
  pass.ends.push_back(ProductOp{"head", WeightType::bf16, vocab, hidden, Rows::sampled});
  // Logits of all ranks are gathered, widened and searched.
  pass.ends.push_back(RowsOp{"sampler", (kServedBytes + 3 * 4) * as_real(model.vocab), Rows::sampled});
  return pass;
}

double weight_bytes(const ServedPass& pass) {
  double ends = 0, table = 0;
  for (const ServedOp& op : pass.ends) (std::holds_alternative<TableOp>(op) ? table : ends) += served_weights(op);
  for (const ServedOp& op : pass.draft) ends += served_weights(op);
  // The first stage has the table, the last the head.
  return of_stage(pass, served_weights) + (pass.layout.pipeline > 1 ? std::max(ends, table) : ends + table);
}

double cache_bytes_per_token(const ServedPass& pass) {
  double draft = 0;
  for (const ServedOp& op : pass.draft) draft += served_cache(op);
  return of_stage(pass, served_cache) + draft;
}

}  // namespace orrery::workloads
