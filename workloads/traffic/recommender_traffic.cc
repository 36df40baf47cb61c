// What recommenders send, by formula. See recommender_traffic.h.
//   vectors: each of N ranks sends (N-1)/N of B x v x width elements, v the vectors of its tables, there and back;
//   among k nodes of g GPUs the same of B x v x width / g, after (g-1)/g of B x v x width inside the node;
//   keys: (N-1)/N of the look-ups of its B / N samples, 4 bytes each.
// As everywhere the busiest rank stands for all.
#include "workloads/traffic/recommender_traffic.h"

#include "sim/real.h"

namespace orrery::workloads {

namespace {
using sim::real;

double mlp_parameters(std::int64_t in, const std::vector<std::int64_t>& widths) {
  double sum = 0;
  for (const std::int64_t out : widths) {
    sum += real(in + 1) * real(out);
    in = out;
  }
  return sum;
}

bool repeats(const TablePlan& plan, std::size_t table) {
  for (const std::int32_t t : plan.replicated) {
    if (static_cast<std::size_t>(t) == table) return true;
  }
  return false;
}
}  // namespace

double repeated_parameters(const Recommender& model) {
  const std::int64_t x = model.interaction(), r = model.cross_rank;
  double sum = mlp_parameters(model.dense_features, model.bottom) + mlp_parameters(x, model.top) +
               real(model.cross_layers) * (real(x + 1) * real(r) + real(r + 1) * real(x));
  for (std::size_t t = 0; t < model.tables.size(); ++t)
    sum += repeats(model.plan, t) ? real(model.tables[t].rows) * real(model.width) : 0;
  return sum;
}

void add_table_rows(const Recommender& model, std::int64_t gpus, double samples, double bytes, TrafficRows& rows) {
  const TablePlan& plan = model.plan;
  double vectors = 0, lookups = 0;
  for (const TableShard& shard : plan.busiest) vectors += shard.columns;
  for (std::size_t t = 0; t < model.tables.size(); ++t) lookups += repeats(plan, t) ? 0 : real(model.tables[t].lookups);
  const double buffer = samples * vectors * real(model.width) * bytes;  // of a node, or of a rank
  const double part = buffer / real(plan.node_ranks);
  if (plan.node_ranks > 1) {
    const double groups = real(plan.ranks);
    rows.add(CommGroup::tables_node, CollectiveOp::reduce_scatter, "vectors inside the node", plan.node_ranks, buffer,
             groups, 0);
    rows.add(CommGroup::tables_node, CollectiveOp::all_gather, "gradients of vectors inside the node", plan.node_ranks,
             buffer, groups, 0);
  }
  if (plan.ranks == 1) return;
  const double groups = real(plan.node_ranks);
  const auto exchange = [&](const char* what, double size) {
    rows.add(CommGroup::tables, CollectiveOp::all_to_all, what, plan.ranks, size, groups, 0);
  };
  exchange("vectors, forward", part);
  exchange("gradients of vectors, backward", part);
  exchange("keys", 4 * lookups * samples / real(gpus));
}

}  // namespace orrery::workloads
