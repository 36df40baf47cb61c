// Counts over the tables of a recommender. See recommender.h. Left out: that some rows are looked up more often than
// others, but for the share Recommender::distinct; caches that hold such rows.
#include "workloads/model/recommender.h"

#include <array>
#include <cmath>

#include "sim/real.h"

namespace orrery::workloads {

namespace {
using sim::real;
/// Share of a whole row that a look-up of a part of it moves: at least a sector of 32 bytes of the memory (CUDA C++
/// Best Practices Guide, section "Coalesced Access to Global Memory").
double moved_columns(const Recommender& model, const TableShard& shard) {
  constexpr double kSector = 32, kWeightBytes = 4;
  return std::fmax(shard.columns, std::fmin(1, kSector / kWeightBytes / real(model.width)));
}
const EmbeddingTable& table_of(const Recommender& model, const TableShard& shard) {
  return model.tables[static_cast<std::size_t>(shard.table)];
}
}  // namespace

std::string_view name_of(TableOptimizer optimizer) {
  static constexpr std::array<std::string_view, 3> kNames{"sgd", "rowwise_adagrad", "adagrad"};
  return kNames[static_cast<std::size_t>(optimizer)];
}

double bytes_of_table_weight(const Recommender& model) {
  constexpr double kWeightBytes = 4;
  switch (model.table_optimizer) {
    case TableOptimizer::sgd:
      return kWeightBytes;
    case TableOptimizer::rowwise_adagrad:
      return kWeightBytes + 4 / real(model.width);
    case TableOptimizer::adagrad:
      return kWeightBytes + 4;
  }
  return kWeightBytes;
}

TableLoad load_of(const Recommender& model, const TableShards& shards) {
  TableLoad load;
  for (const TableShard& shard : shards) {
    const EmbeddingTable& table = table_of(model, shard);
    load.lookups += real(table.lookups) * shard.rows * moved_columns(model, shard);
    load.vectors += shard.columns;
    load.elements += real(table.rows) * shard.rows * real(model.width) * shard.columns;
  }
  return load;
}

TableShards all_tables(const Recommender& model) {
  TableShards shards;
  for (std::size_t t = 0; t < model.tables.size(); ++t) shards.push_back({static_cast<std::int32_t>(t)});
  return shards;
}

TableShards replicated_tables(const Recommender& model) {
  TableShards shards;
  for (const std::int32_t table : model.plan.replicated) shards.push_back({table});
  return shards;
}

double distinct_rows(const Recommender& model, const TableShards& shards, double samples) {
  double sum = 0;
  for (const TableShard& shard : shards) {
    const EmbeddingTable& table = table_of(model, shard);
    const double rows = real(table.rows) * shard.rows;
    const double lookups = model.distinct * samples * real(table.lookups) * shard.rows;
    const double met = rows > 1 ? -rows * std::expm1(lookups * std::log1p(-1 / rows)) : std::fmin(rows, lookups);
    sum += met * moved_columns(model, shard);
  }
  return sum;
}

}  // namespace orrery::workloads
