// What a configuration of DeepSpeed says beyond the keys that a scenario is made of.
#pragma once

#include "tools/import/import.h"
#include "tools/import/sections.h"

namespace orrery::tools {

/// Names the keys that nobody asked for, those of weight first.
void tell_deepspeed_keys(Sections& config, Draft& draft);

}  // namespace orrery::tools
