// A recommender (recommender.h) as layers of one rank: embedding tables shared out over ranks, everything else repeated
// on each of them.
//
// Its layers, in order: the tables; the bottom MLP with the tables that every rank holds whole; one layer for each
// cross layer, the first of which puts vectors and dense features together; the top MLP with the loss.
//
// Vectors travel once the rank of a table has added up the rows of a sample, and gradients of these sums come back the
// same way, beside the bottom MLP (and the tables that every rank holds), which needs neither. Where ranks exchange
// among nodes, each node's GPUs hold a part of the rows of its tables: their sums are reduced inside the node to the
// GPU at the receiver's place, which sends them on (HugeCTR's hierarchical exchange).
//
// Kernels of the tables follow HugeCTR's embedding collection (NVIDIA-Merlin/HugeCTR, HugeCTR/embedding): keys are
// dealt out to the ranks that hold them, sorted by row with a radix sort, and counted; rows are read and added up;
// gradients are gathered by row, added up, and each row that was met is updated once. A row lies anywhere in memory, so
// what reads or writes rows is timed as a look-up. Tables are fp32, vectors on their way 16 bit (mixed precision).
//
// The MLPs' products add bias and activation themselves, and the gradients' take them off (cuBLASLt epilogues,
// HugeCTR's fused MLP); a cross layer x0 * (U (V x) + b) + x takes one kernel behind its products, and one more for the
// gradients of x0 and of the product (HugeCTR/src/layers/multi_cross_layer.cu).
//
// Left out: the reading of samples from disk; rows that stay in a cache because they are looked up often; compression
// of vectors below 16 bit.
#include "workloads/model/recommender.h"

#include <cmath>

#include "sim/real.h"
#include "workloads/model/families/families.h"

namespace orrery::workloads {

namespace {

using calibration::Streaming;

using sim::real;

constexpr double kKey = 4, kWeight = 4;  // bytes of a row's number and of a table's weight

class RecommenderWriter {
 public:
  RecommenderWriter(const Model& model, const Split& split, const Computation& computation)
      : model_(model.recommender),
        split_(split),
        type_(computation.precision.matmul),
        e_(calibration::bytes_of(computation.precision.activations)),
        samples_(split.micro_batch),
        ranks_(split.expert * split.expert_tensor) {}

  Layer tables();
  Layer bottom();
  Layer cross(bool first);
  Layer top();

 private:
  bool shared() const { return ranks_ > 1; }
  TableShards shards() const { return shared() ? model_.plan.busiest : all_tables(model_); }
  double of_width(double rows) const { return rows * real(model_.width); }
  /// Elements of the vectors that a rank sends, or of a buffer of as many: of the whole batch, for its tables. A node's
  /// GPUs share them out.
  double sent() const {
    return of_width(whole_batch() * load_of(model_, shards()).vectors) / real(split_.expert_tensor);
  }
  double whole_batch() const { return real(samples_ * ranks_); }
  double interaction() const { return real(samples_ * model_.interaction()); }

  void forward(const char* name, Streaming kernel, double elements, double bytes_each) {
    layer_.ops.push_back(StreamingOp{name, kernel, elements, bytes_each, Direction::forward});
  }
  void backward(const char* name, Streaming kernel, double elements, double bytes_each) {
    layer_.ops.push_back(StreamingOp{name, kernel, elements, bytes_each, Direction::backward});
  }
  void exchange(CommGroup group, Exchange how, double elements, double bytes_each, const char* what, CommOp::In in) {
    layer_.ops.push_back(
        CommOp{group, how, elements, bytes_each, what, what, CommOverlap::behind, CommOverlap::behind, 0, in});
  }
  void linear(const char* name, std::int64_t out, std::int64_t in) {
    layer_.ops.push_back(LinearOp{{MatMul{name, out, in, samples_, type_}}});
    layer_.weights.push_back({name, real(out) * real(in) + real(out), real(in)});
    layer_.kept.push_back({name, real(samples_) * real(in), e_, 0});
  }
  void mlp(const char* name, std::int64_t in, const std::vector<std::int64_t>& widths) {
    for (const std::int64_t out : widths) {
      linear(name, out, in);
      in = out;
    }
  }
  /// A sample meets the rows that it looks up. `apart`: no other rank holds them.
  void weigh(const char* name, const TableLoad& load, bool apart) {
    const double met = load.elements > 0 ? std::fmin(1, of_width(load.lookups) / load.elements) : 1;
    layer_.weights.push_back({name, load.elements, 0, false, apart, met});
  }
  void sort_keys(double keys, Direction direction);
  void updates(const TableShards& shards, double samples, double lookups);
  Layer take(LayerKind kind) {
    Layer out = std::move(layer_);
    out.kind = kind;
    layer_ = {};
    return out;
  }

  const Recommender& model_;
  const Split& split_;
  DataType type_;
  double e_;  // bytes of an activation
  std::int64_t samples_, ranks_;
  Layer layer_;
};

/// Keys with their places, sorted by eight bits at a time (CUB's onesweep radix sort), rows that follow each other told
/// apart and counted.
void RecommenderWriter::sort_keys(double keys, Direction direction) {
  constexpr double kPair = 8;
  constexpr int kPasses = 4;
  const auto add = [&](const char* name, double bytes_each) {
    layer_.ops.push_back(StreamingOp{name, Streaming::copy, keys, bytes_each, direction});
  };
  // Listed so that they run in this order in the forward pass; of a backward pass the order changes nothing.
  add("keys of this rank", 2 * kKey);
  add("digits of keys", kKey);
  for (int pass = 0; pass < kPasses; ++pass) add("sort keys", 2 * kPair);
  add("rows that are met", 2 * kKey);
  add("count rows", 2 * kKey);
}

/// Gradients added up row by row, and every row that was met updated.
void RecommenderWriter::updates(const TableShards& shards, double samples, double lookups) {
  const double rows = of_width(distinct_rows(model_, shards, samples));
  const double states = model_.table_optimizer == TableOptimizer::adagrad ? 2 : 1;
  backward("update rows", Streaming::embedding, rows, kWeight * (1 + 2 * states));
  backward("write gradients of rows", Streaming::copy, rows, kWeight);
  backward("add up gradients by row", Streaming::embedding, of_width(lookups), e_);
}

Layer RecommenderWriter::tables() {
  const TableShards held = shards();
  const TableLoad load = load_of(model_, held);
  const double lookups = whole_batch() * load.lookups / real(split_.expert_tensor);
  const TableShards part = [&] {  // of the rows of a node's tables
    TableShards parts = held;
    for (TableShard& shard : parts) shard.rows /= real(split_.expert_tensor);
    return parts;
  }();
  if (lookups > 0) {
    updates(part, whole_batch(), lookups);
    if (!model_.prefetches) sort_keys(lookups, Direction::forward);
    forward("look rows up", Streaming::embedding, of_width(lookups), kWeight);
    // Every GPU of a node has sums of its own rows for all vectors of the node.
    forward("write sums of rows", Streaming::copy, of_width(whole_batch() * load.vectors), e_);
  }
  if (split_.expert_tensor > 1 && load.vectors > 0) {
    exchange(CommGroup::tables_node, Exchange::reduce_scatter, sent() * real(split_.expert_tensor), e_,
             "vectors inside the node", CommOp::In::forward);
  }
  if (split_.expert > 1 && load.vectors > 0)
    exchange(CommGroup::tables, Exchange::all_to_all, sent(), e_, "vectors, forward", CommOp::In::forward);
  TableLoad fullest = load_of(model_, shared() ? model_.plan.fullest : held);
  fullest.elements /= real(split_.expert_tensor);
  weigh("tables", fullest, true);
  layer_.kept.push_back({"keys", 2 * lookups, kKey, 0});
  layer_.working.push_back({"gradients of rows", of_width(distinct_rows(model_, part, whole_batch())), kWeight, 0});
  if (shared()) layer_.kept.push_back({"vectors sent", sent(), e_, 0});
  return take(LayerKind::embedding);
}

/// What needs no vectors of others, and runs beside their exchange: tables on every rank, and the bottom MLP.
Layer RecommenderWriter::bottom() {
  const TableShards held = shared() ? replicated_tables(model_) : TableShards{};
  const TableLoad load = load_of(model_, held);
  if (!held.empty()) {
    updates(held, real(samples_), real(samples_) * load.lookups);
    forward("look rows up (on every rank)", Streaming::embedding, of_width(real(samples_) * load.lookups), kWeight);
    forward("write sums of rows (on every rank)", Streaming::copy, of_width(real(samples_) * load.vectors), e_);
    weigh("tables on every rank", load, false);
  }
  const double keys = whole_batch() * load_of(model_, shards()).lookups / real(split_.expert_tensor);
  // The next batch's, while gradients of vectors are on their way.
  if (model_.prefetches && keys > 0) sort_keys(keys, Direction::backward);
  mlp("bottom MLP", model_.dense_features, model_.bottom);
  return take(LayerKind::block);
}

/// `first`: behind the bottom MLP, whose output and vectors it puts side by side.
Layer RecommenderWriter::cross(bool first) {
  const double x = interaction();
  if (first) {
    const TableLoad load = load_of(model_, shards());
    if (split_.expert_tensor > 1 && load.vectors > 0)
      exchange(CommGroup::tables_node, Exchange::reduce_scatter, sent() * real(split_.expert_tensor), e_,
               "gradients of vectors inside the node", CommOp::In::backward);
    if (split_.expert > 1 && load.vectors > 0)
      exchange(CommGroup::tables, Exchange::all_to_all, sent(), e_, "gradients of vectors, backward",
               CommOp::In::backward);
    // Vectors of parts of a table are added up; their gradient goes to all.
    const double received = shared() ? of_width(real(samples_) * model_.plan.vectors) : 0;
    backward("gradients by rank", Streaming::copy, x + received, e_);
    forward("add up vectors and put features together", Streaming::copy, x + received, e_);
    layer_.kept.push_back({"interaction", x, e_, 0});
  }
  if (model_.cross_layers > 0) {
    // Reads the gradient, x0, the product and x0's gradient; writes the product's gradient and x0's.
    backward("add gradients of the layer's input", Streaming::accumulate, x, 3 * e_);
    linear("cross V", model_.cross_rank, model_.interaction());
    linear("cross U", model_.interaction(), model_.cross_rank);
    backward("gradients of cross", Streaming::accumulate, x, 6 * e_);
    forward("cross", Streaming::accumulate, x, 4 * e_);
    layer_.kept.push_back({"product of cross", x, e_, 0});
  }
  return take(LayerKind::block);
}

Layer RecommenderWriter::top() {
  // The next batch's keys go to the ranks that hold their rows, beside the top MLP.
  if (model_.plan.ranks > 1 && shared()) {
    const double keys = real(samples_) * [&] {
      double sum = 0;
      for (const EmbeddingTable& table : model_.tables) sum += real(table.lookups);
      return sum - load_of(model_, replicated_tables(model_)).lookups;
    }();
    if (keys > 0) exchange(CommGroup::tables, Exchange::all_to_all, keys, kKey, "keys", CommOp::In::forward);
  }
  mlp("top MLP", model_.interaction(), model_.top);
  backward("loss backward", Streaming::cross_entropy, real(samples_), 3 * e_);
  forward("loss", Streaming::cross_entropy, real(samples_), 3 * e_);
  return take(LayerKind::head);
}

}  // namespace

Network dlrm(const Model& model, const Split& split, const Computation& computation) {
  RecommenderWriter writer(model, split, computation);
  Network out;
  out.kinds = {writer.tables(), writer.bottom(), writer.cross(true)};
  out.layers = {0, 1, 2};
  const std::int64_t crosses = model.recommender.cross_layers;
  if (crosses > 1) {
    out.layers.insert(out.layers.end(), static_cast<std::size_t>(crosses - 1), 3);
    out.kinds.push_back(writer.cross(false));
  }
  out.layers.push_back(static_cast<std::uint8_t>(out.kinds.size()));
  out.kinds.push_back(writer.top());
  return out;
}

}  // namespace orrery::workloads
