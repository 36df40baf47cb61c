// Layers as engines run them.
#include "workloads/model/served_pass.h"

#include <algorithm>
#include <cmath>

#include "workloads/model/families/families.h"
#include "workloads/model/residual_streams.h"
#include "workloads/model/served_mixers.h"

namespace orrery::workloads {

namespace {

constexpr double kServedBytes = 2;  // bytes of an activation

double as_real(std::int64_t n) { return static_cast<double>(n); }

/// Around a half with several streams: the maps' product, what the half reads of them, and what it adds to each.
void add_read_streams(std::vector<ServedOp>& ops, const Model& model) {
  const double n = as_real(model.residual_streams), row = kServedBytes * as_real(model.hidden);
  if (n == 1) return;
  ops.push_back(ProductOp{"stream maps", WeightType::bf16, as_real(stream_maps(model.residual_streams)),
                          n * as_real(model.hidden)});
  ops.push_back(RowsOp{"read streams", (n + 1) * row});
}

void add_write_streams(std::vector<ServedOp>& ops, const Model& model) {
  const double n = as_real(model.residual_streams);
  if (n > 1) ops.push_back(RowsOp{"write streams", (2 * n + 1) * kServedBytes * as_real(model.hidden)});
}

/// Norm with the residual sum: reads the sum and what is added, writes both. With several streams the sum is theirs.
RowsOp served_norm(const Model& model, double tensor) {
  if (model.residual_streams > 1) return {"norm", 2 * kServedBytes * as_real(model.hidden)};
  return {"norm", 4 * kServedBytes * as_real(model.hidden), Rows::all, tensor > 1};
}

void add_all_reduce(std::vector<ServedOp>& ops, const Model& model, double gpus) {
  if (!(gpus > 1)) return;
  const auto* made = ops.empty() ? nullptr : std::get_if<ProductOp>(&ops.back());
  ops.push_back(SumOp{gpus, kServedBytes * as_real(model.hidden), made ? std::optional(*made) : std::nullopt});
}

void add_latent_block(std::vector<ServedOp>& ops, const Model& model, const ServedPrecision& precision, double heads) {
  const double hidden = as_real(model.hidden);
  const LatentAttention& latent = model.attention.latent;
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
}

/// Between the norm and the sum over ranks; the layer tells whether a window holds where layers take turns.
void add_served_attention(std::vector<ServedOp>& ops, const Model& model, const ServedLayout& layout,
                          const ServedPrecision& precision, std::int64_t layer) {
  const double tensor = as_real(layout.tensor), hidden = as_real(model.hidden),
               heads = as_real(model.attention.heads) / tensor;
  const Model::Attention& attention = model.attention;
  if (attention.sparse.any()) return add_served_sparse(ops, model, precision, tensor);
  if (attention.latent.any()) return add_latent_block(ops, model, precision, heads);
  const double dim = as_real(model.head_dim()), value = as_real(model.value_dim());
  const double kv_heads = std::max(1.0, as_real(attention.kv_heads) / tensor);  // copies where there are fewer
  const double made = attention.shares_keys ? 0 : kv_heads * (dim + (attention.key_is_value ? 0 : value));
  const double width = heads * dim * (attention.output_gate ? 2 : 1) + made;
  ops.push_back(ProductOp{"qkv", precision.attention, width, hidden});
  const double keys = attention.shares_keys ? 0 : kv_heads;  // that it makes
  if (attention.qk_norm && precision.qk_norm == QkNorm::of_all) {
    // Copies of queries and keys with the sum of their squares, which ranks add up, one of each in fp32 (vllm,
    // model_executor/layers/mamba/linear_attn.py, MiniMaxText01RMSNormTP.forward_qk).
    ops.push_back(RowsOp{"qk squares", 2 * kServedBytes * (heads + keys) * dim});
    if (tensor > 1) ops.push_back(SumOp{tensor, 2.0 * sizeof(float), std::nullopt});
  }
  if (attention.qk_norm) ops.push_back(RowsOp{"qk norm", 2 * kServedBytes * (heads + keys) * dim});
  // Rotation in place, and keys and values copied into the cache.
  const bool leaves = !attention.shares_keys && !attention.bidirectional;
  const double cached = leaves ? kv_heads * (dim + value) : 0;
  ops.push_back(
      RowsOp{"rotary and cache", kServedBytes * (2 * (heads + keys) * dim + cached) + cached * precision.kv_bytes});
  const std::int64_t every = attention.window_every;
  const bool whole = attention.window == 0 || (every > 0 && layer % every == every - 1);
  ops.push_back(AttendOp{heads, kv_heads, (dim + value) / 2, whole ? 0 : as_real(attention.window), precision.kv_bytes,
                         leaves, !attention.bidirectional});
  if (attention.output_gate) ops.push_back(RowsOp{"output gate", 3 * kServedBytes * heads * value});
  ops.push_back(ProductOp{"attention out", precision.attention, hidden, heads * value});
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

void add_served_experts(std::vector<ServedOp>& ops, const Model& model, const ServedLayout& layout,
                        const ServedPrecision& precision, std::int64_t gpus_per_node) {
  const double tensor = as_real(layout.tensor);
  const Experts& experts = model.experts;
  ops.push_back(ProductOp{"router", WeightType::bf16, as_real(experts.count), as_real(model.hidden), Rows::all,
                          Branch::routed, true, precision.router});
  const double ranks = as_real(layout.expert), groups = as_real(layout.attention_data);
  const bool routes = layout.attention_data > 1 || layout.experts_apart();
  calibration::LowLatencyExchange exchange;
  const double width = as_real(experts.width(model.hidden)), hidden = as_real(model.hidden);
  if (experts.latent > 0)
    ops.push_back(ProductOp{"latent down", precision.weights, width, hidden, Rows::all, Branch::routed});
  exchange.hidden = width;
  exchange.top_k = as_real(experts.top_k);
  exchange.experts = as_real(experts.count);
  exchange.gpus = as_real(layout.stage_gpus() + layout.expert_gpus);
  exchange.nodes = std::ceil(exchange.gpus / as_real(gpus_per_node));
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
  mixture.alpha = precision.routing_power;
  mixture.dealt = mixture.alpha > 0 ? calibration::Dealt::by_power : calibration::Dealt::by_chance;
  if (layout.redundant_experts > 0) mixture.slots = as_real(experts.count + layout.redundant_experts);
  ops.push_back(ExpertsOp{mixture, groups, routes && !gathers});
  if (routes) {
    exchange.pass = calibration::ExchangePass::combine;
    ops.push_back(RouteOp{exchange, gathers});
  }
  if (experts.latent > 0)
    ops.push_back(ProductOp{"latent up", precision.weights, hidden, width, Rows::all, Branch::routed});
  if (experts.shared > 0) {
    add_served_mlp(ops, model, precision, as_real(experts.shared_width()) / tensor, Branch::shared);
    if (experts.shared_gate) {
      // A gate a token, and what it leaves added to the routed experts' sum (sglang, srt/models/qwen2_moe.py).
      ops.push_back(ProductOp{"shared gate", WeightType::bf16, 1, hidden, Rows::all, Branch::shared});
      ops.push_back(RowsOp{"scale shared", 2 * kServedBytes * hidden, Rows::all, false, Branch::shared});
      ops.push_back(RowsOp{"add shared", 3 * kServedBytes * hidden});
    }
  }
  if (!routes || experts.shared > 0) add_all_reduce(ops, model, tensor);
}

void add_served_channel(std::vector<ServedOp>& ops, const Model& model, const ServedLayout& layout,
                        const ServedPrecision& precision, bool experts, std::int64_t gpus_per_node) {
  const double tensor = as_real(layout.tensor);
  if (experts) return add_served_experts(ops, model, layout, precision, gpus_per_node);
  add_served_mlp(ops, model, precision, as_real(model.mlp.hidden) / tensor, Branch::line);
  add_all_reduce(ops, model, tensor);
}

std::vector<ServedOp> layer_ops(const Model& model, const ServedLayout& layout, const ServedPrecision& precision,
                                std::int64_t layer, std::int64_t gpus_per_node) {
  const double tensor = as_real(layout.tensor);
  std::vector<ServedOp> ops;
  const auto begin_half = [&] {
    add_read_streams(ops, model);
    ops.push_back(served_norm(model, tensor));
  };
  begin_half();
  add_served_attention(ops, model, layout, precision, layer);
  if (!model.parallel_block) {
    add_all_reduce(ops, model, tensor);
    add_write_streams(ops, model);
    begin_half();
  }
  add_served_channel(ops, model, layout, precision, model.experts.in_layer(layer), gpus_per_node);
  add_write_streams(ops, model);
  if (model.post_norm) {
    ops.push_back(served_norm(model, tensor));
    ops.push_back(served_norm(model, tensor));
  }
  return ops;
}

/// Of a pattern: a mixer, or two side by side behind one norm, or none, and a channel or none.
std::vector<ServedOp> block_ops(const Model& model, const Model::Block& block, const ServedLayout& layout,
                                const ServedPrecision& precision, std::int64_t gpus_per_node) {
  const double tensor = as_real(layout.tensor);
  const Model seen = as_seen_by(model, block);
  std::vector<ServedOp> ops;
  const auto add_norm = [&] { ops.push_back(served_norm(model, tensor)); };
  if (block.attends || block.state.any()) {
    add_read_streams(ops, model);
    add_norm();
    if (block.attends) add_served_attention(ops, seen, layout, precision, 0);
    if (block.state.any()) add_served_state(ops, model, block.state, precision, tensor);
    if (block.attends && block.state.any())
      ops.push_back(RowsOp{"add mixers", 3 * kServedBytes * as_real(model.hidden)});
    add_all_reduce(ops, model, tensor);
    add_write_streams(ops, model);
    if (model.post_norm) add_norm();
  }
  add_served_operators(ops, model, block.operators, precision, tensor);
  if (block.channel != Model::Block::Channel::none) {
    add_read_streams(ops, model);
    add_norm();
    add_served_channel(ops, seen, layout, precision, block.channel == Model::Block::Channel::experts, gpus_per_node);
    add_write_streams(ops, model);
    if (model.post_norm) add_norm();
  }
  add_served_operators(ops, model, block.behind, precision, tensor);
  return ops;
}

/// Layers that are alike, counted; in the order in which their kinds first come.
template <class Kind, class KindOf, class OpsOf>
std::vector<ServedStack> stacks_of(std::int64_t layers, KindOf&& kind_of, OpsOf&& ops_of) {
  std::vector<Kind> kinds;
  std::vector<ServedStack> stacks;
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    const Kind kind = kind_of(layer);
    const auto known = std::find(kinds.begin(), kinds.end(), kind);
    if (known != kinds.end()) {
      ++stacks[static_cast<std::size_t>(known - kinds.begin())].layers;
      continue;
    }
    kinds.push_back(kind);
    stacks.push_back({1, ops_of(layer)});
  }
  return stacks;
}

std::vector<ServedOp> ops_of_layer(const Model& model, const ServedLayout& layout, const ServedPrecision& precision,
                                   std::int64_t layer, std::int64_t gpus_per_node) {
  return model.pattern.any() ? block_ops(model, model.pattern.at(layer), layout, precision, gpus_per_node)
                             : layer_ops(model, layout, precision, layer, gpus_per_node);
}

/// The layer that proposes tokens: of a pattern the one that predicts further tokens, or its last that attends.
std::int64_t drafting_layer(const Model& model) {
  std::int64_t layer = model.layers - 1;
  if (!model.pattern.any()) return layer;
  if (model.experts.mtp_layers > 0) return model.layers;
  while (layer > 0 && !model.pattern.at(layer).attends) --layer;
  return layer;
}

/// What tells layers apart: experts, and how far attention sees.
std::pair<bool, bool> layer_kind(const Model& model, std::int64_t layer) {
  const std::int64_t every = model.attention.window_every;
  return {model.experts.in_layer(layer), every > 0 && layer % every == every - 1};
}

double all_weights(const ServedOp& op) {
  if (const auto* p = std::get_if<ProductOp>(&op))
    return p->held ? p->n * p->k * (p->in == RouterType::bf16 ? calibration::weight_bytes(p->type) : sizeof(float)) : 0;
  if (const auto* l = std::get_if<LatentOp>(&op)) return l->weights;
  if (const auto* s = std::get_if<StateOp>(&op)) return s->weights;
  if (const auto* s = std::get_if<SparseOp>(&op)) return s->weights;
  if (const auto* t = std::get_if<TableOp>(&op)) return t->weights;
  if (const auto* e = std::get_if<ExpertsOp>(&op)) {
    const calibration::ServedMixture& m = e->mixture;
    const double here = std::ceil((m.slots > 0 ? m.slots : m.experts) / m.ranks);
    return here * (m.gated ? 3 : 2) * m.hidden * m.ffn * calibration::weight_bytes(m.type);
  }
  return 0;
}

double apart_weights(const ServedOp& op) { return std::holds_alternative<ExpertsOp>(op) ? all_weights(op) : 0; }

double served_cache(const ServedOp& op) {
  if (const auto* a = std::get_if<AttendOp>(&op))
    return a->leaves_keys ? 2 * a->kv_heads * a->head_dim * a->kv_bytes : 0;
  if (const auto* l = std::get_if<LatentOp>(&op)) return (l->block.kv_lora + l->block.rope) * l->block.kv_bytes;
  if (const auto* s = std::get_if<SparseOp>(&op)) return s->token_bytes;
  return 0;
}

double served_state(const ServedOp& op) {
  if (const auto* s = std::get_if<StateOp>(&op)) return s->sequence_bytes;
  if (const auto* s = std::get_if<SparseOp>(&op)) return s->sequence_bytes;
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

bool answers_with_states(const Model& model) {
  const std::vector<Model::Block>& kinds = model.pattern.kinds;
  return model.source == 0 &&
         std::any_of(kinds.begin(), kinds.end(), [](const Model::Block& block) { return block.encodes(); });
}

ServedPass served_pass(const Model& model, const ServedLayout& layout, const ServedPrecision& precision,
                       std::int64_t gpus_per_node, std::int64_t drafts) {
  ServedPass pass;
  pass.layout = layout;
  const auto ops = [&](std::int64_t layer) { return ops_of_layer(model, layout, precision, layer, gpus_per_node); };
  if (model.pattern.any())
    pass.stacks = stacks_of<std::uint8_t>(
        model.layers, [&](std::int64_t layer) { return model.pattern.blocks[static_cast<std::size_t>(layer)]; }, ops);
  else
    pass.stacks = stacks_of<std::pair<bool, bool>>(
        model.layers, [&](std::int64_t layer) { return layer_kind(model, layer); }, ops);
  const double vocab = std::ceil(as_real(model.vocab) / as_real(layout.tensor)), hidden = as_real(model.hidden);
  if (drafts > 0) {
    // DeepSeek-V3, section 2.2: the last hidden state and the next token's embedding, projected to one row; a layer of
    // the model's last kind; the model's own head.
    pass.draft.push_back(RowsOp{"draft norms", 8 * kServedBytes * hidden});
    pass.draft.push_back(ProductOp{"draft projection", precision.weights, hidden, 2 * hidden});
    for (ServedOp& op : ops(drafting_layer(model))) pass.draft.push_back(std::move(op));
  }
  pass.ends.push_back(RowsOp{"embedding", 2 * kServedBytes * hidden});
  if (!model.tied_embeddings || layout.pipeline > 1)
    pass.ends.push_back(TableOp{"embedding", vocab * hidden * kServedBytes});
  add_served_inputs(pass.ends, model, precision, as_real(layout.tensor));
  if (const double n = as_real(model.residual_streams); n > 1)
    pass.ends.push_back(RowsOp{"join streams", (2 * n + 1) * kServedBytes * hidden, Rows::sampled});
  pass.ends.push_back(RowsOp{"last norm", 4 * kServedBytes * hidden});
  if (answers_with_states(model)) {
    // The pooler of BERT: a product of the first token's state, and tanh.
    pass.ends.push_back(ProductOp{"pooler", WeightType::bf16, hidden, hidden, Rows::sampled});
    if (model.tied_embeddings && layout.pipeline == 1)
      pass.ends.push_back(TableOp{"embedding", vocab * hidden * kServedBytes});
    return pass;
  }
  pass.ends.push_back(ProductOp{"head", WeightType::bf16, vocab, hidden, Rows::sampled});
  // Logits of all ranks are gathered, widened and searched.
  pass.ends.push_back(RowsOp{"sampler", (kServedBytes + 3 * 4) * as_real(model.vocab), Rows::sampled});
  return pass;
}

double apart_weight_bytes(const ServedPass& pass) {
  if (!pass.layout.experts_apart()) return 0;
  double sum = of_stage(pass, apart_weights);
  for (const ServedOp& op : pass.draft) sum += apart_weights(op);
  return sum;
}

double weight_bytes(const ServedPass& pass) {
  double ends = 0, table = 0;
  const auto served_weights = [&](const ServedOp& op) {
    return pass.layout.experts_apart() ? all_weights(op) - apart_weights(op) : all_weights(op);
  };
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

double cache_bytes_per_sequence(const ServedPass& pass) {
  double draft = 0;
  for (const ServedOp& op : pass.draft) draft += served_state(op);
  return of_stage(pass, served_state) + draft;
}

}  // namespace orrery::workloads
