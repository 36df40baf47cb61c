// What would make a scenario fit its memory.
#pragma once

#include <vector>

#include "sim/settings.h"
#include "workloads/step/step.h"

namespace orrery::scenarios {

/// Changes of `document` with which it loads and fits: the single ones, mildest first, at most one per kind of change;
/// where no single one is enough, the least combination found. Empty where nothing tried fits. Takes milliseconds.
/// Throws UserError where the document itself does not load.
std::vector<workloads::Remedy> would_fit(const sim::Settings& document);

}  // namespace orrery::scenarios
