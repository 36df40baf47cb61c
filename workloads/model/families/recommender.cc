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
// Bytes of what goes with a key while it is dealt out and sorted: its GPU, its place, its table, the width of its rows.
constexpr double kLabel = 4, kPlace = 4, kTable = 4, kWidth = 4;

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
  /// Keys of this rank's samples whose rows other ranks may hold.
  double own_keys() const {
    double sum = 0;
    for (const EmbeddingTable& table : model_.tables) sum += real(table.lookups);
    return real(samples_) * (sum - load_of(model_, replicated_tables(model_)).lookups);
  }
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
  void add_keys(const char* name, double keys, double bytes_each, Direction direction) {
    layer_.ops.push_back(StreamingOp{name, Streaming::copy, keys, bytes_each, direction});
  }
  void deal_keys(double own, double received, double buckets, Direction direction);
  void sort_keys(double keys, bool of_tables, Direction direction);
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

/// A GPU's own samples' keys, and where they go: a GPU for each key, keys sorted by GPU in one pass of eight bits;
/// those that come in are put in the order of tables, samples of each beside each other (key_filtering_operators.cu).
/// `buckets`: of a table and a sample, counted on both sides.
void RecommenderWriter::deal_keys(double own, double received, double buckets, Direction direction) {
  if (!shared() || own <= 0) return;
  add_keys("GPUs of keys", own, 3 * kKey, direction);
  add_keys("keys by GPU", own, kLabel + 2 * (kKey + kLabel), direction);
  add_keys("keys of each table and sample", buckets, 3 * 2 * kPlace, direction);
  add_keys("keys by table", received, 2 * kKey, direction);
}

/// Keys with their places, sorted by eight bits at a time (CUB's onesweep radix sort: digits counted once, pairs read
/// and written in every pass), rows that follow each other told apart and counted (index_calculation.cu, as built with
/// CUB 2.2 and later). Keys of several tables are sorted with their table's number before them, so by eight bytes.
void RecommenderWriter::sort_keys(double keys, bool of_tables, Direction direction) {
  const double sorted = of_tables ? kKey + kTable : kKey;
  if (of_tables) {
    add_keys("keys of this rank", keys, 2 * kKey, direction);
    add_keys("places of keys", keys, kPlace + kTable + kWidth, direction);
    add_keys("tables before keys", keys, kKey + sorted, direction);
  }
  add_keys("digits of keys", keys, sorted, direction);
  for (int pass = 0; pass < static_cast<int>(sorted); ++pass)
    add_keys("sort keys", keys, 2 * (sorted + kPlace), direction);
  if (of_tables) add_keys("keys without tables", keys, sorted + kKey, direction);
  add_keys("rows that are met", keys, kKey + kTable + kPlace, direction);
  add_keys("count rows", keys, 2 * kPlace, direction);
  add_keys("number rows", keys, kPlace + kKey + kTable + kPlace, direction);
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
    if (!model_.prefetches) {
      deal_keys(own_keys(), lookups, whole_batch() * load.vectors, Direction::forward);
      sort_keys(lookups, true, Direction::forward);
    }
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
    sort_keys(real(samples_) * load.lookups, false, Direction::backward);
    forward("look rows up (on every rank)", Streaming::embedding, of_width(real(samples_) * load.lookups), kWeight);
    forward("write sums of rows (on every rank)", Streaming::copy, of_width(real(samples_) * load.vectors), e_);
    weigh("tables on every rank", load, false);
  }
  const TableLoad shared_out = load_of(model_, shards());
  const double keys = whole_batch() * shared_out.lookups / real(split_.expert_tensor);
  // The next batch's, while gradients of vectors are on their way.
  if (model_.prefetches && keys > 0) {
    deal_keys(own_keys(), keys, whole_batch() * shared_out.vectors, Direction::backward);
    sort_keys(keys, true, Direction::backward);
  }
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
    const double keys = own_keys();
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
