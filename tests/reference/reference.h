// A slow, obvious engine with the meaning that sim/plan.h and sim/engine.h give to a plan: one global clock that
// steps from one instant to the next, the whole state looked at again at each, rates by naive progressive filling
// over all active transfers. Shares no code with the engine but the tables themselves and the definition of noise.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/engine.h"
#include "sim/max_min.h"

namespace orrery::reference {

/// As sim::run with every instance recorded. `events` counts instants, `solves` rate solutions, `stuck` stays empty.
sim::Result run(const sim::Plan& plan, const sim::Network& network);

/// Progressive filling, one level at a time, every link looked at in every round.
std::vector<double> max_min_rates(std::span<const sim::Demand> demands,
                                  const sim::Table<sim::LinkId, double>& capacity);

}  // namespace orrery::reference
