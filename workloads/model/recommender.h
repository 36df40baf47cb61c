// A recommender as its paper describes it: dense features through a bottom MLP, categorical features through embedding
// tables, both put together by cross layers, and a top MLP that ends in one number.
//
// Sources: Naumov et al. (arXiv 1906.00091) for DLRM; Wang et al. (arXiv 2008.13535) for DCN-V2, whose cross layers of
// low rank are x' = x0 * (U (V x) + b) + x; MLPerf Training's dlrm_dcnv2 puts the two together.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace orrery::workloads {

struct EmbeddingTable {
  std::int64_t rows = 1;
  std::int64_t lookups = 1;  // of a sample, whose rows are added up to one vector (multi-hot)
  bool operator==(const EmbeddingTable&) const = default;
};

/// What the sparse optimizer keeps beside each weight of a table: nothing, one number for a row (TorchRec), or one for
/// each weight (HugeCTR).
enum class TableOptimizer : std::uint8_t { sgd, rowwise_adagrad, adagrad };
std::string_view name_of(TableOptimizer optimizer);

/// Part of a table that lies on one rank (of an exchange among nodes: on one node).
struct TableShard {
  std::int32_t table = 0;
  double rows = 1;     // share of the table's rows
  double columns = 1;  // share of the width
  bool operator==(const TableShard&) const = default;
};
using TableShards = std::vector<TableShard>;

/// Where the tables lie: see table_placement.h, which makes it.
struct TablePlan {
  std::int64_t ranks = 1;        // that exchange vectors with each other
  std::int64_t node_ranks = 1;   // above 1: `ranks` are nodes, whose tables are cut by rows over so many of their GPUs
  TableShards busiest, fullest;  // of the rank with most to look up and to send; with most parameters
  std::vector<std::int32_t> replicated;  // tables that every rank holds whole
  double imbalance = 1;                  // cost of the busiest rank over the mean
  double vectors = 0;                    // of full width that leave all ranks together for one sample
  bool operator==(const TablePlan&) const = default;
};

struct Recommender {
  std::int64_t dense_features = 0;
  std::vector<std::int64_t> bottom, top;          // widths of the layers' outputs
  std::int64_t cross_layers = 0, cross_rank = 0;  // rank: inner width of U V
  std::int64_t width = 0;                         // of an embedding vector
  std::vector<EmbeddingTable> tables;
  TableOptimizer table_optimizer = TableOptimizer::adagrad;
  /// Of a batch's look-ups, the share that would meet rows of their own in a table without end; the rest repeat those.
  double distinct = 1;
  /// Keys of the next batch are exchanged and sorted beside this one's passes.
  bool prefetches = true;
  TablePlan plan;

  bool any() const { return !tables.empty(); }
  /// Elements that the cross layers and the top MLP read of a sample.
  std::int64_t interaction() const { return width * (static_cast<std::int64_t>(tables.size()) + 1); }
  bool operator==(const Recommender&) const = default;
};

/// Bytes that a weight of a table takes with what its optimizer keeps: both fp32.
double bytes_of_table_weight(const Recommender& model);

/// What a rank does for its shards, in full-width rows for one sample.
struct TableLoad {
  double lookups = 0;   // rows read
  double vectors = 0;   // sums sent
  double elements = 0;  // parameters
};
TableLoad load_of(const Recommender& model, const TableShards& shards);
/// All tables whole, and those that every rank holds.
TableShards all_tables(const Recommender& model);
TableShards replicated_tables(const Recommender& model);

/// Rows, in full widths, that a batch of so many samples meets in these shards, when look-ups fall on all rows alike:
/// of r rows n look-ups meet r (1 - (1 - 1/r)^n).
double distinct_rows(const Recommender& model, const TableShards& shards, double samples);

}  // namespace orrery::workloads
