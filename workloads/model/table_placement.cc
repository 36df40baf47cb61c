// The balancer of embedding tables. See table_placement.h. Left out: parts of one table on one rank twice, which would
// be one part; parts of unequal size.
#include "workloads/model/table_placement.h"

#include <algorithm>
#include <array>

#include "sim/real.h"

namespace orrery::workloads {

namespace {

using sim::real;

/// How many equal parts each table is cut into; 0: it lies on every rank.
using Cuts = std::vector<std::int64_t>;

class Balancer {
 public:
  Balancer(const Recommender& model, const PlacementPolicy& policy)
      : model_(model), policy_(policy), held_(bytes_of_table_weight(model)) {}

  std::vector<TableShards> best() const {
    switch (policy_.placement) {
      case TablePlacement::automatic:
        return automatic();
      case TablePlacement::table:
        return placed(cuts(1));
      case TablePlacement::row:
      case TablePlacement::column:
        return on_all_ranks();
      case TablePlacement::data:
        break;
    }
    return std::vector<TableShards>(static_cast<std::size_t>(policy_.ranks));
  }

  /// Whether every rank holds the table whole.
  bool replicates(const EmbeddingTable& table) const {
    if (policy_.placement == TablePlacement::data) return true;
    return policy_.placement == TablePlacement::automatic && bytes(table) < policy_.replicated_below;
  }
  double replicated_bytes() const {
    double sum = 0;
    for (const EmbeddingTable& table : model_.tables) sum += replicates(table) ? bytes(table) : 0;
    return sum;
  }
  double cost(const TableShards& shards) const {
    const TableLoad load = load_of(model_, shards);
    return load.lookups + policy_.vector_cost * load.vectors;
  }
  double bytes(const TableShards& shards) const { return load_of(model_, shards).elements * held_; }

 private:
  double bytes(const EmbeddingTable& table) const { return real(table.rows) * real(model_.width) * held_; }
  double capacity() const { return policy_.capacity - replicated_bytes(); }

  Cuts cuts(std::int64_t parts) const {
    Cuts cuts;
    for (const EmbeddingTable& table : model_.tables) cuts.push_back(replicates(table) ? 0 : parts);
    return cuts;
  }

  TableShard part(std::size_t table, std::int64_t parts) const {
    const double share = 1 / real(parts);
    const bool columns = policy_.placement == TablePlacement::column;
    return {static_cast<std::int32_t>(table), columns ? 1 : share, columns ? share : 1};
  }
  double lookups(const Cuts& cuts, std::size_t table) const {
    return real(model_.tables[table].lookups) / real(cuts[table]);
  }

  /// Parts by their look-ups, each on the rank that costs least; nothing where one finds no room. `stuck`: its table.
  std::vector<TableShards> placed(const Cuts& cuts, std::size_t* stuck = nullptr) const {
    std::vector<std::size_t> order;
    for (std::size_t t = 0; t < cuts.size(); ++t) order.insert(order.end(), static_cast<std::size_t>(cuts[t]), t);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return lookups(cuts, a) > lookups(cuts, b); });
    std::vector<TableShards> ranks(static_cast<std::size_t>(policy_.ranks));
    std::vector<double> costs(ranks.size(), 0), held(ranks.size(), 0);
    for (const std::size_t table : order) {
      const TableShards shard{part(table, cuts[table])};
      const double size = bytes(shard);
      std::size_t to = ranks.size();
      for (std::size_t r = 0; r < ranks.size(); ++r) {
        // Parts of a table follow each other, so that a rank's last part tells whether it has one.
        const bool has = !ranks[r].empty() && ranks[r].back().table == shard.front().table;
        if (has || held[r] + size > capacity()) continue;
        if (to == ranks.size() || costs[r] < costs[to]) to = r;
      }
      if (to == ranks.size()) {
        if (stuck != nullptr) *stuck = table;
        return {};
      }
      ranks[to].push_back(shard.front());
      costs[to] += cost(shard);
      held[to] += size;
    }
    return ranks;
  }

  /// Every table cut over all ranks.
  std::vector<TableShards> on_all_ranks() const {
    TableShards parts;
    for (std::size_t t = 0; t < model_.tables.size(); ++t) {
      if (!replicates(model_.tables[t])) parts.push_back(part(t, policy_.ranks));
    }
    if (bytes(parts) > capacity()) return {};
    return std::vector<TableShards>(static_cast<std::size_t>(policy_.ranks), parts);
  }

  double worst(const std::vector<TableShards>& ranks) const {
    double most = 0;
    for (const TableShards& shards : ranks) most = std::max(most, cost(shards));
    return most;
  }

  std::vector<TableShards> automatic() const {
    constexpr int kRounds = 20;
    std::vector<TableShards> best = on_all_ranks();
    Cuts now = cuts(1);
    for (int round = 0; round < kRounds; ++round) {
      std::size_t cut = now.size();
      std::vector<TableShards> ranks = placed(now, &cut);
      if (!ranks.empty() && (best.empty() || worst(ranks) < worst(best))) best = std::move(ranks);
      if (cut == now.size()) {  // all found room: cut what has most look-ups
        for (std::size_t t = 0; t < now.size(); ++t) {
          if (now[t] == 0 || 2 * now[t] > policy_.ranks) continue;
          if (cut == now.size() || lookups(now, t) > lookups(now, cut)) cut = t;
        }
      }
      if (cut == now.size() || 2 * now[cut] > policy_.ranks) break;
      now[cut] *= 2;
    }
    return best;
  }

  const Recommender& model_;
  const PlacementPolicy& policy_;
  double held_;  // bytes of a weight
};

}  // namespace

std::string_view name_of(TablePlacement placement) {
  static constexpr std::array<std::string_view, 5> kNames{"auto", "table", "row", "column", "data"};
  return kNames[static_cast<std::size_t>(placement)];
}

std::optional<TablePlan> place_tables(const Recommender& model, const PlacementPolicy& policy) {
  const Balancer balancer(model, policy);
  if (balancer.replicated_bytes() > policy.capacity) return {};
  const std::vector<TableShards> ranks = balancer.best();
  if (ranks.empty()) return {};
  TablePlan plan;
  double sum = 0;
  for (const TableShards& shards : ranks) {
    sum += balancer.cost(shards);
    plan.vectors += load_of(model, shards).vectors;
    if (balancer.cost(shards) > balancer.cost(plan.busiest)) plan.busiest = shards;
    if (balancer.bytes(shards) > balancer.bytes(plan.fullest)) plan.fullest = shards;
  }
  if (sum > 0) plan.imbalance = balancer.cost(plan.busiest) * real(policy.ranks) / sum;
  for (std::size_t t = 0; t < model.tables.size(); ++t) {
    if (balancer.replicates(model.tables[t])) plan.replicated.push_back(static_cast<std::int32_t>(t));
  }
  return plan;
}

}  // namespace orrery::workloads
