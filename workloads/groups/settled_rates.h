// Rates that stand for a whole step, where a simulation of every rate's changes would not end.
//
// On ten thousand GPUs in an order that leaves nothing alike, every group of ranks meets other groups on its links, and
// these meet others: whenever one of thousands of collectives begins or ends, the rates of all of them move a little.
// Groups of one kind, however, are under way together (all stages gather tensors, all replicas reduce gradients), so
// each keeps here the rate that it makes when all of its kind begin at once with as many bytes and share links max-min
// fairly; kinds do not meet. Groups that differ in nothing but their members' place along the tensor dimension run in
// step, at the pace and latency of their slowest; so the ranks of a tensor group fold.
//
// How far off: 4 to 6 % slow on 1024 GPUs at random, and see tests/workloads/settled_rates_test.cc. Left out: groups of
// a kind that begin at other times than the rest, and what a group loses to other kinds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "sim/network.h"
#include "sim/plan.h"

namespace orrery::workloads {

/// More classes of ranks than this, and rates are settled before the step is simulated.
inline constexpr std::size_t kMostSharing = 512;

/// Puts every communicator of `plan` on a link of its own that runs at its settled rate. `kind_of` and `alike`, by
/// communicator: those of one kind are under way together, those of a kind with the same `alike` run in step.
void settle_rates(const sim::Plan& plan, std::span<const std::int64_t> kind_of, std::span<const std::int64_t> alike,
                  sim::Network& network);

}  // namespace orrery::workloads
