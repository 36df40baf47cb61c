// CUDA graphs of a recipe in Megatron-Core's names.
#pragma once

#include <string>

#include "tools/import/import.h"
#include "tools/import/sections.h"

namespace orrery::tools {

/// Sets what of a layer the host replays. `at`: the section of the model; `mixture`: whether it has experts. To be
/// called when `software` is set.
void take_recipe_graphs(Sections& config, Draft& draft, const std::string& at, bool mixture);

}  // namespace orrery::tools
