// What a recipe of Megatron-Bridge or of NeMo 2 says beyond the keys that a scenario is made of: without effect on a
// step, or of weight and not simulated.
#pragma once

#include <string>
#include <vector>

#include "tools/import/import.h"
#include "tools/import/sections.h"

namespace orrery::tools {

/// Names the keys that nobody asked for, those of weight first, and tells what a misprint may mean. `bridge`: as
/// Megatron-Bridge's ConfigContainer nests them, else as NeMo 2's recipes do.
void tell_recipe_keys(Sections& config, Draft& draft, bool bridge);

/// Names what was not followed in a file of Python, with lines of one cause together.
void tell_not_followed(Draft& draft, const std::string& file, const std::vector<std::string>& not_followed);

}  // namespace orrery::tools
