// Closed forms of mixtures of experts. See mixture_traffic.h. With T tokens that a rank routes, k experts of E for
// each, n ranks of an expert group, h hidden, e bytes of an element:
//  - all-to-all: T k h e bytes a rank, of which it sends (n-1)/n, there and back; k weights of a token beside them;
//  - all-gather: T n h e bytes of tokens and T n E (4 + 1) of weights and map gathered, T n h 4 added up and scattered;
//  - once a node and rank: with p(a) the probability that a token meets one of a equal sets of the experts,
//    1 - C(E - E/a, k) / C(E, k), a rank sends T h e (nodes - 1) p(nodes) to other nodes and T h e n p(n) (g-1)/g
//    inside, g ranks of the group to a node.
#include "workloads/traffic/mixture_traffic.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "sim/real.h"
#include "workloads/groups/placement.h"
#include "workloads/model/mixers/mixers.h"

namespace orrery::workloads {

namespace {

using sim::real;

/// Products by outputs read their input whole, those beside them the same; those by inputs make parts of a sum.
void add_operators(const Operators& operators, MixtureLayers& sum) {
  bool summed = false;  // what a product by outputs reads is whole then
  for (const Operator& op : operators.run) {
    const bool whole = summed;
    if (op.kind == Operator::Kind::product) summed = op.cut == Operator::Cut::sum || (whole && op.beside);
    if (op.cut == Operator::Cut::sum) {
      sum.operators_summed += real(op.out) * op.share;
      sum.operators_sums += 1;
    }
    if (op.kind != Operator::Kind::product) continue;
    if (op.cut == Operator::Cut::in) {
      sum.operators_left += op.share;
      sum.operators_leave += 1;
    }
    if (op.cut != Operator::Cut::out || op.beside || whole) continue;
    sum.operators_read += real(op.in) * op.share;
    sum.operators_enter += 1;
  }
}

std::int64_t inside_of_thin_products(const StateMixer& mixer) {
  return mixer.any() ? thin_inside(mixer.kind->parts(mixer)) : 0;
}

/// Layers of a model with experts, and with a dense MLP; the ones that predict further tokens are as the last.
void add_layer(const Model& model, std::int64_t layer, MixtureLayers& sum) {
  sum.blocks += 1;
  if (model.pattern.any()) {
    const Model::Block& block = model.pattern.at(layer);
    if (block.channel == Model::Block::Channel::experts) sum.experts += 1;
    if (block.channel == Model::Block::Channel::mlp) sum.dense += 1;
    if (block.attends) sum.attention += 1;
    if (block.attends && block.attention.shares_keys) sum.sharers += 1;
    if (block.attends && block.attention.sparse.any()) sum.sparse += 1;
    if (block.attends && block.attention.sparse.indexes()) sum.indexers += 1;
    if (block.state.any()) sum.states += 1;
    if (const std::int64_t inside = inside_of_thin_products(block.state); inside > 0) {
      sum.thin_gates += 1;
      sum.thin_inside += real(inside);
    }
    add_operators(block.operators, sum);
    add_operators(block.behind, sum);
    const double own = real(model.tokens_of(block)) / real(model.seq), source = real(model.source) / real(model.seq);
    if (block.attends) sum.attention_share += own;
    if (block.channel == Model::Block::Channel::mlp) sum.dense_share += own;
    if (block.crosses) {
      sum.crosses += 1;
      sum.crosses_read += own + source;
      sum.crosses_share += own;
    }
  } else {
    sum.attention += 1;
    (model.experts.in_layer(std::min(layer, model.layers - 1)) ? sum.experts : sum.dense) += 1;
  }
  if (layer >= model.layers) sum.predictions += 1;
}

MixtureLayers layers_of(const Model& model) {
  MixtureLayers layers;
  for (std::int64_t i = 0; i < model.layers + model.experts.mtp_layers; ++i) add_layer(model, i, layers);
  return layers;
}

/// What chooses keys, whole on every tensor rank: its queries, its keys and how its heads weigh, and norms. `made`:
/// that one token's keys are made of; `norms`: elements.
double indexer_parameters(const SparseAttention& s, double queries_from, double h, double made, double norms) {
  if (!s.indexes()) return 0;
  const double weights = s.block == 1 ? h * real(s.index_heads) : 0;
  return queries_from * real(s.index_heads * s.index_dim) + made * h * real(s.index_dim) + weights +
         norms * real(s.index_dim);
}

/// DeepSeek-V4's: queries down and up, one head of keys, its compressor, groups of the output down and up; a norm each
/// of the hidden state, compressed queries, keys, compressed keys; a sink a head. On one rank.
double compressed_parameters(const Model& model) {
  const SparseAttention& s = model.attention.sparse;
  const double h = real(model.hidden), one = real(model.attention.head_width), q = real(s.q_rank);
  const double heads = real(model.attention.heads), twice = s.ratio > 0 && s.ratio < 8 ? 2 : 1, ratio = real(s.ratio);
  const double compressor = s.ratio > 0 ? 2 * twice * one * h + ratio * twice * one + one : 0;
  const double out = real(s.out_rank) * heads * one + real(s.out_rank * s.out_groups) * h;
  return real(model.norm_parameters()) + q * h + q + q * heads * one + one * h + one + heads + compressor + out +
         indexer_parameters(s, q, h, 2 * twice, 1 + ratio * twice);
}

double attention_parameters(const Model& model, double t) {
  const SparseAttention& sparse = model.attention.sparse;
  if (sparse.compressed()) return compressed_parameters(model);
  const double h = real(model.hidden), heads = real(model.attention.heads) / t;
  const LatentAttention& latent = model.attention.latent;
  const double norm = real(model.norm_parameters()) * (model.post_norm ? 2 : 1);
  // Keys and values of a layer ahead are read, not made.
  const double makes = model.attention.shares_keys ? 0 : 1;
  if (latent.any()) {
    const double q = real(latent.q_rank), kv = real(latent.kv_rank), rope = real(latent.rope_dim),
                 nope = real(latent.nope_dim);
    const double queries = q > 0 ? q * h + q + heads * (nope + rope) * q : heads * (nope + rope) * h;
    return indexer_parameters(sparse, q > 0 ? q : h, h, 1, 2) + queries + (kv + rope) * h + kv +
           heads * (nope + real(latent.v_dim)) * kv + heads * real(latent.v_dim) * h + real(model.norm_parameters());
  }
  const double width = real(model.head_dim()), value = real(model.value_dim());
  const double keys = makes * real(model.attention.kv_heads) / t;
  const double values = model.attention.key_is_value ? 0 : keys * value;
  const double in = heads * width + keys * width + values;
  return indexer_parameters(sparse, h, h, 1, 2) + in * h + heads * value * h + (model.biases == Biases::none ? 0 : in) +
         (model.biases == Biases::all ? h : 0) + norm + real(model.qk_norm_parameters());
}

double log_choose(double n, double k) { return std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1); }

/// Probability that `k` of `all` experts are all outside of a set of `inside`.
double misses(double all, double inside, double k) {
  return all - inside < k ? 0 : std::exp(log_choose(all - inside, k) - log_choose(all, k));
}

/// Probability that a token meets one of `parts` equal sets of the experts, those of whole groups or inside one; over
/// every number of the set's groups that may be among those open to the token.
double meets(const Experts& experts, double parts) {
  const double all = real(experts.count), k = real(experts.top_k), groups = real(experts.groups);
  const bool nested = std::fmod(parts, groups) == 0 || std::fmod(groups, parts) == 0;
  if (experts.top_groups >= experts.groups || !nested) return 1 - misses(all, all / parts, k);
  const double of_set = std::max(1.0, groups / parts), open = real(experts.top_groups);
  const double inside = std::min(all / parts, all / groups);  // of the set, in one group
  double none = 0;
  for (double n = std::max(0.0, of_set + open - groups); n <= std::min(of_set, open); ++n) {
    const double chance = log_choose(of_set, n) + log_choose(groups - of_set, open - n) - log_choose(groups, open);
    none += std::exp(chance) * misses(all * open / groups, n * inside, k);
  }
  return 1 - none;
}

/// How the fullest expert group lies on nodes.
struct Spread {
  double nodes = 1, per_node = 1;
};
Spread spread_of(const MixtureFacts& facts) {
  const Parallelism& p = facts.layout;
  const RankMap ranks(p.dims(), facts.placement, facts.sizes.gpus_per_node);
  std::map<std::int64_t, std::map<std::int64_t, std::int64_t>> groups;  // ranks by group and node
  const std::int64_t block = p.tensor * p.context * p.data, span = p.expert * p.expert_tensor;
  for (std::int64_t rank = 0; rank < block * p.pipeline; ++rank) {
    const std::int64_t at = rank % block, group = rank / block * block + at / span * span + at % p.expert_tensor;
    ++groups[group][ranks.gpu_of(rank) / facts.sizes.gpus_per_node];
  }
  Spread most;
  for (const auto& [group, nodes] : groups) {
    most.nodes = std::max(most.nodes, real(static_cast<std::int64_t>(nodes.size())));
    for (const auto& [node, members] : nodes) most.per_node = std::max(most.per_node, real(members));
  }
  return most;
}

class ExchangeRows {
 public:
  ExchangeRows(const MixtureFacts& facts, TrafficRows& rows)
      : f_(facts), p_(facts.layout), style_(facts.method.experts), rows_(rows) {
    const Method& method = facts.method;
    const bool halves = method.recompute == Recompute::selective && method.recomputed.experts;
    again_ = halves ? facts.in_parts.experts : facts.again.experts;
    tokens_ = real(facts.sizes.micro_batch * facts.sizes.rank_seq) / (p_.sequence_parallel ? real(p_.tensor) : 1);
    element_ = calibration::bytes_of(method.precision.activations);
  }

  void write() {
    if (style_.dispatcher == Dispatcher::allgather)
      gathered();
    else
      exchanged();
    adapters();
  }

 private:
  /// One call a layer and micro-batch of every group of `among`, of which each rank sends `share` of the buffer.
  void add(const CommGroup& among, CollectiveOp op, const std::string& what, std::int64_t group, double bytes,
           double share, bool forward) {
    const double ranks = real(p_.tensor * p_.context * p_.data);
    const auto sent = [&](double layers) { return layers * real(f_.sizes.microbatches) * ranks * bytes * share; };
    rows_.add_sent(among, op, what, group, bytes, sent(layers_of(f_.model).experts), 1);
    if (forward && again_ > 0) rows_.add_sent(among, op, what + " (recomputed)", group, bytes, sent(again_), 1);
  }

  void gathered() {
    const std::int64_t n = p_.expert * p_.expert_tensor;
    const double share = (real(n) - 1) / real(n), h = real(f_.model.experts.width(f_.model.hidden)),
                 all = tokens_ * real(n);
    const double scores = all * real(f_.model.experts.count) * (style_.router_fp32 ? 5 : element_ + 1);
    const double sums = all * h * (style_.router_fp32 ? 4 : element_);
    using enum CollectiveOp;
    add(CommGroup::expert, all_gather, "routing, forward", n, scores, share, true);
    add(CommGroup::expert, all_gather, "tokens, forward", n, all * h * element_, share, true);
    add(CommGroup::expert, reduce_scatter, "outputs, forward", n, sums, share, true);
    add(CommGroup::expert, all_gather, "output gradients, backward", n, sums, share, false);
    add(CommGroup::expert, reduce_scatter, "token gradients, backward", n, all * h * element_, share, false);
    add(CommGroup::expert, reduce_scatter, "routing gradients, backward", n, scores, share, false);
  }

  /// Two adapters of two weights each, whose gradients the ranks of an expert group add up.
  void adapters() {
    const Adapters& adapters = f_.method.adapters;
    if (!adapters.on_mlp || p_.expert == 1) return;
    const Experts& experts = f_.model.experts;
    const double w = real(experts.width(f_.model.hidden)), f = real(experts.ffn_hidden), r = real(adapters.rank);
    const double up = f_.model.mlp.gated ? 2 : 1, mean = r * (2 * w + (up + 1) * f) / 4;
    const double ranks = real(p_.tensor * p_.context * p_.data), calls = 4 * layers_of(f_.model).experts;
    rows_.add(CommGroup::expert, CollectiveOp::all_reduce, "expert adapter gradients, backward", p_.expert,
              mean * element_, calls * real(f_.sizes.microbatches) * ranks / real(p_.expert), 0);
  }

  double copies() const {
    const double sent = tokens_ * real(f_.model.experts.top_k), experts = real(f_.model.experts.count);
    if (style_.capacity_factor == 0) return sent;
    const double room = std::ceil(style_.capacity_factor * sent / experts) * experts;
    return style_.pads_to_capacity ? room : std::min(room, sent);
  }

  double sent_share() const {
    const double n = real(p_.expert);
    if (!sends_once(style_.dispatcher)) return (n - 1) / n;
    const Experts& experts = f_.model.experts;
    const Spread spread = spread_of(f_);
    const double inside = n * meets(experts, n) * (spread.per_node - 1) / spread.per_node;
    return (inside + (spread.nodes - 1) * meets(experts, spread.nodes)) / real(experts.top_k);
  }

  void exchanged() {
    using enum CollectiveOp;
    const double h = real(f_.model.experts.width(f_.model.hidden)), mean = copies(), sent = mean * style_.busiest;
    const std::int64_t n = p_.expert, t = p_.expert_tensor;
    const bool once = sends_once(style_.dispatcher);
    if (n * t > 1 && !once && !style_.pads_to_capacity) {
      const std::int64_t among = n > 1 ? n : t;
      add(n > 1 ? CommGroup::expert : CommGroup::expert_tensor, all_gather, "tokens of every expert", among,
          real(f_.model.experts.count * among) * 8, (real(among) - 1) / real(among), true);
    }
    if (n > 1) {
      const double share = sent_share(), forward = style_.fp8_dispatch ? 1 + 4.0 / 128 : element_;
      add(CommGroup::expert, all_to_all, "dispatch, forward", n, sent * h * forward, share, true);
      add(CommGroup::expert, all_to_all, "combine, forward", n, sent * h * element_, share, true);
      add(CommGroup::expert, all_to_all, "combine gradients, backward", n, sent * h * element_, share, false);
      add(CommGroup::expert, all_to_all, "dispatch gradients, backward", n, sent * h * element_, share, false);
      if (!once) {
        const double weights = sent * (style_.router_fp32 ? 4 : element_);
        add(CommGroup::expert, all_to_all, "routing weights, forward", n, weights, share, true);
        add(CommGroup::expert, all_to_all, "routing weight gradients, backward", n, weights, share, false);
      }
    }
    if (t == 1) return;
    const double share = (real(t) - 1) / real(t), all = mean * real(t) * h, sum = style_.router_fp32 ? 4 : element_;
    add(CommGroup::expert_tensor, all_gather, "expert inputs, forward", t, all * element_, share, true);
    add(CommGroup::expert_tensor, reduce_scatter, "expert outputs, forward", t, all * sum, share, true);
    add(CommGroup::expert_tensor, all_gather, "expert output gradients, backward", t, all * sum, share, false);
    add(CommGroup::expert_tensor, reduce_scatter, "expert input gradients, backward", t, all * element_, share, false);
  }

  const MixtureFacts& f_;
  const Parallelism& p_;
  const ExpertStyle& style_;
  TrafficRows& rows_;
  double again_ = 0;  // layers whose forward exchanges run once more
  double tokens_ = 0, element_ = 2;
};

}  // namespace

std::vector<bool> recomputed_layers(const Model& model, const Method& method, const Network& network, Recompute how) {
  const std::int64_t layers = model.layers + model.experts.mtp_layers;
  std::vector<bool> marked(static_cast<std::size_t>(layers), method.recompute == how);
  if (method.recompute != how || method.recomputed_layers == 0) return marked;
  for (std::size_t i = 0; i < marked.size(); ++i) marked[i] = network.layers[i + 1] >= network.again.kinds;
  return marked;
}

MixtureLayers marked_layers(const Model& model, const std::vector<bool>& marked) {
  MixtureLayers layers;
  for (std::size_t i = 0; i < marked.size(); ++i) {
    if (marked[i]) add_layer(model, static_cast<std::int64_t>(i), layers);
  }
  return layers;
}

namespace {

/// Of the operators of a graph: matrices, cut or whole, biases of outputs that are cut, norms, and those behind halves.
double operator_parameters(const Operators& operators, double norm, bool behind, double t) {
  double sum = 0;
  for (const Operator& op : operators.run) {
    if (op.shared) continue;
    if (behind && op.kind == Operator::Kind::residual) sum += norm;
    sum += real(op.in * op.out) / (op.cut == Operator::Cut::none ? 1 : t);
    sum += op.weights / (op.cut == Operator::Cut::out ? t : 1) + (op.kind == Operator::Kind::norm ? norm : 0);
  }
  return sum;
}

/// Down to what routed experts read, and up from what they make.
double latent_products(const Experts& experts, double h) { return 2 * h * real(experts.latent); }

/// Maps around a half, of so many numbers a token from all streams.
double half_maps(const Model& model) {
  const double n = real(model.residual_streams);
  return n > 1 ? n * (n + 2) * (n * real(model.hidden) + 1) + 3 : 0;
}

/// Halves of blocks, mixers and channels, of all layers.
double pattern_halves(const Model& model) {
  double halves = 0;
  for (std::int64_t layer = 0; layer < model.layers + model.experts.mtp_layers; ++layer) {
    const Model::Block& block = model.pattern.at(layer);
    halves += (block.attends || block.state.any() ? 1 : 0) + (block.channel != Model::Block::Channel::none ? 1 : 0);
  }
  return halves;
}

/// The same over the blocks of a pattern, each as the model says where it says nothing of its own.
MixtureParameters pattern_parameters(const Model& model, const Split& split) {
  const double t = real(split.tensor), h = real(model.hidden), bias = model.biases == Biases::all ? 1 : 0;
  const double one_norm = real(model.norm_parameters()), norm = one_norm * (model.post_norm ? 2 : 1);
  const Experts& experts = model.experts;
  MixtureParameters sum;
  for (std::int64_t layer = 0; layer < model.layers + experts.mtp_layers; ++layer) {
    const Model::Block& block = model.pattern.at(layer);
    Model own = model;
    own.attention = block.attention;
    if (block.attends) sum.shared += attention_parameters(own, t);
    if (block.attends && block.attention.output_gate) {
      const double gate = real(own.output_width()) / t;
      sum.shared += gate * (h + (model.biases == Biases::none ? 0 : 1));
    }
    if (block.state.any()) sum.shared += block.state.kind->parameters(block.state, h, t) + (block.attends ? 0 : norm);
    sum.shared += operator_parameters(block.operators, one_norm, model.post_norm, t) +
                  operator_parameters(block.behind, one_norm, model.post_norm, t);
    if (block.crosses) {
      own.attention = block.cross;
      sum.shared += attention_parameters(own, t);
    }
    const double up = block.mlp.gated ? 2 : 1;
    if (block.channel == Model::Block::Channel::mlp)
      sum.shared += ((up + 1) * h + bias * up) * real(block.mlp.hidden) / t + bias * h + norm;
    if (block.channel != Model::Block::Channel::experts) continue;
    const double shared = (up + 1) * h * real(experts.shared_width()) / t;
    const double gate = experts.shared > 0 && experts.shared_gate ? h : 0;
    sum.shared += real(experts.count) * (h + bias) + shared + gate + norm + latent_products(experts, h);
    const double w = real(experts.width(model.hidden));
    const double routed = ((up + 1) * w + bias * up) * real(experts.ffn_hidden) / real(split.expert_tensor) + bias * w;
    sum.experts += real(experts.count / split.expert) * routed;
  }
  sum.shared += real(experts.mtp_layers) * (2 * h * h / t + 3 * real(model.norm_parameters()));
  sum.shared += pattern_halves(model) * half_maps(model);
  return sum;
}

}  // namespace

MixtureParameters mixture_parameters(const Model& model, const Split& split) {
  if (model.pattern.any()) return pattern_parameters(model, split);
  const double t = real(split.tensor), h = real(model.hidden), up = model.mlp.gated ? 2 : 1;
  const Experts& experts = model.experts;
  const MixtureLayers layers = layers_of(model);
  const double bias = model.biases == Biases::all ? 1 : 0;
  const double norm = real(model.norm_parameters()) * (model.post_norm ? 2 : 1);
  const double dense = ((up + 1) * h + bias * up) * real(model.mlp.hidden) / t + bias * h + norm;
  const double shared =
      (up + 1) * h * real(experts.shared_width()) / t + (experts.shared > 0 && experts.shared_gate ? h : 0);
  const double w = real(experts.width(model.hidden));
  const double routed = ((up + 1) * w + bias * up) * real(experts.ffn_hidden) / real(split.expert_tensor) + bias * w;
  MixtureParameters sum;
  sum.shared = layers.all() * attention_parameters(model, t) + layers.dense * dense +
               layers.experts * (real(experts.count) * (h + bias) + shared + norm + latent_products(experts, h)) +
               real(experts.mtp_layers) * (2 * h * h / t + 3 * real(model.norm_parameters()));
  sum.shared += layers.all() * 2 * half_maps(model);
  sum.experts = layers.experts * real(experts.count / split.expert) * routed;
  return sum;
}

namespace {

/// Calls with buffers of `bytes`, over all layers, for one micro-batch.
struct TensorCalls {
  double bytes = 0, calls = 0;
};
/// What column-parallel products gather and what row-parallel ones reduce, and of these what is recomputed.
struct MixtureTensor {
  std::vector<TensorCalls> enters, leaves, enters_again, leaves_again;
};

/// What enters latent attention compressed; `token`: bytes of an element of all tokens.
std::vector<TensorCalls> compressed(const LatentAttention& latent, double token, const MixtureLayers& layers) {
  std::vector<TensorCalls> calls;
  if (!latent.any()) return calls;
  if (latent.q_rank > 0) calls.push_back({token * real(latent.q_rank), layers.attention});
  calls.push_back({token * real(latent.kv_rank + latent.rope_dim), layers.attention});
  return calls;
}

/// What an indexer gathers on tensor ranks whose sequences are cut: hidden states, and compressed queries where it
/// reads these.
std::vector<TensorCalls> indexer_inputs(const Model& model, double token, double layers) {
  std::vector<TensorCalls> calls{{token * real(model.hidden), layers}};
  if (const std::int64_t rank = model.attention.latent.q_rank; rank > 0) calls.push_back({token * real(rank), layers});
  return calls;
}

/// What products gather, and what they leave to be summed, of these layers.
std::vector<TensorCalls> enters(const Model& model, double token, const MixtureLayers& layers) {
  const double hidden = token * real(model.hidden);
  const double mlps = layers.dense + (model.experts.shared > 0 ? layers.experts : 0);
  const LatentAttention& latent = model.attention.latent;
  const double attention = latent.any() && latent.q_rank > 0 ? 0 : layers.attention;
  std::vector<TensorCalls> calls{{hidden, mlps + attention + layers.states}};
  if (model.source > 0) {
    const double all = layers.dense + layers.attention + 2 * layers.crosses;
    const double read = layers.dense_share + layers.attention_share + layers.crosses_read;
    return {{hidden * read / all, all}};
  }
  for (const TensorCalls& call : compressed(latent, token, layers)) calls.push_back(call);
  if (layers.operators_enter > 0)
    calls.push_back({token * layers.operators_read / layers.operators_enter, layers.operators_enter});
  if (layers.predictions > 0) calls.push_back({2 * hidden, layers.predictions});
  return calls;
}
std::vector<TensorCalls> leaves(const Model& model, double token, const MixtureLayers& layers) {
  const double mlps = layers.dense + (model.experts.shared > 0 ? layers.experts : 0);
  std::vector<TensorCalls> calls{{token * real(model.hidden), layers.attention + layers.states + mlps}};
  if (model.source > 0) {
    const double all = layers.dense + layers.attention + layers.crosses;
    const double left = layers.dense_share + layers.attention_share + layers.crosses_share;
    return {{token * real(model.hidden) * left / all, all}};
  }
  if (layers.operators_leave > 0)
    calls.push_back(
        {token * real(model.hidden) * layers.operators_left / layers.operators_leave, layers.operators_leave});
  return calls;
}

/// Of stacks of text, without the last sums of their blocks.
std::vector<TensorCalls> left_again(const Model& model, double token, const MixtureLayers& layers) {
  const double all = layers.attention + layers.crosses, left = layers.attention_share + layers.crosses_share;
  return {{token * real(model.hidden) * left / all, all}};
}

/// `stops_early`: dense blocks run again up to their last product, whose sum is then made once.
MixtureTensor tensor_calls(const Model& model, const Method& method, double token, const MixtureLayers& again,
                           const MixtureLayers& in_parts, bool stops_early) {
  const MixtureLayers layers = layers_of(model);
  MixtureTensor calls;
  calls.leaves = leaves(model, token, layers);
  calls.enters = enters(model, token, layers);
  if (again.all() > 0) {
    calls.enters_again = enters(model, token, again);
    calls.leaves_again = leaves(model, token, again);
    if (stops_early && model.source > 0)
      calls.leaves_again = left_again(model, token, again);
    else if (stops_early)
      calls.leaves_again.front().calls -= again.dense;
  }
  if (method.recompute != Recompute::selective) return calls;
  const double hidden = token * real(model.hidden);
  const LatentAttention& latent = model.attention.latent;
  const RecomputedParts& parts = method.recomputed;
  const auto share = [&](double of, double all) { return model.source > 0 && all > 0 ? hidden * of / all : hidden; };
  if (parts.latent_up) calls.enters_again = compressed(latent, token, in_parts);
  if (parts.qkv && !latent.any())
    calls.enters_again.push_back({share(in_parts.attention_share, in_parts.attention), in_parts.attention});
  if (parts.mlp) calls.enters_again.push_back({share(in_parts.dense_share, in_parts.dense), in_parts.dense});
  if (parts.experts && model.experts.shared > 0) {
    calls.enters_again.push_back({hidden, in_parts.experts});
    calls.leaves_again.push_back({hidden, in_parts.experts});
  }
  return calls;
}

}  // namespace

/// Tensor groups of mixtures cut sequences too; those of a pattern without experts need not. Calls of different buffers
/// are one row, of their mean.
void MixtureTraffic::tensor_rows(double runs, TrafficRows& rows) const {
  const double token =
      real(f_.sizes.micro_batch * f_.sizes.rank_seq) * calibration::bytes_of(f_.method.precision.activations);
  const MixtureTensor calls = tensor_calls(f_.model, f_.method, token, f_.again, f_.in_parts, f_.stops_early);
  const std::int64_t ranks = f_.layout.tensor;
  const bool cut = f_.layout.sequence_parallel;
  const auto exchange = [&](CollectiveOp op, const char* what, const std::vector<TensorCalls>& all, double share = 1) {
    double bytes = 0, count = 0;
    for (const TensorCalls& one : all) {
      bytes += one.bytes * one.calls;
      count += one.calls;
    }
    if (count > 0) rows.add(CommGroup::tensor, op, what, ranks, bytes / count * share, count * runs, 0);
  };
  using enum CollectiveOp;
  const std::vector<TensorCalls> indexed = indexer_inputs(f_.model, token, layers_of(f_.model).indexers);
  const std::vector<TensorCalls> indexed_again = indexer_inputs(f_.model, token, f_.again.indexers);
  const MixtureLayers of_model = layers_of(f_.model);
  if (const double layers = of_model.thin_gates; layers > 0)
    exchange(all_reduce, "thin gate gradients, backward", {{token * of_model.thin_inside / layers, layers}});
  const auto sums = [&](const char* what, const MixtureLayers& of) {
    if (of.operators_sums > 0)
      exchange(all_reduce, what, {{token * of.operators_summed / of.operators_sums, of.operators_sums}});
  };
  sums("operator sums, forward", of_model);
  sums("operator sums, forward (recomputed)", f_.again);
  sums("operator sum gradients, backward", of_model);
  const auto of_predictions = [&](double layers) {
    return std::vector<TensorCalls>{{token * real(f_.model.hidden), layers}};
  };
  const std::vector<TensorCalls> predictions = of_predictions(real(f_.model.experts.mtp_layers));
  if (!cut) {
    std::vector<TensorCalls> back = calls.enters;
    // Queries, keys and values apart reduce the gradient of their input three times.
    const double apart = of_model.attention - of_model.sharers;
    if (f_.queries_apart && f_.model.source > 0)
      back.push_back({token * real(f_.model.hidden) * of_model.attention_share / of_model.attention, 2 * apart});
    else if (f_.queries_apart)
      back.push_back({token * real(f_.model.hidden), 2 * apart});
    exchange(all_reduce, "activations, forward", calls.leaves);
    exchange(all_reduce, "activations, forward (recomputed)", calls.leaves_again);
    exchange(all_gather, "prediction, forward", predictions);
    exchange(all_gather, "prediction, forward (recomputed)", of_predictions(f_.again.predictions));
    exchange(reduce_scatter, "prediction gradients, backward", predictions);
    exchange(all_reduce, "activation gradients, backward", back);
    return adapter_rows(runs, rows);
  }
  exchange(all_gather, "indexer inputs, forward", indexed);
  exchange(all_gather, "indexer inputs, forward (recomputed)", indexed_again);
  exchange(all_gather, "activations, forward", calls.enters, f_.gathered_share);
  exchange(reduce_scatter, "activations, forward", calls.leaves);
  exchange(all_gather, "activations, forward (recomputed)", calls.enters_again, f_.gathered_share);
  exchange(reduce_scatter, "activations, forward (recomputed)", calls.leaves_again);
  exchange(all_gather, "activation gradients, backward", calls.leaves, f_.gathered_share);
  exchange(reduce_scatter, "activation gradients, backward", calls.enters);
  if (!f_.keeps_gathered_inputs && !f_.method.adapters.any())
    exchange(all_gather, "saved inputs, backward", calls.enters, f_.gathered_share);
  exchange(reduce_scatter, "prediction, forward", predictions);
  exchange(reduce_scatter, "prediction, forward (recomputed)", of_predictions(f_.again.predictions));
  exchange(all_gather, "prediction gradients, backward", predictions);
  adapter_rows(runs, rows);
}

namespace {
/// Adapters of so many layers whose insides a tensor group gathers, and whose insides it adds up.
struct AdapterCalls {
  double gathered = 0, reduced = 0;
};
/// Of each pair of products of attention, dense MLPs and shared experts.
AdapterCalls adapters_of(const Model& model, const Adapters& adapters, const MixtureLayers& layers) {
  const bool latent = model.attention.latent.any(), none = latent && model.pattern.any();
  const double attention = none ? 0 : layers.attention;
  const double shared = model.experts.shared > 0 ? layers.experts : 0;
  const double mlps = adapters.on_mlp ? layers.dense + shared : 0;
  return {(latent ? 2 : 1) * attention + mlps, attention + mlps};  // latent attention expands queries, and the rest
}
AdapterCalls adapter_calls_again(const MixtureFacts& facts) {
  const Method& method = facts.method;
  if (method.recompute == Recompute::full) return adapters_of(facts.model, method.adapters, facts.again);
  if (method.recompute != Recompute::selective) return {};
  const RecomputedParts& parts = method.recomputed;
  const MixtureLayers& layers = facts.in_parts;
  // All that is no product is made again, and so are the insides of adapters that ranks have parts of.
  if (parts.every_second_product) return {adapters_of(facts.model, method.adapters, layers).gathered, 0};
  const double attention = facts.model.attention.latent.any() ? 0 : layers.attention;
  AdapterCalls calls{parts.qkv ? attention : 0, parts.attention_out ? attention : 0};
  const LatentAttention& latent = facts.model.attention.latent;
  if (latent.any() && !facts.model.pattern.any() && parts.latent_up)
    calls.gathered = (latent.q_rank > 0 ? 2 : 1) * layers.attention;
  if (!method.adapters.on_mlp) return calls;
  const double shared = parts.experts && facts.model.experts.shared > 0 ? layers.experts : 0;
  calls.gathered += (parts.mlp ? layers.dense : 0) + shared;
  calls.reduced += (parts.mlp_down && facts.repeats_down ? layers.dense : 0) + shared;
  return calls;
}
}  // namespace

void MixtureTraffic::adapter_rows(double runs, TrafficRows& rows) const {
  const Adapters& adapters = f_.method.adapters;
  if (!adapters.any()) return;
  const bool cut = f_.layout.sequence_parallel, whole = f_.method.recompute == Recompute::full;
  const double tokens = real(f_.sizes.micro_batch * f_.sizes.rank_seq),
               bytes = tokens * calibration::bytes_of(f_.method.precision.activations) * real(adapters.rank);
  const MixtureLayers layers = layers_of(f_.model);
  const bool alike = !f_.model.pattern.any() && !f_.model.experts.any() && f_.model.experts.mtp_layers == 0;
  const auto row = [&](CollectiveOp op, const char* what, double calls, double of_layers) {
    if (calls > 0)
      rows.add(CommGroup::tensor, op, what, f_.layout.tensor, bytes, calls * runs, alike ? calls / of_layers : 0);
  };
  using enum CollectiveOp;
  const AdapterCalls all = adapters_of(f_.model, adapters, layers), again = adapter_calls_again(f_);
  const CollectiveOp sum = cut ? reduce_scatter : all_reduce;
  const double once = layers.all(), twice = whole ? f_.again.all() : f_.in_parts.all();
  row(all_gather, "adapters, forward", all.gathered, once);
  row(sum, "adapters, forward", all.reduced, once);
  row(all_gather, "adapters, forward (recomputed)", again.gathered, twice);
  row(sum, "adapters, forward (recomputed)", again.reduced, twice);
  row(reduce_scatter, "adapter gradients, backward", all.gathered, once);
  if (cut) row(all_gather, "adapter gradients, backward", all.reduced, once);
}

void MixtureTraffic::exchange_rows(TrafficRows& rows) const { ExchangeRows(f_, rows).write(); }

}  // namespace orrery::workloads
