// What files of Axolotl and LLaMA-Factory say beyond the keys that a scenario is made of: without effect on a step, or
// of weight and not simulated.
#pragma once

#include <set>
#include <string>

#include "tools/import/import.h"
#include "tools/import/sections.h"

namespace orrery::tools {

/// Names the keys of the catalogue that nobody asked for, those of weight first, and tells what a misprint may mean.
/// `known`: other keys that are told elsewhere.
void tell_trainer_keys(Sections& config, const std::set<std::string>& known, Draft& draft);

}  // namespace orrery::tools
