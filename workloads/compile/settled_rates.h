// Rates that stand for a whole step, where a simulation of every rate's changes would not end.
//
// On ten thousand GPUs in an order that leaves nothing alike, every group of ranks meets other groups on its links, and
// these meet others: whenever one of thousands of collectives begins or ends, the rates of all of them move a little.
// Groups of one kind, however, are under way together (all stages gather tensors, all replicas reduce gradients), so
// each keeps here the max-min fair rate that it gets while all of its kind are; kinds do not meet. Groups that differ
// in nothing but their members' place along the tensor dimension run in step with each other, at the pace and latency
// of their slowest; so the ranks of a tensor group fold. Everything else of the step stays as it is.
//
// How far off: tests/workloads/settled_rates_test.cc has both on 256 GPUs. Left out: what a group gains while others of
// its kind are done, and what it loses to other kinds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "sim/network.h"
#include "sim/plan.h"

namespace orrery::workloads {

/// More classes of ranks than this, and rates are settled before the step is simulated.
inline constexpr std::size_t kMostSharing = 256;

/// Puts every communicator of `plan` on a link of its own that runs at its settled rate. `kind_of` and `alike`, by
/// communicator: those of one kind are under way together, those of a kind with the same `alike` run in step.
void settle_rates(const sim::Plan& plan, std::span<const std::int64_t> kind_of, std::span<const std::int64_t> alike,
                  sim::Network& network);

}  // namespace orrery::workloads
