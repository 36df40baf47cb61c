// Which rank holds which part of which embedding table.
//
// `automatic` is the greedy planner of HugeCTR (NVIDIA-Merlin/HugeCTR, samples/dlrm/sharding/planner.py): tables below
// a threshold lie on every rank; of the others the parts go, the one with most look-ups first, to the rank whose cost
// is least and that has room; then the part with most look-ups is cut by rows in two, and all are placed again, up to
// 20 times. The placement whose busiest rank costs least wins, among them the one that cuts every table over all ranks.
//   cost of a rank = look-ups of a sample + vector_cost x vectors that it sends
#pragma once

#include <cstdint>
#include <optional>

#include "workloads/model/recommender.h"

namespace orrery::workloads {

enum class TablePlacement : std::uint8_t { automatic, table, row, column, data };
std::string_view name_of(TablePlacement placement);

struct PlacementPolicy {
  TablePlacement placement = TablePlacement::automatic;
  std::int64_t ranks = 1;       // to place on
  double capacity = 0;          // bytes of tables and optimizer that one of them holds
  double vector_cost = 1;       // of sending a vector, in look-ups of a row
  double replicated_below = 0;  // bytes of a table with what its optimizer keeps
};

/// What lies where: `busiest`, `fullest`, `replicated`, `vectors` and `imbalance` of the plan. Nothing where the tables
/// cannot be placed within the capacity.
std::optional<TablePlan> place_tables(const Recommender& model, const PlacementPolicy& policy);

}  // namespace orrery::workloads
