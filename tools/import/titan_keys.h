// What a configuration of TorchTitan says beyond the keys that a scenario is made of: without effect on a step, or of
// weight and not simulated.
#pragma once

#include "tools/import/import.h"
#include "tools/import/sections.h"

namespace orrery::tools {

/// Names the keys that nobody asked for, those of weight first, and tells what a misprint may mean.
void tell_titan_keys(Sections& config, Draft& draft);

}  // namespace orrery::tools
