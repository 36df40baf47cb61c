// Closed forms, with b = micro-batch, s = sequence, h = hidden, e = bytes of an element, m = micro-batches, l = layers,
// n = group:
//  - tensor (arXiv 1909.08053, 2205.05198): two collectives pairs per layer forward and two backward, of b s h e bytes;
//    with sequence parallelism all-gather + reduce-scatter, else all-reduce; a rank sends (n-1)/n of the buffer, an
//    all-reduce twice that.
//  - context group of c (arXiv 2310.01889, 2407.21783): each rank's keys and values, 2 b (s/c) (kv width/t) e bytes,
//    once per layer round the ring (c-1 sends; backward c-1 more, and c of their gradients), or gathered in both passes
//    and their gradients scattered.
//  - pipeline (arXiv 2104.04473): b s h e bytes (over t where tensor ranks share the message) across p v - 1
//  boundaries, both ways (a V: 2p - 2; both ways at once: p - 1).
//  - data: the rank's parameters once per step (all-reduce, or reduce-scatter and all-gather); with sharded parameters
//    two all-gathers and one reduce-scatter per micro-batch.
#include "workloads/traffic/traffic.h"

#include <algorithm>
#include <map>

#include "sim/real.h"
#include "workloads/job/job_values.h"
#include "workloads/model/adapters.h"
#include "workloads/model/mixers/mixers.h"
#include "workloads/schedules/chunk_map.h"
#include "workloads/traffic/carried_traffic.h"
#include "workloads/traffic/closed_form_parameters.h"
#include "workloads/traffic/grid_traffic.h"
#include "workloads/traffic/host_traffic.h"
#include "workloads/traffic/mixture_traffic.h"
#include "workloads/traffic/recommender_traffic.h"
#include "workloads/traffic/sharded_traffic.h"
#include "workloads/traffic/traffic_rows.h"

namespace orrery::workloads {

namespace {

using sim::real;

/// FSDP and its kin share weights out by default, and where they share out gradients alone gather and reduce in every
/// micro-batch, unless they leave both to the ends of a pipeline's step.
bool made_for_units(const calibration::Software& software) {
  return software.defaults.sharding == Sharding::parameters;
}
bool reduces_every_micro_batch(const Parallelism& layout, const calibration::Software& software) {
  if (layout.sharding != Sharding::gradients) return false;
  return software.gradients.reduces_every_pass() || (made_for_units(software) && layout.pipeline == 1);
}
bool scatters(const Parallelism& layout, const calibration::Software& software) {
  if (layout.sharding == Sharding::optimizer &&
      software.gradients.of_shards == calibration::ShardReduction::all_reduce_last)
    return false;
  return layout.sharding == Sharding::parameters || reduces_every_micro_batch(layout, software) ||
         (layout.sharding != Sharding::none && software.gradients.of_shards != calibration::ShardReduction::all_reduce);
}

/// Gradients and parameters over the ranks that hold the same ones.
class StateRows {
 public:
  /// `microbatches`: that each holder of a block sees in a step.
  StateRows(const Parallelism& layout, const calibration::Software& software, const Precision& precision,
            double microbatches, TrafficRows& rows)
      : layout_(layout),
        sharding_(layout.sharding),
        software_(software),
        precision_(precision),
        microbatches_(microbatches),
        rows_(rows) {}

  /// Gradients and parameters of `whole` elements on all ranks that hold different ones, which groups of `group` ranks
  /// share out and `replicas` ranks hold alike. `gathered`: of them, where parameters are shared out.
  void add_all(const CommGroup& among, const CommGroup& across, std::int64_t group, std::int64_t replicas, double whole,
               const GatheredElements& gathered) {
    const double groups = real(replicas / group);
    const double gradients = whole * reduced_gradient_bytes();
    const double each = calibration::bytes_of(precision_.parameters), parameters = whole * each;
    const double m = microbatches_;
    const bool every = reduces_every_micro_batch(layout_, software_);
    // One virtual call per rank that holds other parameters, which moves those of all stages; the counted table knows
    // the real number of calls.
    switch (sharding_) {
      case Sharding::none:
        add(among, CollectiveOp::all_reduce, "gradients, backward", group, gradients, 1, 0);
        break;
      case Sharding::optimizer:
      case Sharding::gradients:
        add(among, scatters(layout_, software_) ? CollectiveOp::reduce_scatter : CollectiveOp::all_reduce,
            "gradients, backward", group, gradients, (every ? m : 1) * groups, 0);
        between_groups(across, real(replicas / group), gradients,
                       every && software_.gradients.passes != calibration::GradientPasses::to_owners &&
                               !software_.fetches.reduces_groups_once()
                           ? m
                           : 1);
        add(among, CollectiveOp::all_gather, "parameters, forward", group, parameters,
            (every && made_for_units(software_) ? m : 1) * groups, 0);
        break;
      case Sharding::parameters:
        add_sharded_rows(among, across, ranks_of(replicas, group),
                         {whole, gathered, each, real(calibration::bytes_of(precision_.gradients))}, software_.fetches,
                         {m, software_.fetches.reduces_last_pass() ? 1 : m}, rows_);
        break;
    }
  }

  /// Frozen weights of so many bytes, where parameters are shared out.
  void add_frozen(const CommGroup& among, std::int64_t group, std::int64_t replicas, double bytes) {
    if (sharding_ == Sharding::parameters && replicas > 1)
      add_frozen_rows(among, ranks_of(replicas, group), bytes, microbatches_, rows_);
  }

 private:
  /// Where ranks that share out states add gradients up with an all-reduce all the same, they send them in 16 bit.
  double reduced_gradient_bytes() const {
    const int added_up = calibration::bytes_of(precision_.gradients);
    if (scatters(layout_, software_) || sharding_ == Sharding::none ||
        software_.gradients.of_shards == calibration::ShardReduction::all_reduce_last)
      return added_up;
    return std::min(added_up, calibration::bytes_of(precision_.activations));
  }

  /// Every rank's part of the gradients, added up over the groups that repeat it.
  void between_groups(const CommGroup& among, double groups, double gradients, double calls) {
    if (groups > 1)
      add(among, CollectiveOp::all_reduce, "gradients, between shard groups", static_cast<std::int64_t>(groups),
          gradients, calls, 0);
  }

  template <class... Facts>
  void add(const Facts&... facts) {
    rows_.add(facts...);
  }

  ShardedRanks ranks_of(std::int64_t replicas, std::int64_t owners) const {
    const auto part = [owners](std::int64_t group) { return group > 0 ? group : owners; };
    return {replicas, owners, part(layout_.inside.weights), part(layout_.inside.gradients), layout_.inside.secondary};
  }

  const Parallelism& layout_;
  Sharding sharding_;
  const calibration::Software& software_;
  const Precision& precision_;
  double microbatches_;
  TrafficRows& rows_;
};

/// Elements of keys and values of a token, over all tensor ranks, that a context group exchanges: ranks that share a
/// head of keys have each a copy.
double exchanged_width(const Model& model, bool repeats_keys, std::int64_t tensor) {
  const LatentAttention& latent = model.attention.latent;
  if (latent.any()) return real(model.attention.heads * ((latent.qk_dim() + latent.v_dim) / 2 * 2));
  const std::int64_t keys = std::max(model.attention.kv_heads, tensor);
  return 2 * real((repeats_keys ? model.attention.heads : keys) * model.mean_head_dim());
}

/// Of queries, or of attention's output.
double query_width(const Model& model) {
  const LatentAttention& latent = model.attention.latent;
  return real(model.attention.heads * (latent.any() ? (latent.qk_dim() + latent.v_dim) / 2 : model.mean_head_dim()));
}

/// Layers with attention.
enum class Sees : std::uint8_t { any, all_keys };
double attention_layers(const Model& model, Sees sees = Sees::any) {
  if (!model.pattern.any()) return real(model.layers + model.experts.mtp_layers);
  std::int64_t attend = 0;
  for (std::int64_t layer = 0; layer < model.layers + model.experts.mtp_layers; ++layer)
    attend += model.pattern.at(layer).attends && (sees == Sees::any || !model.pattern.at(layer).attention.sparse.any());
  return real(attend);
}

/// `tokens`: of a micro-batch on one rank; `again`: layers whose attention runs again, by itself or with the whole.
void add_context_rows(const Model& model, const calibration::AttentionStyle& style, const Parallelism& layout,
                      const Method& method, double tokens, double microbatches, double again, TrafficRows& rows) {
  const double layers = attention_layers(model, Sees::all_keys);
  if (layers == 0) return;
  const double width = exchanged_width(model, style.repeats_keys(), layout.tensor) / real(layout.tensor);
  const double element = calibration::bytes_of(method.precision.activations), own = tokens * width * element;
  const double runs = microbatches * real(layout.data * layout.tensor);  // of a layer, over groups
  const double c = real(layout.context);
  const auto row = [&](CollectiveOp op, const char* what, double calls, double times) {
    if (op == CollectiveOp::send_receive)
      rows.add(CommGroup::context, op, what, layout.context, own, calls * times * runs * c, calls);
    else
      rows.add(CommGroup::context, op, what, layout.context, own * c, calls * times * runs, calls);
  };
  if (layout.context_method == ContextMethod::all_to_all) {
    const double queries = tokens * query_width(model) / real(layout.tensor) * element;
    const auto heads = [&](const char* what, double bytes, double calls, double times) {
      rows.add(CommGroup::context, CollectiveOp::all_to_all, what, layout.context, bytes, calls * times * runs, calls);
    };
    heads("queries, forward", queries, 1, layers);
    heads("keys and values, forward", own / 2, 2, layers);
    heads("attention output, forward", queries, 1, layers);
    heads("queries, forward (recomputed)", queries, 1, again);
    heads("keys and values, forward (recomputed)", own / 2, 2, again);
    heads("attention output, forward (recomputed)", queries, 1, again);
    heads("attention output gradients, backward", queries, 1, layers);
    heads("query gradients, backward", queries, 1, layers);
    return heads("key and value gradients, backward", own / 2, 2, layers);
  }
  const bool ring = layout.context_method == ContextMethod::ring;
  const auto gather = ring ? CollectiveOp::send_receive : CollectiveOp::all_gather;
  const auto scatter = ring ? CollectiveOp::send_receive : CollectiveOp::reduce_scatter;
  const double gathers = ring ? c - 1 : 1;
  row(gather, "keys and values, forward", gathers, layers);
  if (again > 0) row(gather, "keys and values, forward (recomputed)", gathers, again);
  row(gather, "keys and values, backward", gathers, layers);
  const char* const gradients = "key and value gradients, backward";
  if (ring || !style.gathered_in_blocks) return row(scatter, gradients, ring ? c : 1, layers);
  rows.add(CommGroup::context, CollectiveOp::send_receive, gradients, layout.context, tokens * width * 4,  // fp32
           c * layers * runs * c, c);
}

/// Keys of sparse attention are gathered once, in the type of activations, and their gradients scattered: every
/// token's, or one of so many tokens', and those that an indexer chooses by. `again`: layers that run again as a whole.
void add_sparse_rows(const Model& model, const Parallelism& layout, const Method& method, double tokens,
                     double microbatches, const std::vector<bool>& again, TrafficRows& rows) {
  if (!model.pattern.any()) return;
  const double element = calibration::bytes_of(method.precision.activations), all = tokens * real(layout.context);
  const double sequences = all / real(model.seq), runs = microbatches * real(layout.data * layout.tensor);
  struct Sum {
    double elements = 0, times = 0;
    void add(double more) { *this = {elements + more, times + 1}; }
  } keys, keys_again, index_keys, index_keys_again;
  for (std::size_t layer = 0; layer < again.size(); ++layer) {
    const Model::Block& block = model.pattern.at(static_cast<std::int64_t>(layer));
    const SparseAttention& s = block.attention.sparse;
    if (!block.attends || !s.any()) continue;
    const LatentAttention& latent = block.attention.latent;
    const std::int64_t heads = block.attention.kv_heads / layout.tensor;
    const double of_ratio = s.ratio > 0 ? sequences * real(model.seq / s.ratio) : 0;
    const double made = s.compressed() ? of_ratio * real(block.attention.head_width)
                        : latent.any() ? all * real(latent.kv_rank + latent.rope_dim)
                                       : all * 2 * real(heads * block.attention.head_width);
    keys.add(made);
    if (again[layer]) keys_again.add(made);
    if (!s.indexes()) continue;
    const double indexed = (s.compressed() ? of_ratio : all) * real(s.index_dim);
    index_keys.add(indexed);
    if (again[layer]) index_keys_again.add(indexed);
  }
  const auto row = [&](CollectiveOp op, const char* what, const Sum& sum) {
    if (sum.times == 0) return;
    rows.add(CommGroup::context, op, what, layout.context, sum.elements / sum.times * element, sum.times * runs, 1);
  };
  row(CollectiveOp::all_gather, "chosen keys, forward", keys);
  row(CollectiveOp::all_gather, "chosen keys, forward (recomputed)", keys_again);
  row(CollectiveOp::reduce_scatter, "chosen key gradients, backward", keys);
  row(CollectiveOp::all_gather, "index keys, forward", index_keys);
  row(CollectiveOp::all_gather, "index keys, forward (recomputed)", index_keys_again);
  row(CollectiveOp::reduce_scatter, "index key gradients, backward", index_keys);
}

/// Mixers with a state exchange positions for heads, and back, or gather their states; `again`: layers run again whole.
void add_mixer_rows(const Model& model, const Parallelism& layout, const Method& method, double tokens,
                    double microbatches, const std::vector<bool>& again, TrafficRows& rows) {
  if (!model.pattern.any()) return;
  struct Sum {
    double layers = 0, made = 0, back = 0, states = 0;
  } all, twice;
  for (std::size_t layer = 0; layer < again.size(); ++layer) {
    const StateMixer& mixer = model.pattern.at(static_cast<std::int64_t>(layer)).state;
    if (!mixer.any()) continue;
    const MixerParts parts = mixer.kind->parts(mixer);
    for (Sum* sum : {&all, &twice}) {
      if (sum == &twice && !again[layer]) continue;
      sum->layers += 1;
      sum->states += passes_states(parts) ? real(mixer.heads * parts.handed_on) : 0;
      sum->made += passes_states(parts) ? 0 : real(made_by(mixer, parts));
      // What is normalised behind the exchange is the scan's output with its gate.
      sum->back += passes_states(parts) ? 0 : real(mixer.values()) * (parts.normed_behind_exchange ? 2 : 1);
    }
  }
  if (all.layers == 0) return;
  const double token = tokens / real(layout.tensor) * calibration::bytes_of(method.precision.activations);
  const double runs = microbatches * real(layout.data * layout.tensor);
  if (all.states > 0) {
    // Of a sequence each, in fp32, of all ranks.
    const double sequences = tokens * real(layout.context) / real(model.seq);
    const auto gather = [&](const char* what, const Sum& sum) {
      const double bytes = 4 * sum.states / sum.layers * sequences * real(layout.context) / real(layout.tensor);
      rows.add(CommGroup::context, CollectiveOp::all_gather, what, layout.context, bytes, sum.layers * runs, 1);
    };
    gather("mixer states, forward", all);
    if (twice.layers > 0) gather("mixer states, forward (recomputed)", twice);
    return gather("mixer state gradients, backward", all);
  }
  const auto row = [&](const char* what, double Sum::*elements, const Sum& sum) {
    if (sum.layers > 0)
      rows.add(CommGroup::context, CollectiveOp::all_to_all, what, layout.context, sum.*elements / sum.layers * token,
               sum.layers * runs, 1);
  };
  row("mixer inputs, forward", &Sum::made, all);
  row("mixer inputs, forward (recomputed)", &Sum::made, twice);
  row("mixer outputs, forward", &Sum::back, all);
  row("mixer outputs, forward (recomputed)", &Sum::back, twice);
  row("mixer output gradients, backward", &Sum::back, all);
  row("mixer input gradients, backward", &Sum::made, all);
}

/// Queries, keys and values of all tensor ranks, where there are more of these than heads of keys. `activation`: bytes
/// of a hidden state; `runs`: passes over a layer; `again`: layers of which they are made again.
void add_shared_head_rows(const Model& model, const Parallelism& layout, double activation, double runs, double again,
                          TrafficRows& rows) {
  if (layout.tensor <= model.attention.kv_heads || model.attention.latent.any()) return;
  const double all = attention_layers(model);
  const std::int64_t gate = model.attention.output_gate ? model.output_width() : 0;
  const double bytes = activation / real(model.hidden) * real(model.attention_width() + gate + model.kv_made());
  const auto exchange = [&](CollectiveOp op, const char* what, double layers) {
    if (layers > 0) rows.add(CommGroup::tensor, op, what, layout.tensor, bytes, layers * runs, 1);
  };
  exchange(CollectiveOp::all_gather, "queries, keys and values, forward", all);
  exchange(CollectiveOp::all_gather, "queries, keys and values, forward (recomputed)", again);
  exchange(CollectiveOp::reduce_scatter, "query, key and value gradients, backward", all);
}

/// Of `sums` of a block's outputs over the tensor group those that are made again with it.
double sums_again(const Method& method, const Model& model, const calibration::LinearStyle& style, double sums) {
  if (method.recompute != Recompute::full) return 0;
  return stops_ahead_of_last_product(model, style, method.adapters) ? sums - 1 : sums;
}

/// Inputs of a layer's products that are gathered once more for the part of it that is computed again.
double inputs_again(const Method& method, bool gated) {
  if (method.recompute != Recompute::selective) return 0;
  const RecomputedParts& parts = method.recomputed;
  if (parts.every_second_product) return gated ? 2 : 1;
  return (parts.qkv ? 1 : 0) + (parts.mlp ? 1 : 0);
}

/// What a block's products read is gathered in the type that they read it in, where software casts it ahead: its bytes
/// over those of activations.
double gathered_share(const Precision& precision, const calibration::LinearStyle& style, bool sequence_parallel) {
  const calibration::DataType type = precision.matmul;
  const bool cast = sequence_parallel && style.gathers_quantised && type == calibration::DataType::fp8;
  return cast ? calibration::operand_bytes(type) / calibration::bytes_of(precision.activations) : 1;
}

/// Numbers in fp32 of every token that shards of the vocabulary add up: those of the loss's recipe, for a z-loss
/// maximum and sum once more.
double losses(const calibration::LayerStyle& style) {
  using calibration::RecipePart;
  const calibration::RecipeSizes one(RecipePart::loss,
                                     {{"logits", 0}, {"tokens", 1}, {"e", 0}, {"group", 1}, {"shards", 1}});
  return calibration::exchanged_elements(style.recipes.of(RecipePart::loss), one) + (style.head.z_loss ? 2 : 0);
}

/// A number for each tensor that tensor ranks share out and products read, or one for each row of those whose channels
/// they share: what both halves read and the gradients of what they make, behind and ahead of a gather, attention's
/// output, the activation, and gradients of what column-parallel products make. `tokens`: of a micro-batch on one rank;
/// `runs`: passes over a layer, of all columns of ranks; `again`: layers that run again as a whole, `in_parts`: in the
/// parts that are named.
void add_scale_rows(const Model& model, const Parallelism& layout, const Method& method,
                    const calibration::LayerStyle& style, double tokens, double runs, double again, double in_parts,
                    TrafficRows& rows) {
  const calibration::DataType type = method.precision.matmul;
  const bool of_rows = type == calibration::DataType::fp8_rowwise;
  const bool whole = type == calibration::DataType::fp8 && style.looks_for_scales();
  if (!style.linear.gathers_quantised || (!of_rows && !whole)) return;
  const double bytes = 4 * (of_rows ? tokens : 1);
  const double layers = real(model.layers);
  const bool together = model.parallel_block;
  const double ends = whole && layout.sequence_parallel ? (together ? 1 : 2) : 0;
  const auto found = [&](const char* what, double of_layers, double times) {
    if (times <= 0 || of_layers <= 0) return;
    rows.add(CommGroup::tensor, CollectiveOp::all_reduce, what, layout.tensor, bytes, times * of_layers * runs, times);
  };
  found("scales, forward", layers, ends + 2);
  const bool stops = style.compiled_blocks && stops_ahead_of_last_product(model, style.linear, method.adapters);
  found("scales, forward (recomputed)", again, ends + (stops ? 1 : 2));
  const RecomputedParts& parts = method.recomputed;
  const bool activation = method.recompute == Recompute::selective && (parts.mlp || parts.activation);
  found("scales, forward (recomputed)", in_parts, activation && !parts.every_second_product ? 1 : 0);
  const double queries = style.linear.queries.separate() && !together ? 3 : 1;
  const double up = model.mlp.gated && style.linear.separate_gate && !together ? 2 : 1;
  found("scales, backward", layers, ends + queries + up);
}

void add_norm_row(const Parallelism& layout, TrafficRows& rows) {
  const std::int64_t ranks = layout.tensor * layout.pipeline * layout.data * layout.context;
  const std::int64_t group = layout.sharding != Sharding::none ? ranks : layout.tensor * layout.pipeline;
  rows.add(CommGroup::norm, CollectiveOp::all_reduce, "gradient norm", group, 4, real(ranks / group), 0);
}

class ClosedForm {
 public:
  explicit ClosedForm(const Job& job)
      : job_(job),
        p_(job.parallelism),
        adapters_(job.method.adapters),
        map_(job.parallelism.chunk_map()),
        gathered_(gathered_share(job.method.precision, job.software.layers.linear, job.parallelism.sequence_parallel)),
        whole_(recomputed_layers(job.model, job.method, split_layers(job).network, Recompute::full)),
        again_(marked_layers(job.model, whole_)),
        in_parts_(marked_layers(
            job.model, recomputed_layers(job.model, job.method, split_layers(job).network, Recompute::selective))),
        mixture_(MixtureFacts{job.model,
                              job.parallelism,
                              job.method,
                              job.placement,
                              {job.batch.micro, job.rank_seq(), job.microbatches(), job.machine.gpus_per_node},
                              job.software.layers.linear.keeps_gathered_inputs,
                              gathered_,
                              job.software.layers.linear.queries.separate(),
                              stops_ahead_of_last_product(job.model, job.software.layers.linear, job.method.adapters),
                              makes_last_product_again(job.model, job.software.layers.linear),
                              again_,
                              in_parts_}) {}

  std::vector<TrafficRow> rows() {
    if (p_.tensor > 1) tensor();
    if (p_.context > 1) {
      const double tokens = real(job_.batch.micro * job_.rank_seq());
      const double parts = job_.method.recomputed.core_attention ? in_parts_.attention - in_parts_.sparse : 0;
      add_context_rows(job_.model, job_.software.attention_style, p_, job_.method, tokens, real(job_.microbatches()),
                       again_.attention - again_.sparse + parts, rows_);
      add_sparse_rows(job_.model, p_, job_.method, tokens, real(job_.microbatches()), whole_, rows_);
      add_mixer_rows(job_.model, p_, job_.method, tokens, real(job_.microbatches()), whole_, rows_);
    }
    if (p_.pipeline > 1) pipeline();
    data();
    if (job_.model.experts.any()) {
      if (!adapters_.any()) expert_data();
      mixture_.exchange_rows(rows_);
    }
    scales();
    if (job_.ties_embeddings()) embedding();
    add_norm_row(p_, rows_);
    return std::move(rows_.rows);
  }

 private:
  template <class... Facts>
  void add(const Facts&... facts) {
    rows_.add(facts...);
  }

  /// Ranks of one tensor and pipeline coordinate.
  double columns() const { return real(p_.data * p_.context); }
  double boundaries() const { return real(map_.crossings()); }
  double activation() const {
    return real(job_.batch.micro) * real(job_.rank_seq()) * real(job_.model.hidden) *
           calibration::bytes_of(job_.method.precision.activations);
  }

  void tensor() {
    const double layers = real(job_.model.layers), runs = real(job_.microbatches()) * columns();
    const double heads = 1 + real(job_.model.experts.mtp_layers), per_pass = job_.model.parallel_block ? 1 : 2;
    const bool sp = p_.sequence_parallel;
    const double gathered = activation() * gathered_;
    if (p_.inside.tensor_in > 1) return grid(runs);
    const double heads_again = again_.attention + (job_.method.recomputed.qkv ? in_parts_.attention : 0);
    add_shared_head_rows(job_.model, p_, activation(), runs, heads_again, rows_);
    const auto boundary = [&](const char* what, double times, double gathers, double sums) {
      if (sp) add(CommGroup::tensor, CollectiveOp::all_gather, what, p_.tensor, gathered, gathers * times, gathers);
      const auto sum = sp ? CollectiveOp::reduce_scatter : CollectiveOp::all_reduce;
      if (sums > 0) add(CommGroup::tensor, sum, what, p_.tensor, activation(), sums * times, sums);
    };
    if (by_layer()) {
      mixture_.tensor_rows(runs, rows_);
      ends(runs, heads);
      return gathered_messages(runs);
    }
    boundary("activations, forward", layers * runs, per_pass, per_pass);
    if (const double again = again_.all(); again > 0)
      boundary("activations, forward (recomputed)", again * runs, per_pass,
               sums_again(job_.method, job_.model, job_.software.layers.linear, per_pass));
    if (const double again = sp ? inputs_again(job_.method, job_.model.mlp.gated) : 0; again > 0)
      add(CommGroup::tensor, CollectiveOp::all_gather, "activations, forward (recomputed)", p_.tensor, gathered,
          again * in_parts_.all() * runs, again);
    // Queries, keys and values that are layers of their own reduce the gradient of their input three times.
    const double apart = job_.software.layers.linear.queries.separate() && !job_.model.parallel_block && !sp ? 2 : 0;
    boundary("activation gradients, backward", layers * runs, per_pass + apart, per_pass + apart);
    if (sp && !adapters_.any() && !job_.software.layers.linear.keeps_gathered_inputs)
      add(CommGroup::tensor, CollectiveOp::all_gather, "saved inputs, backward", p_.tensor, gathered,
          per_pass * layers * runs, per_pass);
    add_scale_rows(job_.model, p_, job_.method, job_.software.layers, real(job_.batch.micro * job_.rank_seq()), runs,
                   again_.all(), in_parts_.all(), rows_);
    mixture_.adapter_rows(runs, rows_);
    ends(runs, heads);
    gathered_messages(runs);
  }

  /// What stages send each other in shards, where the tensor group has whole hidden states.
  void gathered_messages(double runs) {
    if (p_.sequence_parallel || !scatters_activations() || p_.pipeline == 1) return;
    add(CommGroup::tensor, CollectiveOp::all_gather, "pipeline message", p_.tensor, handed_on(),
        (scatters_gradients() ? 2 : 1) * runs * boundaries(), 0);
  }

  bool scatters_activations() const { return job_.software.messages.scattered != calibration::ScatteredMessages::none; }
  bool scatters_gradients() const { return job_.software.messages.scattered == calibration::ScatteredMessages::both; }

  /// Bytes of a micro-batch from a stage to the next: hidden states of all streams, and inputs of layers.
  double handed_on() const {
    const double inputs = real(job_.model.layer_inputs.width * job_.model.layers) / real(job_.model.hidden);
    return (real(job_.model.residual_streams) + inputs) * activation();
  }

  void grid(double runs) {
    GridTraffic{job_.model,
                p_,
                real(job_.batch.micro) * real(job_.rank_seq()),
                real(calibration::bytes_of(job_.method.precision.activations)),
                padded_vocab(job_.model.vocab, p_.tensor, job_.software.layers.head.pads_vocabulary),
                runs,
                sums_again(job_.method, job_.model, job_.software.layers.linear, 2),
                losses(job_.software.layers)}
        .add_rows(rows_);
  }

  /// Embedding, `heads` heads and their losses.
  void ends(double runs, double heads) {
    const bool sp = p_.sequence_parallel;
    const double target = real(job_.model.target()) / real(job_.model.seq);  // which the head sees
    const auto exchange = [&](CollectiveOp op, const char* what, double calls) {
      const bool of_head = std::string_view(what).starts_with("head");
      add(CommGroup::tensor, op, what, p_.tensor, activation() * (of_head ? target : 1), calls, 0);
    };
    const calibration::HeadStyle& head = job_.software.layers.head;
    if (!head.whole_embedding)
      exchange(sp ? CollectiveOp::reduce_scatter : CollectiveOp::all_reduce, "embedding, forward", runs);
    if (sp) exchange(CollectiveOp::all_gather, "head input, forward", heads * runs);
    if (sp && !adapters_.any()) {
      exchange(CollectiveOp::all_gather, "embedding gradient, backward", runs);
      if (!job_.software.layers.linear.keeps_gathered_inputs)
        exchange(CollectiveOp::all_gather, "head saved input, backward", heads * runs);
    }
    exchange(sp ? CollectiveOp::reduce_scatter : CollectiveOp::all_reduce, "head input gradient, backward",
             heads * runs);
    const double tokens = real(job_.batch.micro) * real(job_.rank_seq()) * target;
    if (!head.gathers_logits)
      return add(CommGroup::tensor, CollectiveOp::all_reduce, "loss", p_.tensor, 4 * tokens,
                 losses(job_.software.layers) * heads * runs, 0);
    const double vocab = real(padded_vocab(job_.model.vocab, p_.tensor, head.pads_vocabulary));
    add(CommGroup::tensor, CollectiveOp::all_gather, "logits, forward", p_.tensor,
        tokens * vocab * calibration::bytes_of(job_.method.precision.activations), heads * runs, 0);
  }

  void pipeline() {
    // Of a rank and boundary in the mean, what blocks read of those ahead beside hidden states.
    const double more = carried_elements(job_.model, split_layers(job_), map_) * activation() /
                        real(job_.model.hidden) / boundaries() / real(p_.tensor);
    const auto bytes = [&](bool scattered) {
      const bool split = p_.tensor > 1 && (p_.sequence_parallel || scattered);
      return handed_on() / (split ? real(p_.tensor) : 1.0) + more;
    };
    const double messages = boundaries() * real(job_.microbatches()) * columns() * real(p_.tensor);
    add(CommGroup::activations, CollectiveOp::send_receive, "activations, forward", 2, bytes(scatters_activations()),
        messages, 0);
    add(CommGroup::gradients, CollectiveOp::send_receive, "activation gradients, backward", 2,
        bytes(scatters_gradients()), messages, 0);
  }

  void data() {
    const ShardParameters shard =
        shard_parameters(job_.model, p_.tensor, job_.software.layers.head.pads_vocabulary, map_.ends_meet(),
                         p_.inside.tensor_in, job_.software.layers.head.whole_embedding);
    const bool mixed = by_layer();
    const double layers =
        mixed ? mixture_parameters(job_.model, split_of(job_)).shared : real(job_.model.layers) * shard.layer;
    const double trained =
        adapters_.any() ? adapter_parameters(job_.model, adapters_, p_.tensor) : layers + shard.embedding + shard.head;
    GatheredElements gathered = WeightTraffic{job_.model, p_, job_.method, job_.software}.of(trained);
    for (double* elements : {&gathered.forward, &gathered.backward, &gathered.after_step}) *elements *= real(p_.tensor);
    const double whole = real(p_.tensor) * trained;
    states().add_all(CommGroup::data, CommGroup::replicate, job_.shard_ranks(), job_.replicas(), whole, gathered);
    if (adapters_.any()) {
      const FrozenBytes bytes = frozen_bytes(adapters_, job_.method.precision);
      // Routed experts go along where no expert ranks share them out.
      const double experts =
          job_.model.experts.any() ? mixture_parameters(job_.model, split_of(job_)).experts * bytes.blocks : 0;
      const double frozen = real(p_.tensor) * (layers * bytes.blocks + (shard.embedding + shard.head) * bytes.ends) +
                            (p_.expert == 1 ? real(p_.expert_tensor) * experts : 0);
      if (p_.expert > 1) frozen_experts(real(p_.expert * p_.expert_tensor) * experts);
      states().add_frozen(CommGroup::data, job_.shard_ranks(), job_.replicas(), frozen);
      add_frozen_host_rows({p_, job_.method, job_.software}, frozen,
                           {job_.shard_ranks(), job_.replicas(), microbatches_of_a_replica()}, rows_);
    }
    add_host_rows({p_, job_.method, job_.software}, whole, gathered,
                  {job_.shard_ranks(), job_.replicas(), microbatches_of_a_replica()}, rows_);
  }

  /// Of so many bytes.
  void frozen_experts(double bytes) {
    states().add_frozen(CommGroup::expert_data, job_.expert_shard_ranks(), job_.expert_replicas(), bytes);
    if (job_.expert_replicas() > 1)
      add_frozen_host_rows({p_, job_.method, job_.software}, bytes,
                           {job_.expert_shard_ranks(), job_.expert_replicas(), microbatches_of_a_replica()}, rows_);
  }

  void expert_data() {
    const double all = real(p_.expert * p_.expert_tensor) * mixture_parameters(job_.model, split_of(job_)).experts;
    states().add_all(CommGroup::expert_data, CommGroup::expert_replicate, job_.expert_shard_ranks(),
                     job_.expert_replicas(), all, {all, all, 0});
    add_host_rows({p_, job_.method, job_.software}, all, {all, all, 0},
                  {job_.expert_shard_ranks(), job_.expert_replicas(), microbatches_of_a_replica()}, rows_);
  }

  /// Whether layers differ, so that each is counted by itself: those that predict further tokens have a projection
  /// more.
  bool by_layer() const {
    return job_.model.experts.any() || job_.model.pattern.any() || job_.model.experts.mtp_layers > 0;
  }

  StateRows states() { return {p_, job_.software, job_.method.precision, microbatches_of_a_replica(), rows_}; }
  /// Of DualPipe's two copies of a block each sees half of the micro-batches, in step with the other.
  double microbatches_of_a_replica() const { return real(job_.microbatches()) * columns() / real(job_.replicas()); }

  /// Largest magnitudes of fp8 tensors, layer by layer: after the forward and after the backward pass.
  void scales() {
    if (!reduces_scales(job_.software.gradients, job_.method.precision.matmul, job_.replicas())) return;
    constexpr double kBytes = 4 * 3 * 4;  // qkv, projection, up and down; input, weight, gradient; a number in fp32
    add(CommGroup::scales, CollectiveOp::all_reduce, "fp8 scales", p_.tensor * job_.replicas(), kBytes,
        2 * microbatches_of_a_replica() * real(job_.model.layers + job_.model.experts.mtp_layers), 2);
  }

  void embedding() {
    const std::int64_t vocab = padded_vocab(job_.model.vocab, p_.tensor, job_.software.layers.head.pads_vocabulary);
    double bytes =
        real(vocab / p_.tensor) * real(job_.model.hidden) * calibration::bytes_of(job_.method.precision.gradients);
    if (p_.sharding == Sharding::parameters) bytes /= real(job_.shard_ranks());
    add(CommGroup::embedding, CollectiveOp::all_reduce, "tied embedding gradients", 2, bytes,
        real(p_.tensor) * columns(), 0);
  }

  const Job& job_;
  const Parallelism& p_;
  const Adapters& adapters_;
  ChunkMap map_;
  double gathered_;          // share
  std::vector<bool> whole_;  // layers that are computed again as a whole
  MixtureLayers again_;      // these
  MixtureLayers in_parts_;   // those of which parts are computed again
  MixtureTraffic mixture_;
  TrafficRows rows_;
};

/// `samples`: of a step.
std::vector<TrafficRow> recommender_rows(const Recommender& model, std::int64_t gpus, std::int64_t samples,
                                         const Precision& precision, const calibration::Software& software) {
  TrafficRows rows;
  Parallelism repeated;
  repeated.sharding = Sharding::none;
  StateRows states(repeated, software, precision, 1, rows);
  const double whole = repeated_parameters(model);
  if (gpus > 1) states.add_all(CommGroup::data, CommGroup::replicate, gpus, gpus, whole, {whole, whole, 0});
  add_table_rows(model, gpus, real(samples), calibration::bytes_of(precision.activations), rows);
  return std::move(rows.rows);
}

bool same_row(const TrafficRow& a, const TrafficRow& b) {
  return a.dimension == b.dimension && a.operation == b.operation && a.what == b.what;
}

}  // namespace

std::vector<TrafficRow> closed_form_traffic(const Job& job) {
  const Recommender& model = job.model.recommender;
  if (model.any())
    return recommender_rows(model, job.machine.gpus, job.batch.global, job.method.precision, job.software);
  return ClosedForm(job).rows();
}

namespace {

/// So many times so many bytes. Whole numbers of times, added up in the order of the bytes: the sum is the same to the
/// last digit whether a step was counted whole or from one that repeats, every rank or one of each class.
using Times = std::map<double, std::int64_t>;

double bytes_in_all(const Times& times) {
  double sum = 0;
  for (const auto& [bytes, n] : times) sum += bytes * real(n);
  return sum;
}

/// Adds so many times what `whole` has more than `part`.
void repeat(Times& whole, const Times& part, std::int64_t times) {
  for (auto& [bytes, n] : whole) {
    const auto it = part.find(bytes);
    n += (n - (it == part.end() ? 0 : it->second)) * times;
  }
}

/// Calls of a row on one stage, and the bytes of their buffers.
struct Calls {
  std::int64_t number = 0;
  Times bytes;
};

/// What the operations of a plan move: rows, by row what is sent, and by stage and row the calls.
struct Counted {
  std::vector<TrafficRow> rows;
  std::vector<Times> sent;
  std::vector<std::vector<Calls>> calls;

  void count_stage(const StepPlan& step, std::size_t stage, std::int64_t instances,
                   const std::vector<std::size_t>& row_of) {
    const auto count = [&](const OpNote& note) {
      if (note.traffic == kNoTraffic) return;
      const TrafficKey& key = step.stages.traffic[note.traffic];
      if (key.group == CommGroup::host) return;  // what a host does in its memory moves nowhere
      const std::size_t r = row_of[note.traffic];
      const bool receiver = key.op == CollectiveOp::send_receive && !note.counts;
      if (receiver) return;
      sent[r][key.sent_per_call * note.share] += instances;
      if (note.counts) {
        calls[stage][r].number += 1;
        calls[stage][r].bytes[key.bytes] += 1;
      }
    };
    for (const OpNote& note : step.stages.notes[stage]) {
      count(note);
      if (note.whole == kNoWholePass) continue;
      for (const OpNote& transfer : step.stages.whole_passes[note.whole].transfers) count(transfer);
    }
  }

  /// The rows, with the calls of the stage that has most.
  std::vector<TrafficRow> table() && {
    for (const std::vector<Calls>& of_stage : calls) {
      for (std::size_t r = 0; r < rows.size(); ++r) {
        if (real(of_stage[r].number) <= rows[r].calls) continue;
        rows[r].calls = real(of_stage[r].number);
        rows[r].bytes_per_call = bytes_in_all(of_stage[r].bytes) / real(of_stage[r].number);
      }
    }
    for (std::size_t r = 0; r < rows.size(); ++r) rows[r].simulated_bytes = bytes_in_all(sent[r]);
    return std::move(rows);
  }
};

Counted counted(const StepPlan& step) {
  std::vector<std::int64_t> instances(step.stages.notes.size(), 0);
  const sim::Folded& folded = step.groups->folded;
  for (std::uint32_t c = 0; c < folded.class_size.size(); ++c)
    instances[sim::index(folded.plan.instances[sim::InstanceId{c}].program)] += folded.class_size[c];
  Counted out;
  std::vector<std::size_t> row_of(step.stages.traffic.size());
  for (std::size_t k = 0; k < step.stages.traffic.size(); ++k) {
    const TrafficKey& key = step.stages.traffic[k];
    if (key.group == CommGroup::host) continue;
    TrafficRow row;
    row.among = key.group;
    row.dimension = key.group.name;
    row.operation = calibration::name_of(key.op);
    row.what = key.what;
    row.group = key.ranks;
    row.level = topology::name_of(step.groups->shapes[key.group].top);
    const auto it =
        std::find_if(out.rows.begin(), out.rows.end(), [&](const TrafficRow& r) { return same_row(r, row); });
    row_of[k] = static_cast<std::size_t>(it - out.rows.begin());
    if (it == out.rows.end()) out.rows.push_back(row);
  }
  out.sent.resize(out.rows.size());
  out.calls.assign(instances.size(), std::vector<Calls>(out.rows.size()));
  for (std::size_t stage = 0; stage < instances.size(); ++stage) out.count_stage(step, stage, instances[stage], row_of);
  return out;
}

}  // namespace

std::vector<TrafficRow> count_traffic(const StepPlan& step) { return counted(step).table(); }

std::vector<TrafficRow> count_repeated_traffic(const StepPlan& step, const StepPlan& less, std::int64_t times) {
  Counted whole = counted(step);
  const Counted part = counted(less);
  for (std::size_t r = 0; r < whole.rows.size(); ++r) {
    const TrafficRow& row = whole.rows[r];
    const auto it =
        std::find_if(part.rows.begin(), part.rows.end(), [&](const TrafficRow& p) { return same_row(p, row); });
    SIM_CHECK(it != part.rows.end(), "a shorter step moves nothing of what a longer one moves");
    const auto p = static_cast<std::size_t>(it - part.rows.begin());
    repeat(whole.sent[r], part.sent[p], times);
    for (std::size_t stage = 0; stage < whole.calls.size(); ++stage) {
      Calls& calls = whole.calls[stage][r];
      const Calls& fewer = part.calls[stage][p];
      calls.number += (calls.number - fewer.number) * times;
      repeat(calls.bytes, fewer.bytes, times);
    }
  }
  return std::move(whole).table();
}

std::vector<TrafficRow> merge_traffic(std::vector<TrafficRow> closed_form, const std::vector<TrafficRow>& counted) {
  for (const TrafficRow& row : counted) {
    const auto it =
        std::find_if(closed_form.begin(), closed_form.end(), [&](const TrafficRow& r) { return same_row(r, row); });
    if (it == closed_form.end()) {
      closed_form.push_back(row);
      continue;
    }
    it->level = row.level;
    it->calls = row.calls;
    it->bytes_per_call = row.bytes_per_call;
    it->simulated_bytes = row.simulated_bytes;
  }
  return closed_form;
}

}  // namespace orrery::workloads
