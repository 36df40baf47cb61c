// What the schedules with a split backward pass share: when passes run under given times, and where weight gradients,
// which nothing waits for, fill the gaps.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "workloads/schedules/chunk_map.h"
#include "workloads/schedules/schedule.h"

namespace orrery::workloads {

/// Times of the passes of a pipeline, in any one unit.
struct PipelineTimes {
  struct Passes {
    double forward = 1, input_gradient = 1, weight_gradient = 1;
  };
  std::vector<Passes> cells;  // stage x chunks + chunk
  double message = 0;         // from one stage to the next
  double kept_between = 1;    // share of what a forward pass keeps that stays from b to W
  const Passes& of(const ChunkMap& map, Cell cell) const {
    return cells[static_cast<std::size_t>(cell.stage * map.chunks() + cell.chunk)];
  }
};

/// Forward passes `warm_up` ahead, weight gradients `lag` micro-batches behind: ZB-H1 and ZB-H2 are of this form.
std::vector<Pass> delayed_weight_gradients(std::int32_t warm_up, std::int32_t lag, std::int32_t microbatches);

/// A stage's order from a repeating building block (arXiv 2405.15362, section 4): at which unit of time F and b of
/// micro-batch 0 stand; every micro-batch comes `interval` later; W takes the next free unit.
struct BuildingBlock {
  std::int32_t forward[2], input_gradient[2];  // by chunk
  std::int32_t interval = 6;
};
std::vector<Pass> repeated(const BuildingBlock& block, std::int32_t microbatches);

/// Runs orders by these times; returns the longest time from a stage's first pass to its last (the step's period when
/// stages step their optimizers apart; Qi et al., arXiv 2401.10241, appendix G), nothing when the orders lock up.
std::optional<double> longest_stage(const StageOrders& orders, const ChunkMap& map, const PipelineTimes& times);
/// By more than rounding: sums of the same times in another order differ in their last digits, and of orders that take
/// as long the first stays.
bool is_shorter(double time, double than);

/// Keeps the order of F and b and puts W where a stage would wait, or where one more F would hold more than
/// `held_at_most` chunks; `eager` also where the wait is shorter than W.
StageOrders place_weight_gradients(const StageOrders& orders, const ChunkMap& map, const PipelineTimes& times,
                                   std::int64_t held_at_most, bool eager);

/// The heuristic of the zero-bubble paper (arXiv 2401.10241, section 3.1) for one chunk per stage: fill the wait for
/// the first gradient with forward passes as memory allows, go on with one forward and one backward in turn, let weight
/// gradients fill waits and give memory back; its three yes-or-no choices are tried in all combinations. As in the
/// authors' code (zero-bubble-pipeline-parallelism, zb_schedules.py and auto_schedule.py) every stage is taken for the
/// median one, and a micro-batch whose b is done counts with the share of its activations that W still needs, so that
/// more than `held_at_most` may be under way.
StageOrders search_zero_bubble(std::int64_t stages, std::int32_t microbatches, std::int64_t held_at_most,
                               const PipelineTimes& times);

/// The orders that a schedule runs under these times: its paper's own, or, where its authors place weight gradients by
/// times, the best by longest_stage of that, of that with weight gradients placed anew, and, with one chunk, of
/// search_zero_bubble's.
StageOrders best_orders(const Schedule& schedule, const PipelineShape& shape, const PipelineTimes& times);

}  // namespace orrery::workloads
